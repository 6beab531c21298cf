"""Marvel's off-chip model: distinct DRAM blocks per multiply-accumulate of a level-3 tile.

Source: Chatarasi et al., "Marvel: A Decoupled Model-driven Approach for Efficiently Mapping
Convolutions on Spatial DNN Accelerators", 2020, section 3.1 (model), 4.1 and Table 3 (results).

The level-3 tile is what the shared L2 buffer holds. Its data movement cost is

    (blocks of W + blocks of I + output_weight x blocks of O) / multiply-accumulates of the tile

where a tensor's blocks are the words of its tile with the innermost axis of its layout divided by
the block size and rounded up; so a layout matters through its innermost axis only. The paper
leaves open what follows; these choices reproduce all 15 rows of its Table 3, L10 with the exception
that `layer_of` explains:

- blocks are rounded up along the innermost axis only, never over the whole tile;
- an output block counts twice (Table 2 weighs egress so: ingress + 2 x egress);
- the inputs of a tile are P + S - 1 wide and Q + R - 1 high, **whatever the stride**;
- the filter is unrolled (R and S are not tiled), the batch is 1, tiles divide the bounds, and
  the three tiles must fit twice (double buffering);
- of equal costs the first layout of `LAYOUTS` wins, then the tile first in ascending K, C, P, Q.

Rounding, buffer, stride and unrolling are forced by many rows; the weight of outputs (by L7 and
L12) and the order of ties were inferred from that same table and have no other witness.

Names follow the paper: S and P run along the width (X), R and Q along the height (Y). The `cnn`
workloads call the filter's width R and its height S; `layer_of` translates.

Letters: B tiles, L layouts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.problems.affine import Workload
from costmodel.problems.bits import check_words
from mapspace.errors import ConfigError, ContractError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

DIMENSIONS = ("K", "C", "R", "S", "P", "Q")
"""The order of every tile and of the columns of `[B, 6]` arrays."""

BLOCK_ELEMENTS = 64
"""Elements of a DRAM block: 64 bytes of 8-bit elements (Table 1)."""

OUTPUT_WEIGHT = 2.0
"""What a block of outputs counts against one of weights or inputs."""

_WEIGHTS, _INPUTS, _OUTPUTS = ("K", "C", "S", "R"), ("X", "C", "Y"), ("P", "K", "Q")
_MIRRORED = {"R", "Y", "Q"}


class Layout(NamedTuple):
    """The innermost axis of each tensor in DRAM."""

    weights: str
    """K, C, S or R."""
    inputs: str
    """X, C or Y."""
    outputs: str
    """P, K or Q; K stands for the channels, which in a depthwise layer are C."""

    def __str__(self) -> str:
        return f"W={self.weights}, I={self.inputs}, O={self.outputs}"


LAYOUTS = tuple(
    sorted(
        itertools.starmap(Layout, itertools.product(_WEIGHTS, _INPUTS, _OUTPUTS)),
        key=lambda layout: not _MIRRORED.isdisjoint(layout),
    )
)
"""The paper's 36 = 4 x 3 x 3 layouts, in the order in which they win ties.

The last 24 use R, Y or Q. Exchanging width with height (R with S, X with Y, P with Q) in a layout
only exchanges the tile's P and Q, so where the bounds are square such twins tie, and a square
filter makes R tie with S in any layout. What remains is O = Q with I = X (or P with Y), and
layers whose width and height differ: there the last 24 may win. In Table 3 they never do.
"""


@dataclass(frozen=True)
class Layer:
    """The bounds of a layer as the paper's tables give them; batch 1."""

    name: str
    """How messages call it."""
    K: int
    """Output channels; 1 in a depthwise layer."""
    C: int
    """Input channels; in a depthwise layer, the channels of the outputs too."""
    R: int
    """Height of the filter."""
    S: int
    """Width of the filter."""
    P: int
    """Width of the outputs."""
    Q: int
    """Height of the outputs."""
    stride: int = 1
    """Input elements between neighbouring outputs; this module's model ignores it."""
    depthwise: bool = False
    """Whether channels stay apart, so that C indexes the outputs."""

    def __post_init__(self) -> None:
        for key in (*DIMENSIONS, "stride"):
            if getattr(self, key) < 1:
                raise ConfigError(
                    f"{self.name}: {key}: expected at least 1, got {getattr(self, key)}."
                )
        if self.depthwise and self.K != 1:
            raise ConfigError(f"{self.name}: K: expected 1 in a depthwise layer, got {self.K}.")

    @property
    def bounds(self) -> tuple[int, ...]:
        """`[6]` sizes in the order of `DIMENSIONS`."""
        return tuple(getattr(self, key) for key in DIMENSIONS)

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return math.prod(self.bounds)


def layer_of(
    workload: Workload, *, residual_as: Literal["depthwise", "convolution"] = "depthwise"
) -> Layer:
    """The layer that a workload is to Marvel.

    Args:
        workload: of the `cnn` family with N = 1, no dilation and either no groups or groups of
            one channel (depthwise), or a residual addition, an einsum
            `Outputs[C, P, Q] += Inputs[C, P, Q] * Residual[C, P, Q]`.
        residual_as: what a residual addition counts as. The paper (section 2.1) views it as
            depthwise with a 1 x 1 filter, which leaves one weight per channel of its second
            operand; L1 of Table 3 is that. L10 comes out as printed only as an ordinary
            convolution with K = 1, whose output has a single channel: as depthwise, the printed
            tile would need 202,752 bytes of the 110,592.

    Raises:
        ConfigError: the workload is of another kind.
    """
    check_words(workload, "Marvel")
    sizes = workload.dimensions
    if residual_as not in ("depthwise", "convolution"):
        raise ConfigError(
            f"residual_as: expected 'depthwise' or 'convolution', got {residual_as!r}."
        )
    if workload.family == "einsum" and set(sizes) == {"C", "P", "Q"}:
        axes = [set(tensor.dimensions) for tensor in workload.tensors]
        plain = all(len(axis.terms) == 1 for tensor in workload.tensors for axis in tensor.axes)
        if len(axes) == 3 and plain and all(names == set(sizes) for names in axes):
            depthwise = residual_as == "depthwise"
            return Layer(workload.name, 1, sizes["C"], 1, 1, sizes["P"], sizes["Q"], 1, depthwise)
    if workload.family != "cnn":
        raise _unknown(workload, f"of the family {workload.family}")
    groups = sizes.get("G", 1)
    if sizes["N"] != 1:
        raise _unknown(workload, f"with N = {sizes['N']}")
    if groups > 1 and (sizes["K"], sizes["C"]) != (1, 1):
        raise _unknown(
            workload, f"with {groups} groups of K = {sizes['K']} and C = {sizes['C']} channels"
        )
    steps = {name: step for axis in workload.tensors[1].axes for name, step in axis.terms}
    if (steps["R"], steps["S"]) != (1, 1):
        raise _unknown(workload, f"with dilation {steps['R']}")
    return Layer(
        name=workload.name,
        K=sizes["K"],
        C=groups * sizes["C"],
        R=sizes["S"],
        S=sizes["R"],
        P=sizes["P"],
        Q=sizes["Q"],
        stride=steps["P"],
        depthwise=groups > 1,
    )


def _unknown(workload: Workload, what: str) -> ConfigError:
    return ConfigError(
        f"{workload.name}: Marvel's off-chip model knows cnn workloads with N = 1, dilation 1 and "
        "no groups or groups of one channel, and residual additions (an einsum of three tensors "
        f"over C, P, Q); got one {what}."
    )


def footprint_elements(layer: Layer, tiles: IntArray) -> IntArray:
    """Elements that tiles hold, each tensor once.

    Args:
        layer: the layer.
        tiles: `[B, 6]` sizes in the order of `DIMENSIONS`.

    Returns:
        `[B, 3]` elements of weights, inputs and outputs.
    """
    k, c, r, s, p, q = tiles.T
    channels = c if layer.depthwise else k
    return np.stack([k * c * r * s, (p + s - 1) * (q + r - 1) * c, p * q * channels], axis=1)


def block_table(layer: Layer, tiles: IntArray, block: int) -> dict[tuple[int, str], IntArray]:
    """Distinct blocks by tensor and innermost axis.

    Args:
        layer: the layer.
        tiles: `[B, 6]` sizes in the order of `DIMENSIONS`.
        block: elements of a DRAM block.

    Returns:
        `[B]` blocks by (tensor, axis), tensors 0 for weights, 1 for inputs, 2 for outputs.
    """
    k, c, r, s, p, q = tiles.T
    channels = c if layer.depthwise else k
    axes = (
        {"K": k, "C": c, "S": s, "R": r},
        {"X": p + s - 1, "C": c, "Y": q + r - 1},
        {"P": p, "K": channels, "Q": q},
    )
    elements = footprint_elements(layer, tiles)
    return {
        (tensor, axis): elements[:, tensor] // size * -(-size // block)
        for tensor, sizes in enumerate(axes)
        for axis, size in sizes.items()
    }


@dataclass(frozen=True)
class Movement:
    """What tiles move in each layout.

    Attributes:
        cost: `[B, L]` weighted blocks per multiply-accumulate.
        blocks: `[B, L, 3]` distinct blocks of weights, inputs and outputs of one tile.
    """

    cost: FloatArray
    blocks: IntArray


def data_movement_cost(
    layer: Layer,
    tiles: npt.ArrayLike,
    layouts: Sequence[Layout] = LAYOUTS,
    *,
    block_elements: int = BLOCK_ELEMENTS,
    output_weight: float = OUTPUT_WEIGHT,
) -> Movement:
    """The cost of tiles in layouts (section 3.1).

    Costs are quotients of whole numbers where the weight is one, so that equal costs compare
    equal.

    Args:
        layer: the layer.
        tiles: `[B, 6]` tile sizes in the order of `DIMENSIONS`, within the bounds.
        layouts: L of `LAYOUTS`.
        block_elements: elements of a DRAM block.
        output_weight: what a block of outputs counts against one of weights or inputs.

    Raises:
        ConfigError: a parameter is out of range, or a layout is unknown.
        ContractError: tiles are of another shape or out of bounds.
    """
    check_parameters(layouts, block_elements, output_weight)
    sizes = np.asarray(tiles, dtype=np.int64)
    if sizes.ndim != 2 or sizes.shape[1] != 6:
        raise ContractError(f"Expected tiles of shape [B, 6] ({DIMENSIONS}), got {sizes.shape}.")
    wrong = np.flatnonzero(((sizes < 1) | (sizes > layer.bounds)).any(axis=1))
    if wrong.size:
        raise ContractError(
            f"Expected tiles between 1 and the bounds {layer.bounds} of {layer.name}; "
            f"row {wrong[0]} is {tuple(sizes[wrong[0]].tolist())}."
        )
    table = block_table(layer, sizes, block_elements)
    blocks = np.stack(
        [
            np.stack([table[tensor, axis] for tensor, axis in enumerate(layout)], axis=1)
            for layout in layouts
        ],
        axis=1,
    )
    weighted = blocks[..., 0] + blocks[..., 1] + output_weight * blocks[..., 2]
    return Movement(cost=weighted / sizes.prod(axis=1)[:, None], blocks=blocks)


def check_parameters(layouts: Sequence[Layout], block_elements: int, output_weight: float) -> None:
    """Refuses parameters that make no cost.

    Args:
        layouts: expected to be some of `LAYOUTS`.
        block_elements: elements of a DRAM block, at least 1.
        output_weight: a finite number of at least 0.

    Raises:
        ConfigError: one line that names the parameter, what is expected and what came.
    """
    if block_elements < 1:
        raise ConfigError(f"block_elements: expected at least 1, got {block_elements}.")
    if not (math.isfinite(output_weight) and output_weight >= 0):
        raise ConfigError(f"output_weight: expected a number of at least 0, got {output_weight}.")
    if not layouts:
        raise ConfigError("layouts: expected at least one.")
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ConfigError(
                f"layouts: expected innermost axes of W from {', '.join(_WEIGHTS)}, of I from "
                f"{', '.join(_INPUTS)} and of O from {', '.join(_OUTPUTS)}, got {tuple(layout)}."
            )
