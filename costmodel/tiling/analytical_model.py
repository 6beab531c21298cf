"""An analytical cost of tilings: the counting of the loop-nest model on the caches of one core.

A mapping of an accelerator says which tile every memory holds. A cache holds what fits: here a
level keeps the tile of the outermost loop whose three tiles fit it together, and a loop whose tiles
do not fit is served by the level above. Between those tiles the traffic is that of `LoopNestModel`:
equal to it, count for count, where lines are single words and lanes divide the innermost loop.

Not modelled: associativity, prefetching, address translation, dependent multiply-adds, and what
instructions other than multiply-adds cost.

Letters: B tilings, P loops, L memory levels (outermost first), T = 3 tensors A, B, Z.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from costmodel.costs import STATUS_OK, Costs, Detail, FloatArray, IntArray
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.accelerators import accelerator as load_accelerator
from costmodel.space import Codes
from costmodel.tiling.loop_nest import DIMENSIONS, Loop, nest
from costmodel.tiling.space import TilingSpace
from mapspace.errors import ConfigError, ContractError

DEFAULT_ACCELERATOR = "cpu-avx512"
ROWS_AT_ONCE = 4096
LARGEST_COUNT = 2**60

M, K, N = range(len(DIMENSIONS))
TENSORS = ((M, K), (K, N), (M, N))
"""Row and column of A, B and Z; rows lie in memory one after another."""
OUTPUT = 2

Number = TypeVar("Number", int, IntArray)


class _Traffic(NamedTuple):
    """Tiles `[B, L, T]`, reads, fills and updates `[B, 3, L, T]`, vector operations `[B]`."""

    tile: IntArray
    counts: IntArray
    operations: IntArray


class AnalyticalTiling:
    """Energy and cycles of the tilings of a matrix product on one core.

    Latency is the largest of the vector operations over the units and, per level, of the words read
    and of the words taken in over their bandwidth. Every tiling has a cost.

    Attributes:
        accelerator: the core.
        line_words: words of a cache line.
        name: `analytical-tiling`.
        version: changes whenever a figure could change.
    """

    name = "analytical-tiling"

    def __init__(self, accelerator: Accelerator | None = None, *, line_words: int = 16) -> None:
        """Prepares the model.

        Args:
            accelerator: registers innermost, whose mesh is vector lanes x multiply-add units;
                default: the preset `cpu-avx512`.
            line_words: what caches move at least and hold rows in; registers move words.

        Raises:
            ConfigError: a single level; one that fans out above the innermost, has banks, lets
                tensors bypass it or charges for hops; or one too small for three vectors.
        """
        machine = accelerator or load_accelerator(DEFAULT_ACCELERATOR)
        levels = machine.levels
        if isinstance(line_words, bool) or not isinstance(line_words, int) or line_words < 1:
            raise ConfigError(f"line_words: expected a whole number >= 1, got {line_words!r}.")
        if len(levels) < 2:
            raise ConfigError(f"{machine.name}: expected a memory and registers, got 1 level.")
        if machine.bypass != "none":
            raise ConfigError(f"{machine.name}: bypass: expected none, got {machine.bypass}.")
        for level in levels:
            if level.fanout > 1 and level is not levels[-1]:
                raise ConfigError(
                    f"{machine.name}: {level.name}: only the registers ({levels[-1].name}) of a "
                    f"core fan out, got fanout {level.fanout}."
                )
            if level.banks is not None or level.hop_energy_pj > 0:
                raise ConfigError(
                    f"{machine.name}: {level.name}: a core has no banks and no hop energy."
                )
        self.accelerator = machine
        self.line_words = line_words
        self._lanes, self._units = levels[-1].mesh or (levels[-1].fanout, 1)
        for index, level in enumerate(levels[1:], start=1):
            line = line_words if index < len(levels) - 1 else 1
            needed = line + 2 * _round_up(self._lanes, line)
            if (level.capacity_words or 0) < needed:
                raise ConfigError(
                    f"{machine.name}: {level.name}: capacity_words: expected at least {needed} for "
                    f"an element and two vectors, got {level.capacity_words}."
                )

    @property
    def version(self) -> str:
        """Of the formulas, of the machine and of its cache lines."""
        return f"1-{self.accelerator.hash}-{self.line_words}"

    def evaluate(self, space: TilingSpace, codes: Codes, *, detail: bool = False) -> Costs:
        """Costs of a batch of tilings.

        Args:
            space: the space that the codes belong to.
            codes: `[B, D]`.
            detail: also return counts per level and tensor.

        Returns:
            Costs `[B]`, all with status OK; energy in pJ, latency in cycles.

        Raises:
            ContractError: no tiling space, or codes that are none of its.
            ConfigError: the product is so large that counts could leave 64 bits.
        """
        if not isinstance(space, TilingSpace):
            raise ContractError(
                f"AnalyticalTiling needs a TilingSpace, got {type(space).__name__}."
            )
        macs = space.workload.macs
        if macs * self.line_words > LARGEST_COUNT:
            raise ConfigError(f"{space.workload.name}: {macs} multiply-adds are too many to count.")
        factors = space.factors(codes)
        batch, levels = len(codes), self.accelerator.levels
        energy, latency = np.empty(batch), np.empty(batch)
        per_word = np.array([level.energy_pj for level in levels])
        details: list[_Traffic] = []
        for start in range(0, max(batch, 1), ROWS_AT_ONCE):  # an empty batch too has details
            rows = slice(start, start + ROWS_AT_ONCE)
            traffic = self._traffic(space, factors[rows])
            words = traffic.counts.sum(axis=3)
            energy[rows] = words.sum(axis=1) @ per_word + macs * self.accelerator.mac_energy_pj
            latency[rows] = self._cycles(traffic.operations, words)
            if detail:
                details.append(traffic)
        status = np.full(batch, STATUS_OK, np.int32)
        excess = np.zeros(batch, np.int64)
        if not detail:
            return Costs(energy, latency, status, excess)
        tile = np.concatenate([traffic.tile for traffic in details])
        counts = np.concatenate([traffic.counts for traffic in details])
        return Costs(
            energy,
            latency,
            status,
            excess,
            Detail(
                tile=tile,
                reads=counts[:, 0],
                fills=counts[:, 1],
                updates=counts[:, 2],
                instances=np.ones((batch, len(levels)), np.int64),
                energy_pj=counts.sum(axis=1) * per_word[:, None],
                network_energy_pj=np.zeros((batch, len(TENSORS))),
                mac_energy_pj=macs * self.accelerator.mac_energy_pj,
                utilisation=macs / (self.accelerator.processing_elements * latency),
            ),
        )

    def _cycles(self, operations: IntArray, words: IntArray) -> FloatArray:
        """`[B]` cycles of vector operations `[B]` and of words `[B, 3, L]` moved."""
        slowest: FloatArray = np.ceil(operations / self._units)
        for index, level in enumerate(self.accelerator.levels):
            if level.read_bandwidth is not None:
                read = np.ceil(words[:, 0, index] / level.read_bandwidth)
                slowest = np.maximum(slowest, read)
            if level.write_bandwidth is not None:
                written = np.ceil((words[:, 1, index] + words[:, 2, index]) / level.write_bandwidth)
                slowest = np.maximum(slowest, written)
        return slowest

    def _traffic(self, space: TilingSpace, factors: IntArray) -> _Traffic:
        order = nest(space.splits)
        trips = np.ascontiguousarray(factors[:, [loop.column for loop in order]].T)
        batch, levels = trips.shape[1], len(self.accelerator.levels)
        extents = np.ones((len(order) + 1, len(DIMENSIONS), batch), np.int64)
        for position in range(len(order) - 1, -1, -1):
            extents[position] = extents[position + 1]
            extents[position, order[position].dimension] *= trips[position]
        # The innermost loop, of N, runs in vectors of nearly equal width; one stands inside of all.
        steps = -(-trips[-1] // self._lanes)
        width = -(-trips[-1] // steps)
        trips[-1], extents[-1, N] = steps, width
        repeats, operations = _repeats(order, trips)

        output_words = space.workload.words(OUTPUT)
        counts = np.zeros((batch, 3, levels, len(TENSORS)), np.int64)
        tile = np.empty((batch, levels, len(TENSORS)), np.int64)
        # From the inside out: `served` words pass between a level and what stands below it.
        served = np.stack([operations, operations * width, operations * width])
        words, held = self._held(extents)
        for level in range(levels - 1, -1, -1):
            counts[:, 0, level] = served.T
            # Words are not read before they are made; what else is in their line is.
            counts[:, 0, level, OUTPUT] -= output_words
            counts[:, 2, level, OUTPUT] = served[OUTPUT]
            at = held[level][None, None]
            tile[:, level] = np.take_along_axis(words[level], at, axis=0)[0].T
            if level:
                served = tile[:, level].T * np.take_along_axis(repeats, at, axis=0)[0]
                counts[:, 1, level] = served.T
                counts[:, 1, level, OUTPUT] -= output_words
        return _Traffic(tile, counts, operations)

    def _held(self, extents: IntArray) -> tuple[list[IntArray], list[IntArray]]:
        """What each level keeps, given the extents `[P + 1, n, B]` inside of every position.

        Returns:
            Per level the words `[P + 1, T, B]` of the tiles, in whole lines but for registers, and
            `[B]` the first position whose tiles fit together, none outside that of a level further
            out: what a level keeps, those outside of it keep too.
        """
        words: list[IntArray] = []
        held = [np.zeros(extents.shape[2], np.int64)]
        for index, level in enumerate(self.accelerator.levels):
            line = self.line_words if index < len(self.accelerator.levels) - 1 else 1
            tiles = [extents[:, row] * _round_up(extents[:, col], line) for row, col in TENSORS]
            words.append(np.stack(tiles, axis=1))
            if index:
                fits = words[-1].sum(axis=1) <= (level.capacity_words or 0)
                held.append(np.maximum(fits.argmax(axis=0), held[-1]))
        return words, held


def _repeats(order: tuple[Loop, ...], trips: IntArray) -> tuple[IntArray, IntArray]:
    """How often the tile inside a position is brought in, `[P + 1, T, B]`; all iterations `[B]`.

    That is the trips of the loops outside the position, less the innermost of them on which the
    tensor does not depend: while they run its tile stays.
    """
    count, batch = trips.shape
    repeats = np.ones((count + 1, len(TENSORS), batch), np.int64)
    outer = np.ones(batch, np.int64)
    for position, loop in enumerate(order):
        outer = outer * trips[position]
        for tensor, dimensions in enumerate(TENSORS):
            before = repeats[position, tensor]
            turns = (trips[position] > 1) & (loop.dimension in dimensions)
            repeats[position + 1, tensor] = np.where(turns, outer, before)
    return repeats, outer


def _round_up(number: Number, step: int) -> Number:
    return -(-number // step) * step
