"""Spatial vectors, the units of a proof, and the floor of each unit."""

from __future__ import annotations

import itertools

import numpy as np

from costmodel.compiled import lean
from costmodel.exact.charges import (
    case_of,
    fill_charges,
    fits,
    least_cycles,
    least_groups,
    level_traffic,
)
from costmodel.exact.objective import INFINITE
from costmodel.exact.state import OuterTables, Work, make_work
from costmodel.exact.tables import BUFFER, ELEMENT, ProofTables, divisors_of
from costmodel.exact.tiles import Vectors
from costmodel.exact.traffic import least_along
from costmodel.kernel import hops_per_delivery
from costmodel.moves import order_index
from costmodel.nest import Array


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
        axes = _mesh_axes(factors, tables.mesh)
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


def _mesh_axes(factors: Array, mesh: Array) -> Array:
    """Dimensions along the mesh's height as bits, the first choice that fits; -1: none fits."""
    axes = np.full(len(factors), -1, dtype=np.int64)
    bits = np.arange(factors.shape[1])
    for choice in range(2 ** factors.shape[1]):
        along = (choice >> bits) & 1
        height = np.where(along, factors, 1).prod(axis=1)
        width = np.where(along, 1, factors).prod(axis=1)
        axes[(axes < 0) & (height <= mesh[1]) & (width <= mesh[0])] = choice
    return axes


def arrange(tables: ProofTables, vectors: Vectors, v: int) -> Vectors:
    """The ways to lay one spatial vector on the mesh, where a hop costs energy.

    Of two ways one is left out if it takes no fewer hops for any tensor; where the hops depend on
    the element tile all are kept.
    """
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
    hops = np.zeros((len(order), tables.sliding.size), np.int64)
    _fill_hops(tables, factor, order, axis, hops, make_work(tables))
    chosen = np.arange(len(order))
    if not _hops_vary(tables, factor):
        _, chosen = np.unique(hops, axis=0, return_index=True)
        least = [
            i
            for i in chosen
            if not any((hops[j] <= hops[i]).all() and (hops[j] != hops[i]).any() for j in chosen)
        ]
        chosen = np.array(least)
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
) -> None:
    """Fills twice the hops of one delivery `[A, T]` for every arrangement, element tiles of 1."""
    for a in range(order.size):
        for t in range(tables.sliding.size):
            found = hops_per_delivery(
                tables, t, tables.mesh, tables.orders[order[a]], axes[a], factor, work.extent,
                work.moved, work.offsets, work.lowest, work.highest,
            )  # fmt: skip
            hops[a, t] = int(2 * found)


@lean
def bound_units(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    energy: Array,
    cycles: Array,
    work: Work,
) -> None:
    """Fills the floors of all units, `[V, inner sets]`: energy (INFINITE: nothing fits) and cycles.

    Per axis of a tensor the least over every element tile is taken apart, whatever fits. Hops are
    left out: they depend on where the loops lie on the mesh.
    """
    n = tables.sizes.size
    tensors = tables.sliding.size
    for d in range(n):
        work.extent[d] = 1
    for t in range(tensors):
        work.hops[t] = 0
    for v in range(vectors.elements.size):
        compute = tables.macs // vectors.elements[v]
        elements, reduction = vectors.elements[v], vectors.reduction[v]
        cell = 0
        for d in range(n):
            cell += tables.stride[d] * vectors.at[v, d]
            work.spatial[d] = vectors.factor[v, d]
        for t in range(tensors):
            work.groups[t] = least_groups(tables, t, work.spatial)
            words = 1
            for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                words *= least_along(tables, outer.loose, axis, vectors.at[v], vectors.at[v], 0)
            work.inner_bound[0, t] = words
        fill_charges(
            tables, compute, elements, reduction, work.groups, work.hops,
            work.fixed, work.inner_charge,
        )  # fmt: skip
        first_time = tables.output_words * reduction // elements
        for i in range(tables.inner_sets.size):
            energy[v, i] = INFINITE
            cycles[v, i] = compute
            slowest = INFINITE
            inner_set = tables.inner_sets[i]
            if not fits(tables, ELEMENT, inner_set, work.extent):
                continue
            for k in range(tables.outer_sets.size):
                outer_set = tables.outer_sets[k]
                if outer.energy[k, cell] >= INFINITE:
                    continue
                total = tables.macs * tables.mac_energy + outer.energy[k, cell]
                for level in range(3):
                    work.traffic[level, 0] = 0
                    work.traffic[level, 1] = 0
                for t in range(tensors):
                    case = case_of(t, inner_set, outer_set)
                    total += work.fixed[t, case]
                    total += work.inner_charge[t, case] * work.inner_bound[0, t]
                    if tables.limited:
                        # Words into the shared buffer are added in all below.
                        kept_output = t == tables.output and (outer_set >> t) & 1
                        level_traffic(
                            tables, t, case, compute, first_time, work.groups[t],
                            work.inner_bound[0, t], tables.output_words if kept_output else 0,
                            work.traffic,
                        )  # fmt: skip
                energy[v, i] = min(energy[v, i], total)
                if tables.limited:
                    known = tables.output_words if (outer_set >> tables.output) & 1 else 0
                    work.traffic[BUFFER, 1] += outer.words[k, cell] - known
                    work.traffic[0, 0] += outer.words[k, cell] - known
                    slowest = min(slowest, least_cycles(tables, work.traffic, compute))
            if tables.limited and slowest < INFINITE:
                cycles[v, i] = slowest
