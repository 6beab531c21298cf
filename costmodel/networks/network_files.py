"""Networks that another tool's file describes, and a network file written of them.

```yaml
# resnet18.yaml: ZigZag's workload
# no multiply-accumulates: 4 (Add) moves 602,112 words
name: resnet18
layers:
- {name: conv1, cnn: {N: 1, K: 64, C: 3, P: 112, Q: 112, R: 7, S: 7, stride: 2}}
- {name: conv2, count: 4, cnn: {N: 1, K: 64, C: 64, P: 56, Q: 56, R: 3, S: 3}}
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml

from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError


class ReadLayer(NamedTuple):
    """A layer as another tool's file describes it."""

    name: str
    content: Mapping[str, Any]
    """What a workload's file holds."""
    place: str
    """Where it stands, which messages start with."""
    times: int = 1
    """How often it stands there."""


class ReadNetwork(NamedTuple):
    """A network as another tool's file describes it."""

    name: str
    layers: tuple[ReadLayer, ...]
    """In the order of the file, equal ones too."""
    source: str
    """The file, and whose it is."""
    without_macs: tuple[str, ...] = ()
    """Operations that multiply nothing, each with the words that it moves."""
    unused: tuple[str, ...] = ()
    """What was read and has no effect on costs."""
    left_out: tuple[str, ...] = ()
    """Layers that were left out, each with the reason."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(layer.times * workload(layer.content).macs for layer in self.layers)


def distinct_layers(network: ReadNetwork) -> list[dict[str, Any]]:
    """Entries of a network's file, with `name` and `count`; equal layers are one.

    Raises:
        ConfigError: no layer has multiply-accumulates, or one is too large.
    """
    entries: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for layer in network.layers:
        try:
            key = workload(layer.content).hash
        except ConfigError as error:
            raise ConfigError(f"{layer.place}: {str(error).removeprefix('workload: ')}") from error
        if key in entries:
            entries[key]["count"] += layer.times
            continue
        entries[key] = {
            "name": _unused_name(layer.name, names),
            "count": layer.times,
            **layer.content,
        }
        names.add(entries[key]["name"])
    if not entries:
        raise ConfigError(f"{network.source}: no layer has multiply-accumulates.")
    return list(entries.values())


def network_text(network: ReadNetwork) -> str:
    """A network's file, in which equal layers stand once.

    Raises:
        ConfigError: as `distinct_layers`.
    """
    entries = distinct_layers(network)
    for entry in entries:
        if entry["count"] == 1:
            del entry["count"]
    lines = [
        f"# {network.source}",
        *(f"# no multiply-accumulates: {what}" for what in network.without_macs),
        *(f"# left out: {what}" for what in network.left_out),
        yaml.safe_dump({"name": network.name}, allow_unicode=True).rstrip(),
        *(["left_out:"] if network.left_out else []),
        *(f"- {_flow(what)}" for what in network.left_out),
        "layers:",
        *(f"- {_flow(entry)}" for entry in entries),
    ]
    return "\n".join(lines) + "\n"


def _unused_name(name: str, names: Iterable[str]) -> str:
    """The name, with a number behind it where another layer has it."""
    numbered = (name if count == 1 else f"{name}-{count}" for count in range(1, 2**31))
    return next(candidate for candidate in numbered if candidate not in names)


def _flow(entry: Mapping[str, Any] | str) -> str:
    text: str = yaml.safe_dump(
        entry, default_flow_style=True, sort_keys=False, width=10**9, allow_unicode=True
    )
    return text.strip()
