"""What could decide a mapping's true cost, as columns: what a cheap cost model says, and words.

A cheap model knows what it counts. What it leaves out, such as a bandwidth, a start-up time or
reuse that a machine does not get, is mostly a price on words that it counts all the same, or on
words that would move if nothing stayed where it is. All of that is here, and nothing is fitted.

Letters: M mappings, n dimensions, L levels, T tensors, F features, K columns of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import NestTables
from costmodel.costs import Costs
from costmodel.space import Codes
from mapspace.errors import ContractError
from searchers.shared.nest_features import Nests, cycles, descriptors, spell_out

Reals = npt.NDArray[np.float64]


class Causes(NamedTuple):
    """What is known of mappings before they are measured; all finite where the model has a cost.

    Attributes:
        energy: `[M]` ln of the cheap model's energy.
        latency: `[M]` ln of its latency.
        compute: `[M]` ln of the cycles that the multiply-adds take by themselves.
        words: `[M, K]` words that may cost energy, in all instances.
        loads: words that take time together, one group per level and direction: `[M, K]` each.
        steps: `[M]` iterations of the loops of the outermost level.
        features: `[M, F]` what else a correction may look at.
    """

    energy: Reals
    latency: Reals
    compute: Reals
    words: Reals
    loads: tuple[Reals, ...]
    steps: Reals
    features: Reals

    def logs(self, energy: float, latency: float) -> Reals:
        """`[M]` ln of the cheap model's figure: powers of energy and latency."""
        found: Reals = energy * self.energy + latency * self.latency
        return found

    def rows(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Causes:
        """Those of some mappings."""
        loads = tuple(load[chosen] for load in self.loads)
        taken = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return Causes(loads=loads, **taken)


COLUMNS = ("energy", "latency", "compute", "words", "steps", "features")


def join(parts: Sequence[Causes]) -> Causes:
    """Those of mappings of several problems, one after another; all of the same widths."""
    loads = tuple(np.concatenate(group) for group in zip(*(p.loads for p in parts), strict=True))
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return Causes(loads=loads, **columns)


def plain_causes(costs: Costs, features: Reals, compute: Reals | None = None) -> Causes:
    """Those of any model that counts reads, fills and updates per level and tensor.

    Args:
        costs: with detail.
        features: `[M, F]`.
        compute: `[M]` ln cycles of the multiply-adds alone; None: the model's latency.

    Raises:
        ContractError: there is no detail.
    """
    detail = costs.detail
    if detail is None:
        raise ContractError("Causes need costs with detail.")
    read = detail.reads.astype(np.float64)
    written = (detail.fills + detail.updates).astype(np.float64)
    levels = range(read.shape[1])
    passed = (read + written) * detail.instances[:, :, None]
    return Causes(
        energy=_logs(costs.energy_pj),
        latency=_logs(costs.latency_cycles),
        compute=_logs(costs.latency_cycles) if compute is None else compute,
        words=passed.reshape(len(read), -1),
        loads=tuple(words[:, level] for level in levels for words in (read, written)),
        steps=np.ones(len(read)),
        features=features,
    )


def nest_causes(
    tables: NestTables, codes: Codes, costs: Costs, *, described: bool = False
) -> Causes:
    """Those of loop nests: also the words that would leave the outermost level if nothing stayed.

    Features are, as logarithms: tiles over capacities, words without reuse over the cheap model's
    cycles, extents of what one step of the outermost level works on, and its steps.

    Args:
        tables: of the map space, or of some records.
        codes: `[M, D]`.
        costs: of these codes, with detail.
        described: whether all that a mapping is becomes features, too: for mappings that are of one
            problem on one machine.
    """
    nests = spell_out(tables, codes)
    steps = nests.factors[:, :, tables.temporal_slot[0]].prod(axis=1).astype(np.float64)
    restless = _restless(tables, nests)
    features = [
        _margins(tables, nests),
        np.log(restless) - _logs(costs.latency_cycles)[:, None],
        np.log(nests.extents[:, 1]),
        np.log(steps)[:, None],
    ]
    if described:
        features.append(descriptors(tables, codes, nests))
    compute = np.log(cycles(tables, nests)) + np.log(tables.machine.cycles_per_mac)
    plain = plain_causes(costs, np.concatenate(features, axis=1), compute)
    outermost = np.concatenate([plain.loads[0] + plain.loads[1], restless], axis=1)
    return plain._replace(loads=(outermost, *plain.loads[2:]), steps=steps)


def _restless(tables: NestTables, nests: Nests) -> Reals:
    """`[M, T]` words that leave the outermost level if every step of a loop asks for them anew."""
    kept = nests.kept[:, 1:]
    # Of each tensor, the first level inside the outermost one that keeps it.
    level = 1 + kept.argmax(axis=1)
    trips = np.cumprod(nests.factors[:, :, tables.temporal_slot].prod(axis=1), axis=1)
    above = np.take_along_axis(trips, level - 1, axis=1)
    tile = np.take_along_axis(nests.words, level[:, None, :], axis=1)[:, 0]
    instances = np.take_along_axis(nests.instances, level, axis=1)
    words: Reals = (tile * above * instances).astype(np.float64)
    return words


def _margins(tables: NestTables, nests: Nests) -> Reals:
    """`[M, (L - 1) T]` ln of every kept tile over the capacity of its level; 0 where not kept."""
    capacity = np.maximum(tables.capacity[1:], 1)[None, :, None]
    share = np.log(nests.words[:, 1:] / capacity)
    margins: Reals = np.where(nests.kept[:, 1:], share, 0.0)
    return margins.reshape(len(margins), share.shape[1] * share.shape[2])


def _logs(values: Reals) -> Reals:
    """Natural logarithms; what is infeasible counts as 1."""
    logs: Reals = np.log(np.where(np.isfinite(values), np.maximum(values, 1e-300), 1.0))
    return logs
