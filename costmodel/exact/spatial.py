"""Spatial vectors, the units of a proof, and the floor of each unit."""

from __future__ import annotations

import numpy as np

from costmodel.compiled import lean
from costmodel.exact.charges import case_of, fill_charges, fits, least_cycles, level_traffic
from costmodel.exact.objective import INFINITE
from costmodel.exact.state import OuterTables, Work
from costmodel.exact.tables import BUFFER, ELEMENT, ProofTables, divisors_of
from costmodel.exact.tiles import Vectors
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
        hops=np.zeros((len(factors), tables.sliding.size), dtype=np.int64),
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

    Per axis of a tensor the least over every element tile is taken apart, whatever fits.
    """
    n = tables.sizes.size
    tensors = tables.sliding.size
    for d in range(n):
        work.extent[d] = 1
    for v in range(vectors.elements.size):
        compute = tables.macs // vectors.elements[v]
        elements, reduction = vectors.elements[v], vectors.reduction[v]
        cell = 0
        for d in range(n):
            cell += tables.stride[d] * vectors.at[v, d]
            work.spatial[d] = vectors.factor[v, d]
        for t in range(tensors):
            # At least as many groups as the longest loop along each axis makes.
            work.groups[t] = 1
            words = 1
            for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                longest = 1
                for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                    longest = max(longest, work.spatial[tables.term_dimension[k]])
                work.groups[t] *= longest
                words *= _least_along(tables, outer, axis, vectors.at[v])
            work.inner_bound[0, t] = words
        fill_charges(
            tables, compute, elements, reduction, work.groups, vectors.hops[v],
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


@lean
def _least_along(
    tables: ProofTables,
    outer: OuterTables,
    axis: int,
    at: Array,
) -> int:
    """Least share of an axis in the words that enter an element tile, over all extents of it.

    Args:
        tables: the problem.
        outer: holds the credit tables.
        axis: index among the axes of all tensors.
        at: `[n]` positions of the spatial factors.
    """
    begin, end = tables.term_start[axis], tables.term_start[axis + 1]
    combinations = 1
    for k in range(begin, end):
        d = tables.term_dimension[k]
        own = tables.divisor_start[d] + at[d]
        combinations *= tables.multiple_start[own + 1] - tables.multiple_start[own]
    best = INFINITE
    for combination in range(combinations):
        rest = combination
        length = 1
        along = 1
        cell = 0
        for k in range(begin, end):
            d = tables.term_dimension[k]
            own = tables.divisor_start[d] + at[d]
            choices = tables.multiple_start[own + 1] - tables.multiple_start[own]
            position = tables.multiples[tables.multiple_start[own] + rest % choices]
            rest //= choices
            step = tables.divisors[tables.divisor_start[d] + position]
            length += tables.term_coefficient[k] * (step // tables.divisors[own] - 1)
            along *= tables.sizes[d] // step
            cell += tables.credit_stride[k] * position
        if tables.credit_start[axis] < 0:
            best = min(best, length * along)
            continue
        where = tables.credit_start[axis] + cell
        best = min(best, length * min(along, outer.loose[where]))
        rest = combination
        for k in range(begin, end):
            d = tables.term_dimension[k]
            own = tables.divisor_start[d] + at[d]
            choices = tables.multiple_start[own + 1] - tables.multiple_start[own]
            position = tables.multiples[tables.multiple_start[own] + rest % choices]
            rest //= choices
            step = tables.divisors[tables.divisor_start[d] + position]
            if step == tables.sizes[d]:
                continue
            shift = min(length, tables.term_coefficient[k] * step)
            uncredited = outer.loose[where + (1 + k - begin) * tables.credit_cells[axis]]
            best = min(best, shift * along + (length - shift) * uncredited)
    return best
