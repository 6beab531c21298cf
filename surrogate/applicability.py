"""What a surrogate is bound to: workload family, accelerator, and the layout of encoded points.

Letters: `n` dimensions, `T` tensors, `F` raw values per point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from mapspace.errors import ConfigError
from mapspace.strict_yaml import Size, StrictModel, validate

if TYPE_CHECKING:
    from costmodel.affine import Workload
    from costmodel.loop_nest.map_space import MapSpace

# Encoded slots of tile factors (DRAM, L2, spatial, L1) and levels of loop orders, outermost first.
FACTOR_SLOTS = 4
ORDER_LEVELS = 3
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
    capacity_words: Size
    """Words that one instance holds."""
    banks: Size | None
    """Banks to share out among the tensors, None for an unpartitioned buffer."""


class Structure(StrictModel):
    """What a surrogate is bound to: the shape of its points, never the size of a problem."""

    family: str
    """The workload family, as `Workload.family`."""
    dimensions: tuple[str, ...] = Field(min_length=1, max_length=MOST_NAMES)
    """Dimension names, in the order of the encoded sizes."""
    tensors: tuple[TensorStructure, ...] = Field(min_length=1, max_length=MOST_NAMES)
    """Tensors with their projections, the output last."""
    levels: tuple[str, str, str]
    """Names of the memory levels, outermost first."""
    buffers: tuple[BufferStructure, BufferStructure]
    """The two levels inside the outermost one."""
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
        known = self.known_features()
        if self.features[: len(known)] != known:
            raise ValueError(f"features: expected them to start with {', '.join(known)}.")
        return self

    @classmethod
    def of(cls, space: MapSpace) -> Structure:
        """Reads the structure of a map space.

        Raises:
            ConfigError: If the hierarchy is not DRAM, one shared buffer and one buffer per
                processing element, or the encoded points are others than these have.
        """
        accelerator = space.accelerator
        if len(accelerator.levels) != ORDER_LEVELS:
            raise ConfigError(
                f"surrogates need an accelerator of {ORDER_LEVELS} levels (DRAM, L2, L1), but "
                f"{accelerator.name} has {len(accelerator.levels)}."
            )
        buffers = [
            BufferStructure(name=level.name, capacity_words=words, banks=level.banks)
            for level in accelerator.levels[1:]
            # Only the outermost level may be without a limit.
            if (words := level.capacity_words) is not None
        ]
        content = {
            "family": space.workload.family,
            "dimensions": space.workload.dimension_names,
            "tensors": tensors_of(space.workload),
            "levels": accelerator.level_names,
            "buffers": buffers,
            "bypass": accelerator.bypass == "searched",
            "accelerator": accelerator.name,
            "accelerator_hash": accelerator.hash,
            "features": space.feature_names,
        }
        where = f"surrogates of {space.workload.name} on {accelerator.name}"
        return validate(cls, content, where)

    def known_features(self) -> tuple[str, ...]:
        """The raw values that `PhysicalFeatures` understands; a point may have more behind them."""
        dram, l2, l1 = self.levels
        slots = (f"temporal.{dram}", f"temporal.{l2}", f"spatial.{l2}", f"temporal.{l1}")
        ranks = tuple(f"rank.{level}" for level in self.levels)
        names = [f"{of}.{name}" for of in ("problem", *slots, *ranks) for name in self.dimensions]
        tensors = [tensor.name for tensor in self.tensors]
        banked = [f"banks.{buffer.name}" for buffer in self.buffers if buffer.banks is not None]
        kept = [f"keep.{buffer.name}" for buffer in self.buffers if self.bypass]
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
