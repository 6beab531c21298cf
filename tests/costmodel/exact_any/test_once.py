"""Words that ports move, and words that enter once, are those of the formulas written plainly."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.exact_any.assignments import Spreads
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from costmodel.tile_chains.once import distinct
from costmodel.tile_chains.ports import Port, port_weights
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, entering_once, weights

LAYERS = (
    "cnn:N=2,K=4,C=3,P=6,Q=4,R=3,S=2,stride=2",
    "cnn:N=1,K=2,C=4,P=4,Q=4,R=2,S=2",
    "gemm:M=8,N=6,K=4",
    "mttkrp:I=4,J=6,K=4,L=2",
)


def _spaces() -> list[tuple[MapSpace, tuple[int, ...], Array, Weights]]:
    """Map spaces whose fan-outs spread whatever they like, and some of their assignments."""
    rng, found = np.random.default_rng(3), []
    for layer in LAYERS:
        machine = {
            "name": "small",
            "mac_energy_pj": 1.0,
            "bypass": "searched",
            "levels": [
                {"name": "DRAM", "energy_pj": 200.0, "bandwidth": 3.0},
                {"name": "L3", "energy_pj": 8.0, "capacity_words": 500, "fanout": 4},
                {"name": "L2", "energy_pj": 2.0, "capacity_words": 90, "fanout": 4},
                {"name": "L1", "energy_pj": 1.0, "capacity_words": 16, "fanout": 2},
            ],
        }
        space = MapSpace(workload(layer), accelerator(machine))
        spreads = Spreads(space, Rules(space))
        choices = spreads.choices()
        spatial = spreads.spatial(choices[rng.integers(len(choices), size=40)])
        sets = map(tuple, rng.permutation(np.array(keep_choices(space)))[:6].tolist())
        found += [(space, keeps, spatial, weights(space, keeps, spatial)) for keeps in sets]
    return found


def _cycles(
    space: MapSpace, port: Port, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, FloatArray]:
    """`port_weights`, tensor by tensor for all assignments at once."""
    tables, level, levels = space.tables, port.level, len(keeps)
    weight, own = np.zeros(found.weight.shape), np.zeros(found.own.shape)
    for t in range(tables.sliding.size):
        kept = [here for here in range(levels) if (keeps[here] >> t) & 1]
        if level not in kept:
            continue
        output, outermost = tables.part_kind[t] != PART_OF_INPUT, level == kept[0]
        child = (*kept, levels)[kept.index(level) + 1]
        served = np.ones(len(spatial), np.int64)
        for f in range(level, child):
            served *= found.groups[:, f, t]
        weight[:, child, t] += served * (port.reads + (port.writes and bool(output)))
        if port.writes and not outermost:
            weight[:, level, t] += 1
        if output:
            outside = found.outer[:, level, tables.relevant[t] > 0].prod(axis=1)
            elided = port.writes and not outermost and not tables.machine.charged
            own[:, t] -= int(tables.words[t]) // outside * (port.reads + elided)
    steps = int(tables.macs) // found.outer[:, levels].prod(axis=1)
    own += weight[:, levels] * steps[:, None]
    return weight / port.bandwidth, own / port.bandwidth


def _words_once(space: MapSpace, weight: FloatArray, outer: Array) -> FloatArray:
    """`entering_once`, axis by axis for all assignments at once."""
    tables, levels = space.tables, weight.shape[1] - 1
    found, outside = weight[:, :levels].copy(), outer[:, :levels]
    for t in range(tables.sliding.size):
        axes = [
            slice(tables.term_start[axis], tables.term_start[axis + 1])
            for axis in range(tables.axis_start[t], tables.axis_start[t + 1])
        ]
        dims = [tables.term_dimension[terms].tolist() for terms in axes]
        listed = [d for each in dims for d in each]
        alone = {each[0] for each in dims if len(each) == 1}
        for terms, each in zip(axes, dims, strict=True):
            if len(each) == 1 or any(listed.count(d) > 1 for d in each):
                continue
            sizes = tables.sizes[each]
            places = 1 + (sizes // outside[:, :, each] - 1).sum(axis=2)
            whole = distinct(sizes, tables.term_coefficient[terms])
            unspread = (outside[:, :, each] == 1).all(axis=2)
            found[:, :, t] *= np.where(unspread, whole, places)
        for d in sorted(alone):
            found[:, :, t] *= tables.sizes[d] // outside[:, :, d]
    return found


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_ports_move_what_the_formula_says(reads: bool, writes: bool) -> None:
    moved = 0.0
    for space, keeps, spatial, found in _spaces():
        for level in range(len(keeps)):
            port = Port(level, level + 1, reads, writes, 1.7)
            # Beside another one, so that the ports are told apart.
            both = port_weights(space, [port, Port(0, 1, True, True, 0.3)], keeps, found)
            said = both.weight[0], both.own[0]
            for one, other in zip(said, _cycles(space, port, keeps, spatial, found), strict=True):
                np.testing.assert_array_equal(one, other)
                moved += np.abs(one).sum()
    assert (moved > 0) == (reads or writes)


def test_words_enter_once_as_the_formula_says() -> None:
    for space, _, _, found in _spaces():
        said = entering_once(space, found.weight, found.outer)
        np.testing.assert_allclose(said, _words_once(space, found.weight, found.outer), rtol=1e-15)


def test_places_along_a_window_are_counted() -> None:
    for factors, steps in (((3, 4), (2, 1)), ((5, 2), (3, 3)), ((4, 4), (1, 7))):
        sums = {steps[0] * a + steps[1] * b for a in range(factors[0]) for b in range(factors[1])}
        assert distinct(np.array(factors), np.array(steps)) == len(sums)
