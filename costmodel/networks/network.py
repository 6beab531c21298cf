"""Networks: presets, and YAML files that list layers.

```yaml
name: encoder
layers:
  - resnet50-conv1                                    # a preset's name, a file or inline text
  - {workload: "gemm:M=384,N=1024,K=1024", name: projection, count: 48}
  - {gemm: {M: 384, N: 4096, K: 1024}, count: 12}     # or what a workload's file holds
```
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from costmodel.networks.moves import Words
from costmodel.networks.published_networks import PUBLISHED, moved_words, published_network
from costmodel.networks.transformers import TRANSFORMERS, transformer, uncounted_words
from costmodel.other_kinds import refuse_other_kind
from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import FAMILIES, Cnn, Conv1d, Gemm, Mttkrp
from costmodel.problems.workloads import network, network_names, workload
from mapspace.arguments import wrong_type
from mapspace.errors import ConfigError
from mapspace.near_names import meant, nearest
from mapspace.strict_yaml import (
    Name,
    Size,
    StrictModel,
    load_yaml,
    shown,
    unknown_name,
    validate,
)

MOST_LAYERS = 10_000
"""Entries of a network's file; one may stand for any number of equal layers."""


class _Layer(StrictModel):
    """One entry of the list. What a nest of its own holds is checked by `workload`."""

    workload: Name | None = None
    """A preset's name, a workload's file or inline text; else the workload is in the entry."""
    name: Name | None = None
    """What tables and records call it."""
    count: Size = 1
    """How often the network has it."""
    input: Name | None = None
    """Another layer, whose output it reads; see `costmodel.networks.chains`."""
    until: Name | None = None
    """A layer after which its output is needed again."""
    between: Literal["softmax", "normalisation", "activation"] | None = None
    """What is done to the other layer's output before this one reads it."""
    cnn: Cnn | None = None
    conv1d: Conv1d | None = None
    gemm: Gemm | None = None
    mttkrp: Mttkrp | None = None
    dimensions: dict[str, Any] | None = None
    tensors: dict[str, Any] | None = None
    output: Name | None = None
    roles: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        if isinstance(value, str):
            return {"workload": value}
        if not isinstance(value, Mapping):
            raise ValueError(
                "expected a preset's name, inline text such as gemm:M=384,N=4096,K=1024, or a "
                f"mapping, got {shown(value)}."
            )
        if isinstance(value.get("workload"), Mapping):
            kind = next(iter(value["workload"]), "gemm")
            raise ValueError(
                "workload: expected a name, a file or inline text, got a mapping; what that holds "
                f"stands in the entry itself: {{{kind}: ..., count: 1}}."
            )
        return value

    def build(self, folder: Path) -> Workload:
        content = self.model_dump(
            exclude={"workload", "name", "count", "input", "until", "between"}, exclude_unset=True
        )
        if self.workload is None:
            found = workload(content)
        elif content:
            raise ConfigError(f"expected either workload or {', '.join(content)}, not both.")
        else:
            beside = folder / self.workload
            found = workload(beside if os.path.isfile(beside) else self.workload)
        return found if self.name is None else found.model_copy(update={"name": self.name})


class _Network(StrictModel):
    """A network's file."""

    name: Name | None = None
    """What reports call it; else the file's name."""
    layers: tuple[_Layer, ...] = Field(min_length=1, max_length=MOST_LAYERS)
    """Its layers, in order; equal ones are searched once."""
    left_out: tuple[Name, ...] = ()
    """What it lacks of the network that it was read from, each with the reason."""


def _check_types(data: Mapping[str, Any], source: str) -> None:
    """Refuses sizes under a name that is no type of layer; other keys are left to `validate`.

    Raises:
        ConfigError: there is one.
    """
    layers = data.get("layers")
    for index, entry in enumerate(layers if isinstance(layers, list) else ()):
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            if key in _Layer.model_fields or not isinstance(value, Mapping):
                continue
            close = nearest(key, _Layer.model_fields)
            if not close or close[0] in FAMILIES:
                hint = meant(key, _Layer.model_fields)
                raise ConfigError(
                    f"{source}: layers[{entry.get('name') or index}].{key}: unknown layer type"
                    f"{hint} Known types: {', '.join(FAMILIES)}, or dimensions and tensors."
                )


NetworkSource = str | Path | Mapping[str, Any]
"""A preset's name, a YAML file, or the content of one."""


@dataclass(frozen=True)
class ReadNetwork:
    """A network that was read once.

    Attributes:
        name: its name.
        layers: each distinct layer, under the name of its first occurrence, with how often it
            occurs.
        words: what its operators without multiply-accumulates move, by operator: of a file what its
            layers say to be `between` two.
        left_out: what it lacks of the network that it was read from, each with the reason.
        listed: of a file, or its content, every entry in its order.
    """

    name: str
    layers: list[tuple[Workload, int]]
    words: dict[str, Words]
    left_out: tuple[str, ...] = ()
    listed: tuple[Listed, ...] = ()


def read_network(source: NetworkSource) -> ReadNetwork:
    """Finds a network, and reads its file once.

    Args:
        source: a preset's name, a transformer's, perhaps with what it computes
            (`gpt2:phase=decode`), the path of a YAML file, or the content of one; files that layers
            name are then looked for in the working folder.

    Raises:
        ConfigError: one line that names the file, the key, what came and what is allowed.
    """
    if isinstance(source, Mapping):
        return _read(source, "network", Path(), "network")
    if not isinstance(source, str | Path):
        raise wrong_type("network", "a name, a file or the content of a file", source)
    source = str(source)
    if Path(source).suffix.lower() not in (".yaml", ".yml") and not os.path.isfile(source):
        return ReadNetwork(*_published(source), uncounted_words(source) or moved_words(source))
    path = Path(source)
    return _read(load_yaml(path), source, path.parent, path.stem)


def load_network(source: NetworkSource) -> tuple[str, list[tuple[Workload, int]]]:
    """The name and the distinct layers of a network; see `read_network`."""
    found = read_network(source)
    return found.name, found.layers


def _published(source: str) -> tuple[str, list[tuple[Workload, int]]]:
    """The name and the layers of a network that comes with the package."""
    published = transformer(source) or published_network(source)
    if published is not None:
        return published
    known = (*network_names(), *PUBLISHED, *TRANSFORMERS)
    try:
        preset = network(source)
        name = next(name for name in network_names() if preset[0][0].name.startswith(f"{name}-"))
        return name, preset
    except ConfigError:
        refuse_other_kind("network", source)
        remedy = f"Expected one of {', '.join(known)}, or a YAML file with layers."
        raise unknown_name("network", source, known, remedy=remedy) from None


def words_without_macs(source: NetworkSource) -> dict[str, Words]:
    """Words that a network's operators without multiply-accumulates move; see `read_network`."""
    return read_network(source).words


def left_out_of(source: NetworkSource) -> tuple[str, ...]:
    """What a network that was found lacks of the one that it was read from, each with the reason.

    Args:
        source: as `read_network` takes it.
    """
    if not isinstance(source, Mapping):
        if not os.path.isfile(source):
            return ()
        source = load_yaml(source)
    return tuple(source.get("left_out", ()))


def _read(data: Mapping[str, Any], source: str, folder: Path, unnamed: str) -> ReadNetwork:
    """A network's content.

    Args:
        data: the content.
        source: what messages call it.
        folder: where files that layers name are looked for.
        unnamed: its name where the content has none.

    Raises:
        ConfigError: as in `read_network`.
    """
    name, listed = _listed(data, source, folder)
    found: dict[str, tuple[Workload, int]] = {}
    called = {entry.workload.name for entry in listed}
    for entry in listed:
        layer = entry.workload
        for key, other, where in (
            ("input", entry.input, "before"),
            ("until", entry.until, "after"),
        ):
            if other is not None and other not in called:
                raise ConfigError(
                    f"{source}: layers[{layer.name}].{key}: expected the name of a layer {where} "
                    f"it, got {other!r}{meant(other, called)}"
                )
        before = found.get(layer.hash, (layer, 0))
        found[layer.hash] = before[0], before[1] + entry.count
    layers = list(found.values())
    names = Counter(layer.name for layer, _ in layers)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise ConfigError(
            f"{source}: layers: two different layers are called {twice!r}; give each a name."
        )
    left_out = tuple(data.get("left_out", ()))
    return ReadNetwork(name or unnamed, layers, _moved(listed), left_out, tuple(listed))


def _moved(listed: Sequence[Listed]) -> dict[str, Words]:
    """Words that what stands between a file's layers moves, by operator."""
    found: dict[str, Words] = {}
    read = {entry.input for entry in listed if entry.between is not None}
    written = {
        entry.workload.name: entry.workload.words(-1)
        for entry in listed
        if entry.workload.name in read
    }
    for entry in listed:
        if entry.between is not None and entry.input in written:
            words = entry.count * written[entry.input]
            before = found.get(entry.between, Words(0, 0))
            found[entry.between] = Words(before.reads + words, before.writes + words)
    return found


@dataclass(frozen=True)
class Listed:
    """An entry of a network's file.

    Attributes:
        workload: the layer.
        count: how often it occurs.
        input: the layer whose output it reads.
        until: the one after which its own is needed again.
        between: what is done to what it reads.
    """

    workload: Workload
    count: int
    input: str | None
    until: str | None
    between: str | None


def _listed(data: Mapping[str, Any], source: str, folder: Path) -> tuple[str, list[Listed]]:
    refuse_other_kind("network", source, data)
    _check_types(data, source)
    file = validate(_Network, data, source)
    found = []
    for index, entry in enumerate(file.layers):
        where = f"{source}: layers[{entry.name or index}]"
        try:
            layer = entry.build(folder)
        except ConfigError as error:
            raise ConfigError(f"{where}: {str(error).removeprefix('workload: ')}") from error
        found.append(Listed(layer, entry.count, entry.input, entry.until, entry.between))
    return file.name or "", found
