"""What a Marvel study comes to: its layers as Marvel sees them, looked up before anything runs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.maestro.distinct_blocks import Layer, layer_of
from costmodel.maestro.model import MaestroModel
from costmodel.maestro.platform import Platform
from costmodel.networks.network import load_network
from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import cnn
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown
from orchestrator.marvel.config import MarvelStudy
from orchestrator.runs.experiments import beside, require_unique

Found = TypeVar("Found")

RESULT_VERSION = 2
"""Rises when what is computed for a layer changes."""


@dataclass(frozen=True)
class StudyLayer:
    """One layer of a study.

    Attributes:
        name: what results call it.
        layer: as Marvel sees it; of a grouped convolution, one group.
        groups: how often it runs: the groups of a grouped convolution that is not depthwise.
        kind: its type as the paper's Table 2 abbreviates it.
        networks: how often each network has it.
    """

    name: str
    layer: Layer
    groups: int
    kind: str
    networks: dict[str, int]


@dataclass(frozen=True)
class Task:
    """What is computed once, however many rows have it.

    Attributes:
        layer: without a name of its own.
        groups: how often it runs.
        accelerator: the machine.
        study: its budgets and bounds.
    """

    layer: Layer
    groups: int
    accelerator: Accelerator
    study: MarvelStudy

    @property
    def key(self) -> str:
        """Equal for equal tasks, whatever the layer and the study are called."""
        study = self.study
        content = (
            RESULT_VERSION,
            MaestroModel.version,
            self.layer.bounds,
            self.layer.stride,
            self.layer.depthwise,
            self.groups,
            self.accelerator.hash,
            study.utilisation_bound,
            study.remainder_seconds,
            study.joint_seconds,
            study.baseline_seconds,
            study.baseline_seeds,
        )
        return hashlib.sha256(repr(content).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class StudyPlan:
    """A study whose names have all been looked up."""

    study: MarvelStudy
    layers: tuple[StudyLayer, ...]
    accelerators: tuple[Accelerator, ...]

    @property
    def rows(self) -> list[tuple[StudyLayer, Task]]:
        """Every layer on every accelerator, in the experiment's order."""
        return [
            (found, Task(_nameless(found.layer), found.groups, machine, self.study))
            for found in self.layers
            for machine in self.accelerators
        ]


def prepare_study(study: MarvelStudy, where: str) -> StudyPlan:
    """Looks up every name of a study.

    Args:
        study: what was read.
        where: what messages start with, such as the file's name; files of workloads, networks and
            accelerators are looked for beside that file first.

    Raises:
        ConfigError: an unknown name, a layer that is no convolution to Marvel, or an accelerator
            that MAESTRO cannot treat; nothing is written.
    """
    layers: list[StudyLayer] = []
    for name in study.workloads:
        with_k = name in study.residuals_as_convolutions
        layers.append(
            _found(where, "workloads", partial(_single, str(beside(name, where)), with_k))
        )
    merged: dict[str, StudyLayer] = {}
    for name in study.networks:
        title, parts = _found(where, "networks", partial(load_network, str(beside(name, where))))
        for part, count in parts:
            found = merged.get(part.hash) or _found(
                where, f"networks: {title}", partial(study_layer, part)
            )
            merged[part.hash] = dataclasses.replace(
                found, networks={**found.networks, title: count}
            )
    layers += merged.values()
    machines = tuple(
        _found(where, "accelerators", partial(_machine, str(beside(name, where))))
        for name in study.accelerators
    )
    require_unique("layers", [found.name for found in layers], where)
    require_unique("accelerators", [machine.name for machine in machines], where)
    return StudyPlan(study, tuple(layers), machines)


def study_layer(
    found: Workload, residual_as: Literal["depthwise", "convolution"] = "depthwise"
) -> StudyLayer:
    """A workload as a layer of a study.

    A convolution with groups of several channels is one group, run once per group; a product of
    matrices `Z[M, N] += A[M, K] B[K, N]` a 1 x 1 convolution of N filters over M pixels of K
    channels; a convolution along one axis has a height of 1.

    Raises:
        ConfigError: it has no such form.
    """
    sizes, groups = found.dimensions, found.dimensions.get("G", 1)
    if found.family == "gemm":
        layer = Layer(found.name, K=sizes["N"], C=sizes["K"], R=1, S=1, P=sizes["M"], Q=1)
        return StudyLayer(found.name, layer, 1, kind_of(layer), {})
    if found.family == "conv1d" or (groups > 1 and (sizes["K"], sizes["C"]) != (1, 1)):
        strides = {name: step for axis in found.tensors[1].axes for name, step in axis.terms}
        plain = cnn(
            found.name,
            **{key: sizes.get(key, 1) for key in ("N", "K", "C", "P", "Q", "R", "S")},
            stride=strides["P"],
            dilation=strides["R"],
        )
        return dataclasses.replace(study_layer(plain), groups=groups)
    if found.family not in ("cnn", "einsum"):
        raise ConfigError(
            f"{found.name}: expected a convolution, a product of matrices or a residual addition, "
            f"which MAESTRO knows, got {shown(found.family)}."
        )
    layer = layer_of(found, residual_as=residual_as)
    kind = "RADD" if found.family == "einsum" else kind_of(layer)
    return StudyLayer(found.name, layer, 1, kind, {})


def kind_of(layer: Layer) -> str:
    """The type of a convolution as the paper's Table 2 abbreviates it."""
    if layer.depthwise:
        return "DSCONV"
    if (layer.P, layer.Q) == (1, 1):
        return "FC"
    pointwise = "PW" if (layer.R, layer.S) == (1, 1) else ""
    return f"{'S' if layer.stride > 1 else ''}{pointwise}CONV"


def _single(source: str, convolution: bool) -> StudyLayer:
    return study_layer(workload(source), "convolution" if convolution else "depthwise")


def _machine(source: str) -> Accelerator:
    machine = accelerator(source)
    Platform.of(machine)
    return machine


def _nameless(layer: Layer) -> Layer:
    """The layer under a name that every equal one can share."""
    return dataclasses.replace(layer, name="the layer")


def _found(where: str, key: str, look_up: Callable[[], Found]) -> Found:
    try:
        return look_up()
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}: {str(error).removeprefix(f'{key}: ')}") from error
