"""The bound over boundaries (lemma 10) of small random problems, against all mappings."""

from __future__ import annotations

import numpy as np
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK
from costmodel.exact_imperfect.boundaries import Boundaries
from costmodel.exact_imperfect.boxes import whole_box
from costmodel.exact_imperfect.cells import cells_of
from costmodel.exact_imperfect.charges import Charges
from costmodel.exact_imperfect.spreads import Spread, least_cycles, tightened
from mapspace.errors import ConfigError

MOST_MAPPINGS = 8_000
POINTS = 5
EPSILON = 1e-9


def random_imperfect(rng: np.random.Generator, most: int = MOST_MAPPINGS) -> tuple[MapSpace, Codes]:
    """A map space with imperfect factors, by either counting, and its mappings with figures."""
    while True:
        work, _ = random_parts(rng)
        machine = {**random_machine(rng), "factors": "imperfect"}
        machine["counting"] = "true" if rng.random() < 0.4 else "timeloop"
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        tables = space.tables
        if tables.tangled.any() or tables.sliding[tables.part_kind > 0].any():
            continue
        codes = every_mapping(space, most)
        if codes is None or not len(codes):
            continue
        codes = codes[LoopNestModel().evaluate(space, codes).status == STATUS_OK]
        if len(codes):
            return space, codes


def _choices(space: MapSpace, codes: Codes) -> tuple[Array, Array]:
    """`[B, L]` kept tensors and `[B, L, n]` spatial factors of mappings."""
    tables, machine = space.tables, space.tables.machine
    levels, n = tables.capacity.size, tables.sizes.size
    rows = codes[:, :n] + tables.row_start[:-1]
    spatial = np.ones((len(codes), levels, n), np.int64)
    keeps = np.zeros((len(codes), levels), np.int64)
    for level in range(levels):
        if tables.spatial_slot[level] >= 0:
            spatial[:, level] = tables.factors[rows, tables.spatial_slot[level]]
        keeps[:, level] = ((1 << tables.sliding.size) - 1) & ~int(machine.never_kept[level])
        if tables.keep_column[level] >= 0:
            chosen = codes[:, tables.keep_column[level]] | int(machine.always_kept[level])
            keeps[:, level] &= chosen
    return keeps, spatial


def check_bounds(seed: int) -> None:
    """Holds the bounds of some choices of spatial factors, and of all, against every mapping."""
    rng = np.random.default_rng(seed)
    space, codes = random_imperfect(rng)
    costs = LoopNestModel().evaluate(space, codes)
    keeps, spatial = _choices(space, codes)
    levels, n = spatial.shape[1:]
    every, group = np.unique(
        np.concatenate([keeps, spatial.reshape(len(codes), -1)], axis=1),
        axis=0,
        return_inverse=True,
    )
    where = f"seed {seed}: {space.accelerator.model_dump()} of {space.workload}"
    for chosen in rng.choice(len(every), min(POINTS, len(every)), replace=False).tolist():
        members = np.flatnonzero(group.ravel() == chosen)
        factors = every[chosen, levels:].reshape(levels, n)
        point = tightened(space, Spread(factors, factors))
        assert point is not None, f"a mapping spreads so: {where}"
        least = float(costs.energy_pj[members].min()), float(costs.latency_cycles[members].min())
        wide = tightened(space, Spread(*whole_box(space)))
        assert wide is not None
        low = rng.integers(1, point.least + 1)
        around = tightened(space, Spread(low, np.maximum(point.least, wide.most - low + 1)))
        assert around is not None, where
        for spread, cells in ((point, 100_000), (point, 20), (around, 50), (wide, 100)):
            assert (spread.least <= factors).all(), where
            assert (factors <= spread.most).all(), f"{spread} is without {factors}: {where}"
            charges = Charges(
                space,
                tuple(every[chosen, :levels].tolist()),
                spread,
                cells_of(space.tables.sizes, cells),
            )
            bound = Boundaries(charges).least()
            assert bound <= least[0] * (1 + EPSILON) + EPSILON, f"{bound} > {least[0]}: {where}"
            assert least_cycles(space, spread) <= least[1], where
