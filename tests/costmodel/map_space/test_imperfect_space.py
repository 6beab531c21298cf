"""Map spaces with imperfect factors: what is in them, what it costs, and what moves in them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from timeloop_recursion import cost

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.imperfect_tilings import MOST_ROWS, last_passes
from costmodel.arrays.tables import _padded_blocks, imperfect_factorisations
from costmodel.exact_any.choice import why_not_proven
from costmodel.loop_nest.records import mapping_record, score
from mapspace.errors import ConfigError
from searchers import Evaluator, make

MODEL = LoopNestModel()
MACHINE = {
    "name": "three",
    "mac_energy_pj": 1.0,
    "factors": "imperfect",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "capacity_words": 64, "energy_pj": 6.0, "fanout": 3},
        {"name": "L1", "capacity_words": 16, "energy_pj": 1.0},
    ],
}
TWO = {
    **MACHINE,
    "name": "two",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "buffer", "capacity_words": 24, "energy_pj": 3.0, "fanout": 4},
    ],
}


def covers(size: int, factors: tuple[int, ...], whole: tuple[bool, ...]) -> bool:
    """Whether loops run over a size as the space lists them, told by walking through them."""
    product = math.prod(factors)
    if not size <= product <= 1.5 * size:
        return False
    index, rests = size - 1, []
    for factor in reversed(factors):
        rests.append(index % factor + 1)
        index //= factor
    rests.reverse()
    looping = [position for position, factor in enumerate(factors) if factor > 1]
    return (not looping or rests[looping[0]] == factors[looping[0]]) and all(
        r == f or not w for r, f, w in zip(rests, factors, whole, strict=True)
    )


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 12, 13])
@pytest.mark.parametrize("whole", [(False, False, True, False), (False, True)])
def test_factorisations_are_all_there_are(size: int, whole: tuple[bool, ...]) -> None:
    listed = [tuple(row) for row in imperfect_factorisations(size, whole).tolist()]
    wanted = itertools.product(range(1, size + 1), repeat=len(whole))
    assert listed == [row for row in wanted if covers(size, row, whole)]


def test_remainders_are_digits_of_the_last_index() -> None:
    assert last_passes(197, np.array([[4, 10, 5]])).tolist() == [[4, 10, 2]]


@pytest.mark.parametrize("machine", [MACHINE, TWO])
@pytest.mark.parametrize("layer", ["conv1d:P=5,R=3", "gemm:M=5,N=3,K=2"])
def test_every_mapping_costs_what_timeloops_recursion_counts(
    machine: dict[str, object], layer: str
) -> None:
    """All tilings, each with three orders: in plain Python, loop by loop."""
    space = MapSpace(workload(layer), accelerator(machine))
    n = space.tables.sizes.size
    tilings = np.array(list(itertools.product(*(range(k) for k in space.cardinality[:n]))))
    tilings = np.repeat(tilings, 3, axis=0)
    rng = np.random.default_rng(0)
    codes = space.sample(rng, len(tilings))
    codes[:, :n] = tilings
    codes = codes[space.feasible(codes)]
    assert len(codes) > 80
    costs = MODEL.evaluate(space, codes)
    uneven = 0
    for code, energy, cycles in zip(codes, costs.energy_pj, costs.latency_cycles, strict=True):
        mapping = space.describe(code)
        assert (energy, cycles) == pytest.approx(
            cost(space.workload, space.accelerator, mapping), rel=1e-12
        ), str(mapping)
        uneven += "at last" in str(mapping)
    assert uneven > len(codes) // 4


@pytest.fixture(scope="module")
def space() -> MapSpace:
    return MapSpace(workload("cnn:N=2,K=7,C=5,P=13,Q=5,R=3,S=3"), accelerator(MACHINE))


def test_records_read_again_cost_the_same(space: MapSpace) -> None:
    codes = space.sample(np.random.default_rng(1), 60, feasible=True)
    costs = MODEL.evaluate(space, codes)
    scored = score([mapping_record(space, code) for code in codes], MODEL)
    for record, energy, cycles in zip(scored, costs.energy_pj, costs.latency_cycles, strict=True):
        assert record["result"]["energy_pj"] == pytest.approx(energy, rel=1e-12)
        assert record["result"]["cycles"] == cycles


def test_perfect_mappings_cost_what_they_cost_in_the_perfect_space(space: MapSpace) -> None:
    perfect = MapSpace(space.workload, space.accelerator, factors="perfect")
    codes = perfect.sample(np.random.default_rng(2), 300, feasible=True)
    same = np.array([space.code(perfect.describe(code)) for code in codes])
    expected, got = MODEL.evaluate(perfect, codes), MODEL.evaluate(space, same)
    assert np.array_equal(expected.energy_pj, got.energy_pj)
    assert np.array_equal(expected.latency_cycles, got.latency_cycles)


def test_moves_edits_and_projection_stay_in_the_space(space: MapSpace) -> None:
    rng = np.random.default_rng(3)
    codes = space.sample(rng, 40, feasible=True)
    assert (space.mutate(rng, codes, steps=3) != codes).any()
    edited = space.edit(codes, rng.integers(0, space.edit_choices, codes.shape))
    assert space.feasible(edited).all()
    assert (edited != codes).any(axis=1).mean() > 0.5
    space.check(space.neighbours(codes[0]))
    for code in codes[:10]:
        assert np.array_equal(space.code(space.describe(code)), code)
    points = space.encode(codes[:5])
    assert points.shape[1] == len(space.feature_names)
    assert np.array_equal(space.project(points), codes[:5])


def test_what_knows_no_remainders_says_so(space: MapSpace) -> None:
    assert "factors" in (why_not_proven(space) or "")
    with pytest.raises(ConfigError, match="expected factors: perfect, got imperfect"):
        make("primitive-annealing", space, seed=0)


def test_structured_search_finds_less_where_sizes_are_prime() -> None:
    """As asked: at least a tenth below the perfect best; and walking is asking and telling."""
    layer, machine = workload("gemm:M=37,N=41,K=43"), accelerator("mm256")
    best = {}
    for factors in ("perfect", "imperfect"):
        found = MapSpace(layer, machine, factors=factors)  # type: ignore[arg-type]
        evaluator = Evaluator(MODEL, found, objective="edp", iterations=4000)
        make("structured", found, seed=0).run(evaluator)
        best[factors] = evaluator.result().best_loss
    assert best["imperfect"] < 0.9 * best["perfect"]
    asked = make("structured", found, seed=0)
    for _ in range(500):
        codes = asked.ask(1)
        asked.tell(MODEL.evaluate(found, codes).objective("edp"))


@pytest.mark.parametrize("size", [1, 2, 3, 12, 97, 360, 1021])
def test_padded_blocks_come_with_the_least_idle_first(size: int) -> None:
    listed = [(-(-size // block), block) for block in range(1, size) if size % block]
    listed.sort(key=lambda passes: (passes[0] * passes[1], passes[1]))
    assert [*_padded_blocks(size)] == listed


def test_a_size_of_billions_has_the_factorisations_with_the_least_idle() -> None:
    """They were sought among a list of all sizes of blocks, which took gigabytes."""
    size = 2**31
    rows = imperfect_factorisations(size, (False,) * 4)
    padded = rows.prod(axis=1)
    assert MOST_ROWS < len(rows) < 2 * MOST_ROWS
    assert padded.min() == size
    assert padded.max() < size * (1 + 1e-6)
