"""What a surrogate is bound to: workload family, accelerator, and the layout of encoded points.

Letters: `n` dimensions, `T` tensors, `L` levels, `F` raw values per point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from costmodel.machines.levels import Words
from costmodel.map_space.orders_of_buffers import BESIDE
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Size, StrictModel, validate

if TYPE_CHECKING:
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.affine import Workload

# Of dimensions and of tensors; features grow with their squares.
MOST_NAMES = 64


Index = Annotated[int, Field(strict=True, ge=0)]


class TensorStructure(StrictModel):
    """One tensor's projection, without sizes."""

    name: str
    """The tensor's name."""
    axes: tuple[tuple[tuple[Index, Size], ...], ...]
    """Per axis its terms (dimension index, coefficient)."""
    output: bool
    """True for the tensor that is written."""


class BufferStructure(StrictModel):
    """One on-chip buffer, as far as a mapping's footprint meets it."""

    name: str
    """The level's name."""
    capacity_words: Words | None
    """Words that one instance holds, None for one without limit."""
    banks: Size | None
    """Banks to share out among the tensors, None for an unpartitioned buffer."""
    keep: tuple[str, ...] = ()
    """Tensors that it holds whatever a mapping says."""
    bypass: tuple[str, ...] = ()
    """Tensors that it never holds."""
    beside: str | None = None
    """The group in whose order mappings may place it; points say where."""


class Structure(StrictModel):
    """What a surrogate is bound to: the shape of its points, never the size of a problem."""

    family: str
    """The workload family, as `Workload.family`."""
    dimensions: tuple[str, ...] = Field(min_length=1, max_length=MOST_NAMES)
    """Dimension names, in the order of the encoded sizes."""
    tensors: tuple[TensorStructure, ...] = Field(min_length=1, max_length=MOST_NAMES)
    """Tensors with their projections, the output last."""
    levels: tuple[str, ...] = Field(min_length=2, max_length=MOST_NAMES)
    """Names of the memory levels, outermost first, [L]."""
    buffers: tuple[BufferStructure, ...] = Field(max_length=MOST_NAMES)
    """The levels inside the outermost one, [L - 1]."""
    bypass: bool
    """True where keep bits are part of a point."""
    accelerator: str
    """The accelerator's name."""
    accelerator_hash: str
    """The accelerator's content hash: a surrogate answers for no other."""
    features: tuple[str, ...]
    """Names of the raw values of a point, [F]."""

    @model_validator(mode="after")
    def _check(self) -> Structure:
        for tensor in self.tensors:
            for index in (index for axis in tensor.axes for index, _ in axis):
                if index >= len(self.dimensions):
                    raise ValueError(
                        f"tensors[{tensor.name}].axes: expected dimensions below "
                        f"{len(self.dimensions)}, got {index}."
                    )
        if self.levels[1:] != tuple(buffer.name for buffer in self.buffers):
            raise ValueError("buffers: expected the levels inside the outermost one.")
        known = self.known_features()
        if self.bypass != any(self.chooses(level) for level in self.levels):
            raise ValueError("bypass: expected true where keep bits are features, else false.")
        if self.features[: len(known)] != known:
            raise ValueError(f"features: expected them to start with {', '.join(known)}.")
        return self

    @classmethod
    def of(cls, space: MapSpace) -> Structure:
        """Reads the structure of a map space.

        Raises:
            ConfigError: If there is one memory level only.
        """
        accelerator, machine = space.accelerator, space.tables.machine
        if len(accelerator.levels) < 2:
            raise ConfigError(
                f"surrogates need an accelerator of at least 2 levels, but {accelerator.name} has "
                f"{len(accelerator.levels)}."
            )

        def names(bits: int) -> tuple[str, ...]:
            return tuple(n for t, n in enumerate(space.workload.tensor_names) if bits >> t & 1)

        buffers = [
            BufferStructure(
                name=level.name,
                capacity_words=level.capacity_words,
                banks=level.banks,
                keep=names(int(machine.always_kept[index])),
                bypass=names(int(machine.never_kept[index])),
                beside=level.beside if f"{BESIDE}.{level.name}" in space.feature_names else None,
            )
            for index, level in enumerate(accelerator.levels)
            if index > 0
        ]
        content = {
            "family": space.workload.family,
            "dimensions": space.workload.dimension_names,
            "tensors": tensors_of(space.workload),
            "levels": accelerator.level_names,
            "buffers": buffers,
            "bypass": bool((space.tables.keep_column >= 0).any()),
            "accelerator": accelerator.name,
            "accelerator_hash": accelerator.hash,
            "features": space.feature_names,
        }
        where = f"surrogates of {space.workload.name} on {accelerator.name}"
        return validate(cls, content, where)

    def spreads(self, level: str) -> bool:
        """Whether a level has loops across its children."""
        return f"spatial.{level}.{self.dimensions[0]}" in self.features

    def chooses(self, level: str) -> bool:
        """Whether mappings choose which tensors a level keeps."""
        return f"keep.{level}.{self.tensors[0].name}" in self.features

    @property
    def slots(self) -> tuple[tuple[str, int], ...]:
        """Where factors stand, outermost first: `temporal` or `spatial`, and the level."""
        found: list[tuple[str, int]] = []
        for index, level in enumerate(self.levels):
            found += [("temporal", index)] + [("spatial", index)] * self.spreads(level)
        return tuple(found)

    def known_features(self) -> tuple[str, ...]:
        """The raw values that `PhysicalFeatures` understands; a point may have more behind them."""
        slots = [f"{kind}.{self.levels[index]}" for kind, index in self.slots]
        ranks = [f"rank.{level}" for level in self.levels]
        names = [f"{of}.{name}" for of in ("problem", *slots, *ranks) for name in self.dimensions]
        tensors = [tensor.name for tensor in self.tensors]
        banked = [f"banks.{buffer.name}" for buffer in self.buffers if buffer.banks is not None]
        kept = [f"keep.{level}" for level in self.levels if self.chooses(level)]
        return tuple(names + [f"{of}.{name}" for of in banked + kept for name in tensors])


def tensors_of(workload: Workload) -> tuple[TensorStructure, ...]:
    """The projections of a workload, with dimensions as indices and without sizes."""
    index = {name: i for i, name in enumerate(workload.dimension_names)}
    return tuple(
        TensorStructure(
            name=tensor.name,
            axes=tuple(
                tuple((index[name], coefficient) for name, coefficient in axis.terms)
                for axis in tensor.axes
            ),
            output=tensor.output,
        )
        for tensor in workload.tensors
    )
