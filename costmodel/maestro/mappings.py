"""Cluster mappings: what MAESTRO calls a dataflow, for a whole batch of layers and arrays at once.

Letters: B mappings (axis 0, always). The columns of `bounds` are `DIMENSIONS`; those of the order
and the tile are `TILED`, and a dimension's number is its place in `TILED`. R and S are never
tiled. P is the output's width, Q its height. Source: MAESTRO (Kwon et al., MICRO 2019).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mapspace.errors import ConfigError, ContractError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

DIMENSIONS = ("K", "C", "R", "S", "P", "Q")
TILED = ("K", "C", "P", "Q")
K, C, P, Q = range(4)
TILED_COLUMNS = (0, 1, 4, 5)  # of `bounds`
PARALLEL = 3  # clusters at most
NONE = -1  # a parallel dimension that is not there

UNLIMITED = 2**40
LARGEST = 2**53  # counts above are not exact in float64

_WIDTHS = {
    "bounds": len(DIMENSIONS),
    "stride": 0,
    "depthwise": 0,
    "order": len(TILED),
    "tile": len(TILED),
    "parallel_dims": PARALLEL,
    "parallel_factors": PARALLEL,
    "row_stationary": 0,
    "noc_bandwidth": 0,
    "hop_latency": 0,
    "processing_elements": 0,
    "l1_capacity": 0,
    "l2_capacity": 0,
}
_LIMITS = ("processing_elements", "l1_capacity", "l2_capacity")
_FLAGS = ("depthwise", "row_stationary")


def _missing() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterMappings:
    """B mappings of convolution tiles onto clusters of processing elements.

    A level-3 tile of the layer lies in the L2 buffer. It is cut into steps in `order`; at each step
    every processing element of the array computes one level-1 tile. Level j of the clusters splits
    `parallel_dims[:, j]` over `parallel_factors[:, j]` sub-clusters, consecutive tiles to
    consecutive ones. The row-stationary style adds clusters of R elements, one per filter row.

    Attributes:
        bounds: `[B, 6]` loop bounds of the level-3 tile, by `DIMENSIONS`.
        stride: `[B]` of both window axes.
        depthwise: `[B]` bool; K is then 1, and the weights and outputs are indexed by C.
        order: `[B, 4]` dimension numbers, outermost loop first, each once.
        tile: `[B, 4]` level-1 tile of a processing element, by `TILED`.
        parallel_dims: `[B, 3]` dimension numbers, outermost cluster first, `NONE` behind the last.
        parallel_factors: `[B, 3]` sub-clusters, 1 where there is no dimension.
        row_stationary: `[B]` bool; one parallel dimension, Q, with a level-1 tile of one row.
        noc_bandwidth: `[B]` elements per cycle of each level's network.
        hop_latency: `[B]` cycles.
        processing_elements: `[B]` of the platform; `UNLIMITED` if not given.
        l1_capacity: `[B]` elements of one processing element's buffer, likewise.
        l2_capacity: `[B]` elements of the shared buffer, likewise.
        strict: refuse mappings whose tiles and factors do not divide the bounds.

    Raises:
        ContractError: a wrong shape or type, naming both.
        ConfigError: a value no mapping may have: `row N: what, where`.
    """

    bounds: IntArray
    stride: IntArray
    depthwise: BoolArray
    order: IntArray
    tile: IntArray
    parallel_dims: IntArray
    parallel_factors: IntArray
    row_stationary: BoolArray
    noc_bandwidth: IntArray
    hop_latency: IntArray
    processing_elements: IntArray = dataclasses.field(default_factory=_missing)
    l1_capacity: IntArray = dataclasses.field(default_factory=_missing)
    l2_capacity: IntArray = dataclasses.field(default_factory=_missing)
    strict: bool = True

    def __post_init__(self) -> None:
        batch = len(self.bounds)
        for name in _LIMITS:
            if getattr(self, name).size == 0:
                object.__setattr__(self, name, np.full(batch, UNLIMITED, np.int64))
        for name, width in _WIDTHS.items():
            array = getattr(self, name)
            shape = (batch, width) if width else (batch,)
            if not isinstance(array, np.ndarray) or array.shape != shape:
                got = getattr(array, "shape", type(array).__name__)
                raise ContractError(
                    f"Expected {name} of shape {shape} (batch, {width}), got {got}."
                )
            kind = np.bool_ if name in _FLAGS else np.integer
            if not np.issubdtype(array.dtype, kind):
                raise ContractError(f"Expected {name} of {kind.__name__}, got {array.dtype}.")
            if kind is np.integer:
                object.__setattr__(self, name, array.astype(np.int64, copy=False))
        self._check_values()
        if self.strict and not self.divides.all():
            row = int(np.flatnonzero(~self.divides)[0])
            raise ConfigError(f"row {row}: {self.remainder(row)}")

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def tiled_bounds(self) -> IntArray:
        """`[B, 4]` bounds by `TILED`."""
        return self.bounds[:, TILED_COLUMNS]

    @property
    def spread(self) -> IntArray:
        """`[B, 4]` processing elements along each dimension: the product of its factors."""
        spread = np.ones((4, len(self)), np.int64)
        for dims, factors in zip(self.parallel_dims.T, self.parallel_factors.T, strict=True):
            for d in range(4):
                spread[d] *= np.where(dims == d, factors, 1)
        return spread.T

    @property
    def macs(self) -> IntArray:
        """`[B]` multiply-accumulates of the level-3 tile."""
        macs: IntArray = np.multiply.reduce(self.bounds, axis=1)
        return macs

    @property
    def elements(self) -> IntArray:
        """`[B]` processing elements in use."""
        product = np.multiply.reduce(self.parallel_factors, axis=1)
        elements: IntArray = np.where(self.row_stationary, self.bounds[:, 2], 1) * product
        return elements

    @property
    def divides(self) -> BoolArray:
        """`[B]` whether every array tile (level-1 tile x factors) divides its bound."""
        whole: BoolArray = (self.tiled_bounds % (self.tile * self.spread) == 0).all(axis=1)
        return whole

    def remainder(self, row: int) -> str:
        """Why a mapping does not divide, for a person; empty where it does."""
        for d, name in enumerate(TILED):
            bound = int(self.tiled_bounds[row, d])
            tile, spread = int(self.tile[row, d]), int(self.spread[row, d])
            if bound % (tile * spread):
                return (
                    f"level-1 tile does not divide {name}: expected a divisor of {bound} (level-3 "
                    f"tile), got {tile} x {spread} (tile x elements); only maestro-corrected "
                    "counts remainders."
                )
        return ""

    def rows(self, index: npt.NDArray[np.intp] | BoolArray | slice) -> ClusterMappings:
        """The mappings at an index into the batch."""
        return dataclasses.replace(self, **{name: getattr(self, name)[index] for name in _WIDTHS})

    def _check_values(self) -> None:
        for name in _WIDTHS:
            if name not in (*_FLAGS, "order", "parallel_dims"):
                self._require(getattr(self, name) >= 1, f"expected {name} of at least 1", name)
        # No count may leave what int64 and float64 hold exactly.
        macs = np.multiply.reduce(self.bounds.astype(np.float64), axis=1)
        largest = macs * self.stride.astype(np.float64) ** 2 * self.hop_latency
        self._require(largest < LARGEST, f"expected counts under {LARGEST}", "bounds")
        elements = np.multiply.reduce(self.parallel_factors.astype(np.float64), axis=1)
        self._require(
            elements[:, None] * self.tile < LARGEST,
            f"expected factors x tile under {LARGEST}",
            "parallel_factors",
        )
        self._require(self.tile <= self.tiled_bounds, "expected a tile within the bounds", "tile")
        counted = np.zeros(len(self), np.int64)
        inside = (self.order >= 0) & (self.order < 4)
        for column in self.order.T:
            counted |= 1 << np.clip(column, 0, 3)
        self._require(
            inside.all(axis=1) & (counted == 15), "expected each of 0 to 3 once in order", "order"
        )
        dims = self.parallel_dims
        self._require(
            (dims >= NONE) & (dims < 4), "expected dimensions from -1 to 3", "parallel_dims"
        )
        missing = dims == NONE
        self._require(
            missing[:, 1:] | ~missing[:, :-1], "expected -1 only behind the last", "parallel_dims"
        )
        self._require(
            ~missing | (self.parallel_factors == 1),
            "expected factor 1 where there is no dimension",
            "parallel_factors",
        )
        depthwise_k = self.depthwise & (self.bounds[:, 0] != 1)
        self._require(~depthwise_k, "expected K = 1 of a depthwise layer", "bounds")
        spread_k = self.depthwise[:, None] & (dims == K) & (self.parallel_factors > 1)
        self._require(~spread_k, "expected no K split of a depthwise layer", "parallel_factors")
        rows_only = (self.tile[:, Q] == 1) & (dims[:, 0] == Q) & missing[:, 1]
        self._require(
            ~self.row_stationary | rows_only,
            "expected row-stationary to split only Q, by rows of 1",
            "parallel_dims",
        )

    def _require(self, holds: BoolArray, expected: str, name: str) -> None:
        if not holds.all():
            row = int(np.flatnonzero(~(holds if holds.ndim == 1 else holds.all(axis=1)))[0])
            got = getattr(self, name)[row].tolist()
            raise ConfigError(f"row {row}: {expected}, got {name} {got}.")
