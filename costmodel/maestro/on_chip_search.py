"""Marvel's Algorithm 1, in batches: every on-chip mapping of a level-3 tile that pruning leaves.

Source: Chatarasi et al., "Marvel", 2020, section 3.2. Beyond its pruning, two exact reductions:

- Of the orders of loops and clusters only those are enumerated that can differ in cost. A loop of
  one trip may stand anywhere, except that the place of the outermost parallel dimension decides
  which halos its neighbours share; a cluster of one sub-cluster is none.
- With fidelity `maestro` every tiling and nesting is costed in one order first. The others cannot
  take fewer cycles than the work and the stores of all steps, or than moving the least inputs and
  weights; nor less energy than with those least reads, all else being independent of the order.
  Where both bounds rule out a new best of any objective, in its family too, they are not costed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costmodel.costs import STATUS_OK
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.counts import FloatArray
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.mappings import NONE, C, ClusterMappings, IntArray, K, P, Q
from costmodel.maestro.model import MaestroCosts, MaestroModel
from costmodel.maestro.on_chip import OnChipSpace
from costmodel.maestro.on_chip_batches import Heads, Walk
from costmodel.maestro.on_chip_tables import OnChipMapping, describe_row, family_of
from costmodel.maestro.pruning import DATAFLOWS, Pruning
from mapspace.errors import ConfigError

OBJECTIVES = ("runtime", "energy", "edp")
Progress = Callable[[int, float], None]
_MIRRORED = {"K": "K", "C": "C", "P": "Q", "Q": "P"}
_SLACK = 1 - 1e-12  # a bound may be this much above its exact value by rounding


@dataclass(frozen=True)
class Best:
    """The least found of one objective.

    Attributes:
        value: of the objective: cycles, units of one multiply-accumulate, or their product.
        runtime_cycles: of the level-3 tile.
        energy: of the level-3 tile, in units of one multiply-accumulate.
        mapping: one row.
    """

    value: float
    runtime_cycles: int
    energy: float
    mapping: ClusterMappings

    @property
    def described(self) -> OnChipMapping:
        """The mapping for people."""
        return describe_row(self.mapping, 0)


@dataclass(frozen=True)
class OnChipOptimum:
    """What an enumeration found.

    Attributes:
        best: by objective.
        families: by parallel dimensions, such as `KC` or `none`, then by objective.
        mappings: those that pass the pruning and can differ in cost.
        evaluated: how many of them were costed; bounds ruled out the others.
        tilings: combinations of pairs that were looked at.
        fitting: how many of them pass the pruning.
        complete: whether the enumeration came to its end.
        seconds: wall time.
    """

    best: dict[str, Best]
    families: dict[str, dict[str, Best]]
    mappings: int
    evaluated: int
    tilings: int
    fitting: int
    complete: bool
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether `best` is the optimum of the pruned space (or of the dataflow)."""
        return self.complete


def on_chip_search(
    layer: Layer,
    tile: Sequence[int],
    accelerator: Accelerator,
    *,
    pruning: Pruning | None = None,
    objectives: Sequence[str] = OBJECTIVES,
    dataflow: str | None = None,
    model: MaestroModel | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> OnChipOptimum:
    """The best on-chip mappings of a level-3 tile, for all objectives in one pass.

    Equal costs: the one enumerated first wins.

    Args:
        layer: the layer.
        tile: `[6]` level-3 tile by `DIMENSIONS`.
        accelerator: the machine.
        pruning: what to leave out; by default only what keeps the optimum, and remainders.
        objectives: some of `OBJECTIVES`.
        dataflow: one of `DATAFLOWS` to enumerate only its mappings.
        model: costs; by default fidelity `maestro` with the accelerator's energies.
        seconds: stop after so long, with what was found till then.
        progress: called after every batch with the mappings evaluated and the share of tilings.

    Raises:
        ConfigError: an unknown objective or dataflow, remainders with fidelity `maestro`, or no
            mapping passes the pruning.
    """
    pruning = pruning or Pruning()
    model = model or model_of(accelerator)
    for name in objectives:
        if name not in OBJECTIVES:
            raise ConfigError(f"Unknown objective {name!r}; known: {', '.join(OBJECTIVES)}.")
    if dataflow is not None and dataflow not in DATAFLOWS:
        raise ConfigError(f"Unknown dataflow {dataflow!r}; known: {', '.join(DATAFLOWS)}.")
    if not pruning.no_remainders and model.fidelity == "maestro":
        raise ConfigError("no_remainders: fidelity maestro needs it on; corrected does not.")
    space = OnChipSpace(layer, tile, accelerator, remainders=not pruning.no_remainders)
    walk = Walk(
        space, pruning, DATAFLOWS[dataflow] if dataflow else None, model.fidelity == "maestro"
    )
    record = _Record(objectives, model)
    start = time.perf_counter()

    def on_time() -> bool:
        if progress is not None:
            progress(record.evaluated, walk.tilings / walk.total)
        return seconds is None or time.perf_counter() - start <= seconds

    complete = all(on_time() for heads in walk.chunks() for _ in record.take(walk, heads))
    if not record.best:
        raise ConfigError(
            f"{layer.name} on {accelerator.name}: no mapping passes the pruning"
            f"{f' and dataflow {dataflow}' if dataflow else ''}; it is {pruning}."
        )
    if walk.symmetric:
        record.mirror()
    return OnChipOptimum(
        best=record.best,
        families=record.families,
        mappings=walk.mappings,
        evaluated=record.evaluated,
        tilings=walk.tilings,
        fitting=walk.fitting,
        complete=complete,
        seconds=time.perf_counter() - start,
    )


def model_of(accelerator: Accelerator, **options: Any) -> MaestroModel:
    """The model with an accelerator's energies, its pJ being the units; options as the model's."""
    shared, private = accelerator.levels[-2:]
    energies = {
        "mac_units": accelerator.mac_energy_pj,
        "l1_access_units": private.energy_pj,
        "l2_access_units": shared.energy_pj,
    }
    return MaestroModel(**{**energies, **options})


class _Record:
    """The best so far, overall and by parallel dimensions."""

    def __init__(self, objectives: Sequence[str], model: MaestroModel) -> None:
        self.objectives = tuple(objectives)
        self.model = model
        self.best: dict[str, Best] = {}
        self.families: dict[str, dict[str, Best]] = {}
        self.evaluated = 0
        self._least = np.full((16, len(self.objectives)), np.inf)  # by mask of parallel dimensions

    def take(self, walk: Walk, heads: Heads) -> Iterator[None]:
        """Costs what may be better than before; yields after every batch."""
        bounds = np.zeros((len(heads), len(self.objectives)))
        for part, mappings in walk.first(heads):
            some = heads.rows(part)
            costs = self._keep(mappings, some.parallel)
            if self.model.fidelity == "maestro":
                bounds[part] = self._bounds(costs, mappings, walk.least_reads(some))
            yield
        hopeful = np.flatnonzero((bounds < self._least[heads.parallel]).any(axis=1))
        for parallel, mappings in walk.others(heads.rows(hopeful)):
            self._keep(mappings, parallel)
            yield

    def mirror(self) -> None:
        """Gives families that differ in P and Q only the better of their two bests."""
        for label, kept in list(self.families.items()):
            names = {_MIRRORED[d] for d in label} if label != "none" else set()
            other = self.families.setdefault(family_of(names), {})
            for name, found in kept.items():
                if name not in other or found.value < other[name].value:
                    other[name] = replace(found, mapping=_mirrored(found.mapping))

    def _values(self, runtime: FloatArray, energy: FloatArray) -> FloatArray:
        """`[B, objectives]`."""
        values = {"runtime": runtime, "energy": energy, "edp": energy * runtime}
        return np.stack([values[name] for name in self.objectives], axis=1)

    def _bounds(
        self, costs: MaestroCosts, mappings: ClusterMappings, reads: tuple[IntArray, IntArray]
    ) -> FloatArray:
        """`[B, objectives]` what no order of the loops can stay below."""
        counts, (inputs, weights) = costs.counts, reads
        assert counts.delays is not None
        steps = (mappings.tiled_bounds // (mappings.tile * mappings.spread)).prod(axis=1)
        compute, drain = counts.delays.compute_cycles, counts.delays.egress_cycles
        work = compute + (steps - 1) * np.maximum(compute, drain)
        moving = compute + (inputs + weights) / mappings.noc_bandwidth
        saved = counts.l2_read[:, 0] - inputs + counts.l2_read[:, 1] - weights
        access = self.model.l1_access_units + self.model.l2_access_units
        energy = (costs.energies.total - saved * access) * _SLACK
        return self._values(np.maximum(work, moving) * _SLACK, energy)

    def _keep(self, mappings: ClusterMappings, parallel: IntArray) -> MaestroCosts:
        costs = self.model.cost(mappings)
        self.evaluated += len(mappings)
        runtime, energy = costs.counts.runtime_cycles, costs.energies.total
        values = self._values(runtime.astype(np.float64), energy)
        for mask in range(16):
            rows = np.flatnonzero((parallel == mask) & (costs.status == STATUS_OK))
            if not rows.size:
                continue
            for column, name in enumerate(self.objectives):
                row = int(rows[np.argmin(values[rows, column])])
                value = float(values[row, column])
                if value >= self._least[mask, column]:
                    continue
                self._least[mask, column] = value
                one = mappings.rows(slice(row, row + 1))
                found = Best(value, int(runtime[row]), float(energy[row]), one)
                family = self.families.setdefault(found.described.family, {})
                for kept in (family, self.best):
                    if name not in kept or value < kept[name].value:
                        kept[name] = found
        return costs


def _mirrored(mapping: ClusterMappings) -> ClusterMappings:
    """The same with P and Q exchanged, for square tiles."""
    swap = np.array([K, C, Q, P, NONE])
    return replace(
        mapping,
        order=swap[mapping.order],
        tile=mapping.tile[:, swap[:4]],
        parallel_dims=swap[mapping.parallel_dims],
    )
