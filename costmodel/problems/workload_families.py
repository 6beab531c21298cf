"""The families of workloads: each builds its loop nest from a few named sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from costmodel.problems.affine import MAX_TENSORS, Axis, Family, Tensor, Workload
from mapspace.strict_yaml import Identifier, Size, StrictModel, shown, validate


class Sizes(StrictModel):
    """What a family needs to know about one of its workloads."""

    _of_the_input: ClassVar[Mapping[str, str]] = {}
    """What is meant by names that others have for sizes of the input."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_sizes_of_the_input(cls, value: object) -> object:
        for key, meant in cls._of_the_input.items():
            if isinstance(value, Mapping) and key in value:
                raise ValueError(f"expected {meant}, in place of {key}.")
        return value

    def label(self) -> str:
        """The sizes as inline text; those at their default of 1 are left out."""
        defaults = {key: field.default for key, field in type(self).model_fields.items()}
        return ",".join(f"{key}={value}" for key, value in self if value != defaults[key])

    def workload(self, name: str, where: str) -> Workload:
        """Builds the loop nest.

        Args:
            name: the workload's name.
            where: what an error message starts with.

        Raises:
            ConfigError: the nest is too large for exact counts.
        """
        raise NotImplementedError


class Cnn(Sizes):
    """A convolution layer; P and Q are sizes of the output, K and C count per group."""

    N: Size
    """Images."""
    K: Size
    """Output channels of one group."""
    C: Size
    """Input channels of one group."""
    P: Size
    """Width of the output."""
    Q: Size
    """Height of the output."""
    R: Size
    """Width of the filter."""
    S: Size
    """Height of the filter."""
    stride: Size = 1
    dilation: Size = 1
    groups: Size = 1
    _of_the_input = dict.fromkeys("HW", "P and Q, the width and height of the output")

    def workload(self, name: str, where: str) -> Workload:
        """Dimensions N K C P Q R S, with G after N where there are groups."""
        group = "G, " if self.groups > 1 else ""
        columns = f"{self.stride}*P + {self.dilation}*R"
        rows = f"{self.stride}*Q + {self.dilation}*S"
        tensors = _tensors(
            f"Weights[{group}K, C, R, S]",
            f"Inputs[N, {group}C, {columns}, {rows}]",
            f"Outputs[N, {group}K, P, Q]",
        )
        dimensions = {"N": self.N}
        if group:
            dimensions["G"] = self.groups
        dimensions.update(K=self.K, C=self.C, P=self.P, Q=self.Q, R=self.R, S=self.S)
        return _build(name, where, "cnn", dimensions, tensors)


class Conv1d(Sizes):
    """A convolution along one axis."""

    N: Size = 1
    """Sequences."""
    K: Size = 1
    """Output channels."""
    C: Size = 1
    """Input channels."""
    P: Size
    """Length of the output."""
    R: Size
    """Length of the filter."""
    stride: Size = 1
    dilation: Size = 1
    _of_the_input = dict.fromkeys("LW", "P, the length of the output")

    def workload(self, name: str, where: str) -> Workload:
        """Dimensions N K C P R."""
        tensors = _tensors(
            "Weights[K, C, R]",
            f"Inputs[N, C, {self.stride}*P + {self.dilation}*R]",
            "Outputs[N, K, P]",
        )
        dimensions = {"N": self.N, "K": self.K, "C": self.C, "P": self.P, "R": self.R}
        return _build(name, where, "conv1d", dimensions, tensors)


class Gemm(Sizes):
    """A product of matrices, `Z[M, N] += A[M, K] B[K, N]`."""

    M: Size
    N: Size
    K: Size

    def workload(self, name: str, where: str) -> Workload:
        """Dimensions M N K."""
        dimensions = {"M": self.M, "N": self.N, "K": self.K}
        return _build(name, where, "gemm", dimensions, _tensors("A[M, K]", "B[K, N]", "Z[M, N]"))


class Mttkrp(Sizes):
    """A matricised tensor times Khatri-Rao product, `O[I, J] += A[I, K, L] B[K, J] C[L, J]`."""

    I: Size  # noqa: E741 - the paper's name
    J: Size
    K: Size
    L: Size

    def workload(self, name: str, where: str) -> Workload:
        """Dimensions I J K L; one (i, j, k, l) counts as one MAC, as Timeloop counts."""
        dimensions = {"I": self.I, "J": self.J, "K": self.K, "L": self.L}
        tensors = _tensors("A[I, K, L]", "B[K, J]", "C[L, J]", "O[I, J]")
        return _build(name, where, "mttkrp", dimensions, tensors)


def _one_name(value: object) -> object:
    """Says what is meant where a list of outputs comes."""
    if isinstance(value, list | tuple):
        raise ValueError(
            f"expected the name of exactly one tensor, got {shown(value)}; operations with several "
            "outputs are evaluated as records, not searched."
        )
    return value


OutputName = Annotated[Identifier, BeforeValidator(_one_name)]


class Einsum(StrictModel):
    """Any perfect affine loop nest, as it is written in YAML."""

    dimensions: dict[Identifier, Size] = Field(min_length=1)
    """Sizes by dimension."""
    tensors: dict[Identifier, tuple[Axis, ...]]
    """Axes by tensor, each a sum such as `2*P + R`."""
    output: OutputName
    """The tensor that is accumulated into."""
    roles: dict[Identifier, Literal["input", "weight"]] = Field(default_factory=dict)
    """What machines call the inputs; `input` where nothing is said."""

    @field_validator("tensors", mode="before")
    @classmethod
    def _check_count(cls, value: object) -> object:
        """Before each of thousands is read."""
        if isinstance(value, Mapping) and len(value) > MAX_TENSORS:
            raise ValueError(f"expected at most {MAX_TENSORS}, got {len(value):,}.")
        return value

    @model_validator(mode="after")
    def _check_output(self) -> Einsum:
        if self.output not in self.tensors:
            raise ValueError(
                f"output: expected one of the tensors {', '.join(self.tensors)}, "
                f"got {shown(self.output)}."
            )
        inputs = [name for name in self.tensors if name != self.output]
        for name in self.roles:
            if name not in inputs:
                raise ValueError(
                    f"roles.{name}: expected one of the inputs {', '.join(inputs)}; the output's "
                    "role is output."
                )
        return self

    def workload(self, name: str, where: str) -> Workload:
        """Dimensions and inputs in the order of the file, then the output.

        Args:
            name: the workload's name.
            where: what an error message starts with.

        Raises:
            ConfigError: a tensor and the dimensions do not fit together.
        """
        names = [*(key for key in self.tensors if key != self.output), self.output]
        tensors = tuple(
            Tensor(
                name=key,
                axes=self.tensors[key],
                output=key == self.output,
                role=self.roles.get(key),
            )
            for key in names
        )
        return _build(name, where, "einsum", self.dimensions, tensors)


FAMILIES: dict[str, type[Sizes]] = {"cnn": Cnn, "conv1d": Conv1d, "gemm": Gemm, "mttkrp": Mttkrp}
"""The families that a few sizes describe."""


def from_sizes(family: str, sizes: object, *, name: str | None, where: str) -> Workload:
    """Builds a workload of one of `FAMILIES`.

    Args:
        family: the family's name.
        sizes: a mapping of sizes.
        name: the workload's name; without one, its inline form.
        where: what an error message starts with.

    Raises:
        ConfigError: a size is missing, unknown, or no whole number of at least 1.
    """
    given = validate(FAMILIES[family], sizes, where)
    return given.workload(name or f"{family}:{given.label()}", where)


def cnn(name: str | None = None, **sizes: int) -> Workload:
    """A convolution layer: dimensions N K C P Q R S, with G after N where there are groups.

    `Outputs[N, K, P, Q] += Weights[K, C, R, S] Inputs[N, C, stride*P + dilation*R, ...]`; with
    groups > 1 the dimension G indexes all three tensors. A depthwise layer has K = C = 1, a
    pointwise one R = S = 1, a fully connected one P = Q = R = S = 1.

    Args:
        name: the workload's name; without one, its inline form.
        **sizes: N (images), K and C (output and input channels of one group), P and Q (width and
            height of the output), R and S (of the filter); optionally stride, dilation, groups.

    Raises:
        ConfigError: a size is missing, unknown, or no whole number of at least 1.
    """
    return from_sizes("cnn", sizes, name=name, where=name or "cnn")


def conv1d(name: str | None = None, **sizes: int) -> Workload:
    """A convolution along one axis: dimensions N K C P R.

    `Outputs[N, K, P] += Weights[K, C, R] Inputs[N, C, stride*P + dilation*R]`.

    Args:
        name: the workload's name; without one, its inline form.
        **sizes: P and R; optionally N, K, C, stride and dilation, each 1 by default.

    Raises:
        ConfigError: a size is missing, unknown, or no whole number of at least 1.
    """
    return from_sizes("conv1d", sizes, name=name, where=name or "conv1d")


def gemm(name: str | None = None, **sizes: int) -> Workload:
    """A product of matrices, `Z[M, N] += A[M, K] B[K, N]`: dimensions M N K.

    Args:
        name: the workload's name; without one, its inline form.
        **sizes: M, N and K.

    Raises:
        ConfigError: a size is missing, unknown, or no whole number of at least 1.
    """
    return from_sizes("gemm", sizes, name=name, where=name or "gemm")


def mttkrp(name: str | None = None, **sizes: int) -> Workload:
    """A matricised tensor times Khatri-Rao product: dimensions I J K L.

    `O[I, J] += A[I, K, L] B[K, J] C[L, J]`.

    Args:
        name: the workload's name; without one, its inline form.
        **sizes: I, J, K and L.

    Raises:
        ConfigError: a size is missing, unknown, or no whole number of at least 1.
    """
    return from_sizes("mttkrp", sizes, name=name, where=name or "mttkrp")


def einsum(name: str, **nest: Any) -> Workload:
    """Any perfect affine loop nest.

    Args:
        name: the workload's name.
        **nest: `dimensions` (sizes by name), `tensors` (axes by name, each written such as
            `2*P + R`) and `output` (the tensor that is accumulated into).

    Raises:
        ConfigError: one line that names what is wrong with the nest.
    """
    return validate(Einsum, nest, name).workload(name, name)


@lru_cache(maxsize=256)
def _tensors(*written: str) -> tuple[Tensor, ...]:
    """Tensors from their written form, `Inputs[N, C, 2*P + R]`, the output last."""
    tensors = []
    for position, text in enumerate(written):
        name, _, axes = text.rstrip("]").partition("[")
        tensors.append(
            Tensor(
                name=name,
                axes=tuple(Axis.model_validate(axis) for axis in axes.split(",")),
                output=position == len(written) - 1,
            )
        )
    return tuple(tensors)


def _build(
    name: str,
    where: str,
    family: Family,
    dimensions: dict[str, int],
    tensors: tuple[Tensor, ...],
) -> Workload:
    content = {"name": name, "family": family, "dimensions": dimensions, "tensors": tensors}
    return validate(Workload, content, where)
