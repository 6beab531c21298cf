"""Networks in the order in which they run, with whose output each layer reads.

```yaml
layers:
  - {name: up, gemm: {M: 64, N: 256, K: 64}, count: 12}
  - {name: down, gemm: {M: 64, N: 64, K: 256}, count: 12, input: up}   # reads what `up` writes
```

`until: NAME` says that a layer's output is needed again after another, as by a residual addition;
`between: softmax` (or `normalisation`, `activation`) what is done to it before it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from costmodel.networks.network import Listed, NetworkSource, ReadNetwork, read_network
from costmodel.networks.transformers import is_one_sequence, transformer_layers
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import named_layers, network_names
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class Step:
    """A layer of a network in its order.

    Attributes:
        workload: the layer.
        count: how often it occurs.
        source: the step whose output is its input; None: its input is in DRAM.
        until: the last step that needs its output, itself if none does.
        operator: what is done to its input on the way from the source; None: nothing.
    """

    workload: Workload
    count: int
    source: int | None
    until: int
    operator: str | None = None

    @property
    def words(self) -> int:
        """Words of its output; what a consumer pads is stored nowhere."""
        return self.workload.words(-1)


def load_chain(
    source: NetworkSource, read: Callable[[], ReadNetwork] | None = None
) -> tuple[str, list[Step]]:
    """A network's layers in their order.

    Args:
        source: `alexnet`, `vgg16`, `resnet50`, `mobilenetv2`, a transformer's name, or a file (or
            its content) whose layers say `input`.
        read: the network of a file, where that is read elsewhere, too; None: it is read here.

    Raises:
        ConfigError: there is none of that name, or no layer says whose output it reads, or what is
            said cannot be.
    """
    where = source if isinstance(source, str) else "network"
    if isinstance(source, str) and not Path(source).is_file():
        if source.lower() in network_names():
            return source.lower(), _steps(_preset(source.lower()), where)
        entries = _transformer(source)
        if entries:
            return source, _steps(entries, where)
        if Path(source).suffix.lower() not in (".yaml", ".yml"):
            raise ConfigError(
                f"{source}: of this network the order is not known; expected alexnet, vgg16, "
                "resnet50, mobilenetv2, a transformer, or a YAML file with layers."
            )
    found = read_network(source) if read is None else read()
    return found.name, _steps(found.listed, where)


def _preset(name: str) -> list[Listed]:
    """Convolutional networks: every layer reads the one before, but for projections."""
    layers = sorted(named_layers(name), key=lambda one: _place(name, one[0]))
    found: list[Listed] = []
    block_input: str | None = None
    last: str | None = None
    waiting: dict[str, str] = {}
    for layer, work in layers:
        label = f"{name}-{layer}"
        block = re.search(r"(\d+)_(\d+)_(\w+)$", layer) if name in RESIDUAL else None
        if block is not None and block[3] == (
            "2" if block[1] == "1" and name == "mobilenetv2" else "1"
        ):
            block_input = last
        shortcut = block is not None and block[3] == "shortcut"
        found.append(Listed(work, 1, block_input if shortcut else last, None, None))
        if block is not None and block[3] == "3" and int(block[2]) > 1 and block_input:
            waiting[block_input] = label  # the addition behind the block reads it again
        if not shortcut:
            last = label
    return [replace(one, until=waiting.get(one.workload.name)) for one in found]


RESIDUAL = ("resnet50", "mobilenetv2")
"""Networks whose blocks from the second of a stage on add their input to their output."""


def _place(network: str, layer: str) -> tuple[int, ...]:
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", layer))
    if network == "mobilenetv2" and layer == "conv2":
        return (99,)
    return (*numbers, 9) if layer.endswith("shortcut") else numbers


FEEDERS = {"context": ("scores", "softmax"), "down": ("up", "activation")}
"""Layers of a transformer that read another's output, and what is done to it on the way."""

ORDER = {"patches": 0, "value": 1, "query": 2}
"""Of a transformer's first layers."""

HEADS = {"scores": ("query", None), "projection": ("context", None)}
"""The same of one sequence: columns are told apart as heads, and put side by side again."""


def _transformer(source: str) -> list[Listed]:
    layers = transformer_layers(source)
    if layers is None:
        return []
    found = []
    before: dict[str, tuple[str, int]] = {}
    feeders = {**FEEDERS, **(HEADS if is_one_sequence(source) else {})}
    # Keys and values come first, so that queries are read by the next layer.
    layers.sort(key=lambda layer: ORDER.get(layer[0].name.rpartition("-")[2], len(ORDER)))
    for work, count in _with_gates(layers):
        kind = work.name.rpartition("-")[2]
        feeder, between = feeders.get(kind, (None, None))
        linked = before.get(feeder) if feeder else None
        reads = linked[0] if linked is not None and linked[1] == count else None
        found.append(Listed(work, count, reads, None, between if reads else None))
        before[kind] = work.name, count
    return found


def _with_gates(layers: list[tuple[Workload, int]]) -> Iterator[tuple[Workload, int]]:
    """A gate and the way up that it multiplies as one layer of twice the columns."""
    counts = {work.name.rpartition("-")[2]: count for work, count in layers}
    for work, count in layers:
        kind = work.name.rpartition("-")[2]
        if kind == "up" and count == 2 * counts.get("down", 0):
            sizes = {**work.dimensions, "N": 2 * work.dimensions["N"]}
            name = f"{work.name.removesuffix('up')}gate-up"
            yield work.model_copy(update={"dimensions": sizes, "name": name}), count // 2
        else:
            yield work, count


def _steps(entries: Sequence[Listed], where: str) -> list[Step]:
    places = {entry.workload.name: place for place, entry in enumerate(entries)}
    if len(places) < len(entries):
        raise ConfigError(f"{where}: layers: two layers have one name; give each its own.")
    sources, untils = [], list(range(len(entries)))
    for place, entry in enumerate(entries):
        name = entry.workload.name
        for key, other, after in (("input", entry.input, False), ("until", entry.until, True)):
            if other is None:
                continue
            at = places.get(other)
            if at is None or (at <= place if after else at >= place):
                raise ConfigError(
                    f"{where}: layers[{name}].{key}: expected the name of a layer "
                    f"{'after' if after else 'before'} it, got {other!r}."
                )
            if after:
                untils[place] = max(untils[place], at)
            else:
                untils[at] = max(untils[at], place)
        if entry.between is not None and entry.input is None:
            raise ConfigError(f"{where}: layers[{name}].between: expected an input beside it.")
        if entry.input is not None and list(entry.workload.roles.values()).count("input") != 1:
            raise ConfigError(f"{where}: layers[{name}].input: expected one tensor of role input.")
        sources.append(None if entry.input is None else places[entry.input])
    if all(one is None for one in sources):
        raise ConfigError(
            f"{where}: no layer says whose output it reads (input: NAME), so nothing can stay."
        )
    for place, until in enumerate(untils):
        counts = {entry.count for entry in entries[place : until + 1]}
        if len(counts) > 1:
            raise ConfigError(
                f"{where}: layers[{entries[place].workload.name}]: its output is needed up to "
                f"{entries[until].workload.name}; expected one count between, got "
                f"{', '.join(map(str, sorted(counts)))}."
            )
    return [
        Step(entry.workload, entry.count, source, until, entry.between)
        for entry, source, until in zip(entries, sources, untils, strict=True)
    ]
