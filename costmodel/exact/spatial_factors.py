"""Spatial vectors, the units of a proof, and the floor of each unit."""

from __future__ import annotations

import itertools

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.exact.access_energy import (
    case_of,
    fill_base,
    fill_charges,
    fits,
    least_groups,
)
from costmodel.exact.objective import INFINITE
from costmodel.exact.problem import ELEMENT, ProofTables, divisors_of
from costmodel.exact.structures import Problem, Vectors
from costmodel.exact.tiling_bounds import bound_traffic, cell_of, enter_vector, unit_of
from costmodel.exact.traffic_bounds import least_along
from costmodel.exact.workspace import Work, make_work
from costmodel.loop_nest.networks import hops_per_delivery, least_hops
from costmodel.map_space.moves import order_index


def list_vectors(tables: ProofTables) -> Vectors:
    """All ways to spread the dimensions over the elements, however few they use."""
    sizes = tables.sizes.tolist()
    factors = np.ones((1, 0), dtype=np.int64)
    products = np.ones(1, dtype=np.int64)
    for size in sizes:
        divisors = np.array(divisors_of(size), dtype=np.int64)
        rows, columns = np.nonzero(products[:, None] * divisors <= tables.fanout)
        factors = np.column_stack([factors[rows], divisors[columns]])
        products = products[rows] * divisors[columns]
    axes = np.zeros(len(factors), dtype=np.int64)
    if tables.mesh[1] > 1:
        axes = np.full(len(factors), -1, dtype=np.int64)
        _mesh_axes(np.ascontiguousarray(factors), tables.mesh, axes)
        factors, products, axes = factors[axes >= 0], products[axes >= 0], axes[axes >= 0]
    at = np.empty_like(factors)
    for d in range(len(sizes)):
        own = tables.divisors[tables.divisor_start[d] : tables.divisor_start[d + 1]]
        at[:, d] = np.searchsorted(own, factors[:, d])
    adding = tables.relevant[tables.output] == 0
    return Vectors(
        factor=np.ascontiguousarray(factors),
        at=at,
        elements=products,
        reduction=np.where(adding, factors, 1).prod(axis=1),
        order=np.zeros(len(factors), dtype=np.int64),
        axes=axes,
    )


@lean
def _mesh_axes(factors: Array, mesh: Array, axes: Array) -> None:
    """Fills dimensions along the mesh's height as bits, the first choice that fits, else -1."""
    n = factors.shape[1]
    for v in range(factors.shape[0]):
        for choice in range(2**n):
            width = 1
            height = 1
            for d in range(n):
                if (choice >> d) & 1:
                    height *= factors[v, d]
                else:
                    width *= factors[v, d]
            if height <= mesh[1] and width <= mesh[0]:
                axes[v] = choice
                break


def arrange(problem: Problem, v: int, halt: Array) -> Vectors | None:
    """The ways to lay one spatial vector on the mesh, where a hop costs energy.

    Of two ways one is left out if it takes no fewer hops for any tensor; where the hops depend on
    the element tile all are kept.

    Args:
        problem: the problem.
        v: the vector.
        halt: `[1]` gives up when it is not 0; set from any thread.

    Returns:
        A vector per way; None if it gave up.
    """
    tables, vectors = problem.tables, problem.vectors
    factor = vectors.factor[v]
    n = factor.size
    spread = np.flatnonzero(factor > 1).tolist()
    still = [d for d in range(n) if d not in spread]
    axes = np.array([sum(1 << d for d in chosen) for chosen in _subsets(spread)])
    along = ((axes[:, None] >> np.arange(n)) & 1) == 1
    high = np.where(along, factor, 1).prod(axis=1) <= tables.mesh[1]
    wide = np.where(along, 1, factor).prod(axis=1) <= tables.mesh[0]
    axes = axes[high & wide]
    orders = np.array(
        [order_index(np.array([*order, *still])) for order in itertools.permutations(spread)]
    )
    order, axis = (grid.ravel() for grid in np.meshgrid(orders, axes, indexing="ij"))
    # Elements fill the mesh row by row: the loops of the height, then those of the width, say all.
    nests = tables.orders[order]
    low = ((axis[:, None] >> nests) & 1) == 0
    nests = np.take_along_axis(nests, np.argsort(low, axis=1, kind="stable"), axis=1)
    nests = nests[np.isin(nests, spread)].reshape(len(nests), len(spread))
    _, first = np.unique(nests, axis=0, return_index=True)
    order, axis = order[np.sort(first)], axis[np.sort(first)]
    hops = np.zeros((len(order), tables.sliding.size), np.int64)
    _fill_hops(tables, factor, order, axis, hops, make_work(tables), halt)
    if halt[0] != 0:
        return None
    chosen = np.arange(len(order))
    if not _hops_vary(tables, factor):
        distinct, first = np.unique(hops, axis=0, return_index=True)
        # A distinct one that is no worse for any tensor is better for one.
        worse = [(distinct <= own).all(axis=1).sum() > 1 for own in distinct]
        chosen = first[~np.array(worse)]
    rows = np.full(len(chosen), v)
    return Vectors(
        factor=vectors.factor[rows],
        at=vectors.at[rows],
        elements=vectors.elements[rows],
        reduction=vectors.reduction[rows],
        order=order[chosen].astype(np.int64),
        axes=axis[chosen].astype(np.int64),
    )


def _subsets(members: list[int]) -> list[tuple[int, ...]]:
    return [
        subset
        for size in range(len(members) + 1)
        for subset in itertools.combinations(members, size)
    ]


def _hops_vary(tables: ProofTables, factor: Array) -> bool:
    """Whether two loops along one axis are spatial: which tiles coincide then depends on them."""
    for axis in range(tables.credit_start.size):
        terms = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
        if (factor[terms] > 1).sum() > 1:
            return True
    return False


@lean
def _fill_hops(
    tables: ProofTables,
    factor: Array,
    order: Array,
    axes: Array,
    hops: Array,
    work: Work,
    halt: Array,
) -> None:
    """Fills twice the hops of one delivery `[A, T]` for every arrangement, element tiles of 1."""
    for a in range(order.size):
        if halt[0] != 0:
            return
        for t in range(tables.sliding.size):
            found = hops_per_delivery(
                tables, t, tables.mesh, tables.orders[order[a]], axes[a], factor,
                work.element.extent, work.spread,
            )  # fmt: skip
            hops[a, t] = int(2 * found)


@lean
def bound_units(
    problem: Problem,
    energy: Array,
    cycles: Array,
    work: Work,
    first: int,
    last: int,
) -> None:
    """Fills the floors `[V, inner sets]` of the units of vectors `first` to `last`.

    Those are energy (INFINITE: nothing fits) and cycles.

    Per axis of a tensor the least over every element tile is taken apart, whatever fits. Hops are
    those of the best place of every tensor by itself.
    """
    tables, outer, words = problem.tables, problem.outer, work.bounds.inner[0]
    for v in range(first, last):
        at = problem.vectors.at[v]
        enter_vector(problem, work, v)
        cell = cell_of(tables, at)
        for t in range(tables.sliding.size):
            work.spread.groups[t] = least_groups(tables, t, work.element.spatial)
            work.spread.hops[t] = 0
            if tables.half_hop > 0:
                elements = problem.vectors.elements[v]
                members = elements // work.spread.groups[t]
                work.spread.hops[t] = least_hops(tables.mesh, elements, members) * tables.half_hop
            words[t] = 1
            for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                words[t] *= least_along(tables, outer.loose, axis, at, at, 0)
        for i in range(tables.inner_sets.size):
            unit = unit_of(problem, v, tables.inner_sets[i])
            fill_charges(tables, unit, work.spread, work.charges)
            fill_base(tables, work.charges, unit.inner_set)
            energy[v, i] = INFINITE
            cycles[v, i] = unit.cycles
            slowest = INFINITE
            if not fits(tables, ELEMENT, unit.inner_set, work.element.extent):
                continue
            for k in range(tables.outer_sets.size):
                outer_set = tables.outer_sets[k]
                if outer.energy[k, cell] >= INFINITE:
                    continue
                total = work.charges.base[k] + outer.energy[k, cell]
                for t in range(tables.sliding.size):
                    case = case_of(t, unit.inner_set, outer_set)
                    total += work.charges.inner[t, case] * words[t]
                energy[v, i] = min(energy[v, i], total)
                if tables.limited:
                    needed = bound_traffic(
                        tables, work, unit, outer_set, words, words, outer.words[k, cell]
                    )
                    slowest = min(slowest, needed)
            if tables.limited and slowest < INFINITE:
                cycles[v, i] = slowest
