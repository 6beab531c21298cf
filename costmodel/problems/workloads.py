"""Finds workloads: presets, YAML files, inline text such as `gemm:M=384,N=4096,K=1024`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from costmodel.other_kinds import refuse_other_kind
from costmodel.problems.affine import Axis, Family, Tensor, Workload
from costmodel.problems.bits import with_bits
from costmodel.problems.workload_families import (
    FAMILIES,
    Cnn,
    Conv1d,
    Einsum,
    Gemm,
    Mttkrp,
    OutputName,
    cnn,
    conv1d,
    einsum,
    from_sizes,
    gemm,
    mttkrp,
)
from mapspace.arguments import wrong_type
from mapspace.errors import ConfigError
from mapspace.near_names import meant
from mapspace.strict_yaml import (
    Identifier,
    Name,
    Size,
    StrictModel,
    load_yaml,
    shown,
    unknown_name,
    validate,
)

__all__ = [
    "Axis",
    "Family",
    "Tensor",
    "Workload",
    "cnn",
    "conv1d",
    "einsum",
    "gemm",
    "mttkrp",
    "network",
    "network_names",
    "workload",
    "workload_names",
]

PRESETS = Path(__file__).parents[1] / "presets"
_NETWORK = "network-"
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,40}")


class _File(StrictModel):
    """A workload's file: one family with its sizes, or the whole nest."""

    name: Name | None = None
    cnn: Cnn | None = None
    conv1d: Conv1d | None = None
    gemm: Gemm | None = None
    mttkrp: Mttkrp | None = None
    dimensions: dict[Identifier, Size] | None = Field(default=None, min_length=1)
    tensors: dict[Identifier, tuple[Axis, ...]] | None = None
    output: OutputName | None = None
    roles: dict[Identifier, Literal["input", "weight"]] | None = None
    bits: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_form(self) -> _File:
        families = [family for family in FAMILIES if getattr(self, family) is not None]
        needed = [name for name, field in Einsum.model_fields.items() if field.is_required()]
        nest = [key for key in Einsum.model_fields if getattr(self, key) is not None]
        if len(families) + bool(nest) != 1:
            given = ", ".join(families + nest) or "none of them"
            raise ValueError(
                f"expected either one of {', '.join(FAMILIES)} with its sizes, or "
                f"{', '.join(needed)} together; got {given}."
            )
        absent = [key for key in needed if nest and key not in nest]
        if absent:
            raise ValueError(f"missing {', '.join(absent)} beside {', '.join(nest)}.")
        return self

    def form(self, where: str) -> Cnn | Conv1d | Gemm | Mttkrp | Einsum:
        for family in FAMILIES:
            sizes: Cnn | Conv1d | Gemm | Mttkrp | None = getattr(self, family)
            if sizes is not None:
                return sizes
        given = {key: getattr(self, key) for key in Einsum.model_fields}
        nest = {key: value for key, value in given.items() if value is not None}
        return validate(Einsum, nest, where)


class _Layer(StrictModel):
    """Convolutions of one shape in a network; squares, so one size for width and height."""

    names: tuple[Name, ...] = Field(min_length=1)
    """The layers that have the shape."""
    K: Size
    C: Size
    P: Size
    R: Size = 1
    stride: Size = 1
    groups: Size = 1

    def workload(self, name: str) -> Workload:
        sizes = {"P": self.P, "Q": self.P, "R": self.R, "S": self.R}
        more = {"stride": self.stride, "groups": self.groups}
        return cnn(name, N=1, K=self.K, C=self.C, **sizes, **more)


class _Network(StrictModel):
    layers: tuple[_Layer, ...] = Field(min_length=1)


WorkloadSource = str | Path | Mapping[str, Any] | Workload
"""What names, describes or is a workload."""


def workload(source: WorkloadSource) -> Workload:
    """Finds or builds a workload.

    Args:
        source: a preset's name (`ResNet_Conv_4` and `resnet-conv4` are the same), the path of a
            YAML file, inline text such as `cnn:N=4,K=320,C=960,P=7,Q=7,R=1,S=1,stride=1`, the
            content of such a file, or a workload, which is returned.

    Raises:
        ConfigError: one line that names the file, the key, what came and what is allowed.
    """
    if isinstance(source, Workload):
        return source
    if isinstance(source, Mapping):
        return _from_file(source, where="workload", default_name=None)
    if not isinstance(source, str | Path):
        raise wrong_type(
            "workload", "a name, a file, inline text, a file's content or a workload", source
        )
    if isinstance(source, str):
        if ":" in source and not os.path.isfile(source):
            return _inline(source)
        is_file = Path(source).suffix.lower() in (".yaml", ".yml")
        preset = None if is_file else _preset(source)
        if preset is not None:
            return preset
        if not is_file and not os.path.isfile(source):
            refuse_other_kind("workload", source)
            hint = meant(source, workload_names(), count=5)
            raise ConfigError(
                f"Unknown workload {shown(source)}{hint} Expected a preset "
                "(`mapspace list workloads` prints them), a YAML file, or inline text such as "
                "gemm:M=384,N=4096,K=1024."
            )
    return _from_file(load_yaml(source), where=str(source), default_name=Path(source).stem)


def workload_names() -> tuple[str, ...]:
    """All presets: the named problems, then every convolution of every network."""
    layers = [
        f"{name}-{layer}"
        for name in network_names()
        for row in _network(name)
        for layer in row.names
    ]
    return (*_problems(), *layers)


def network_names() -> tuple[str, ...]:
    """The networks whose convolutions are presets, sorted."""
    return tuple(sorted(path.stem[len(_NETWORK) :] for path in PRESETS.glob(f"{_NETWORK}*.yaml")))


def network(name: str) -> list[tuple[Workload, int]]:
    """The convolutions of a network for one image.

    Args:
        name: one of `network_names()`, in any case.

    Returns:
        Each distinct layer once, in the order of the network, with how often it occurs. It bears
        the name of its first occurrence.

    Raises:
        ConfigError: there is no such network.
    """
    known = {_key(known): known for known in network_names()}
    if _key(name) not in known:
        raise unknown_name("network", name, network_names())
    found = known[_key(name)]
    return [(row.workload(f"{found}-{row.names[0]}"), len(row.names)) for row in _network(found)]


def named_layers(name: str) -> list[tuple[str, Workload]]:
    """Every convolution of a network by its own name, equal ones too; `name` as `network_names`."""
    return [
        (layer, row.workload(f"{name}-{layer}")) for row in _network(name) for layer in row.names
    ]


def _key(name: str) -> str:
    """What names are compared by: letters and digits only, in lower case."""
    return re.sub(r"[-_\s]", "", name).lower()


def _preset(name: str) -> Workload | None:
    key = _key(name)
    for known, content in _problems().items():
        if _key(known) == key:
            return _from_file(content, where=f"preset {known}", default_name=known)
    for prefix in network_names():
        if not key.startswith(_key(prefix)):
            continue
        for row in _network(prefix):
            for layer in row.names:
                if _key(f"{prefix}-{layer}") == key:
                    return row.workload(f"{prefix}-{layer}")
    return None


@lru_cache(maxsize=1)
def _problems() -> dict[str, dict[str, Any]]:
    return load_yaml(PRESETS / "workloads.yaml")


@lru_cache(maxsize=16)
def _network(name: str) -> tuple[_Layer, ...]:
    path = PRESETS / f"{_NETWORK}{name}.yaml"
    return validate(_Network, load_yaml(path), str(path)).layers


def _from_file(data: Mapping[str, Any], *, where: str, default_name: str | None) -> Workload:
    refuse_other_kind("workload", where, data)
    file = validate(_File, dict(data), where)
    form = file.form(where)
    name = file.name or default_name
    if name is None:
        family = next((key for key in FAMILIES if getattr(file, key) is form), None)
        name = "einsum" if isinstance(form, Einsum) else f"{family}:{form.label()}"
    found = form.workload(name, where)
    return found if file.bits is None else with_bits(found, file.bits, f"{where}: bits")


def _inline(text: str) -> Workload:
    """Reads `family:key=value,key=value`."""
    family, _, body = text.partition(":")
    family = family.strip().lower()
    if family not in FAMILIES:
        refuse_other_kind("workload", text)
        raise ConfigError(
            f"{text}: expected one of {', '.join(FAMILIES)} before the colon, got {shown(family)}."
        )
    if re.search(r"=\s*\d+[\s;]+\w+\s*=", body):
        meant = re.sub(r"(?<=\d)[\s;,]+(?=\w+\s*=)", ",", body.strip())
        raise ConfigError(f"{text}: expected commas between the sizes: {family}:{meant}.")
    sizes: dict[str, int] = {}
    for part in body.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise ConfigError(f"{text}: expected key=value, got {shown(part)}.")
        if key in sizes:
            raise ConfigError(f"{text}: the key {key!r} is given twice.")
        if _WHOLE_NUMBER.fullmatch(value) is None:
            raise ConfigError(f"{text}: {key}: expected a whole number, got {shown(value)}.")
        sizes[key] = int(value)
    return from_sizes(family, sizes, name=None, where=text)
