"""The on-chip space of Marvel: what its codes mean, and the laws of a space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from on_chip_cases import DENSE, DEPTHWISE, EDGE, EYERISS, all_codes, machine, table_3, whole
from scipy import stats

from costmodel import ConfigError, ContractError, accelerator
from costmodel.costs import STATUS_FANOUT, STATUS_OK
from costmodel.maestro import STATUS_REMAINDER, MaestroModel, OnChipSpace, on_chip_search
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.on_chip import LEVEL_L1, STATUS_PARALLEL
from costmodel.maestro.platform import Platform
from searchers import Evaluator, make

SEEDS = st.integers(0, 2**32 - 1)
SPACES = {
    "l8": OnChipSpace(*table_3("l8"), EYERISS),
    "l3": OnChipSpace(*table_3("l3"), EDGE),
    "tiny": whole(DENSE, machine()),
    "remainders": whole(DENSE, machine(), remainders=True),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


def draw(space: OnChipSpace, seed: int, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = [space.sample(rng, rows // 2), space.sample(rng, rows // 2, feasible=True)]
    return np.concatenate(codes), rng.integers(0, space.edit_choices, (rows // 2 * 2, 6))


def test_a_space_by_hand() -> None:
    space = whole(Layer("hand", K=4, C=6, R=3, S=3, P=1, Q=2), machine())
    assert space.pairs[0].tolist() == [[1, 1], [1, 2], [1, 4], [2, 1], [2, 2], [4, 1]]
    assert space.cardinality.tolist() == [6, 9, 1, 3, 24, 24]
    assert space.size() == 6 * 9 * 3 * 576
    code = np.array([4, 0, 0, 1, 23, 23], np.int32)  # K 2 x 2, Q 1 x 2, orders QPCK
    # 3 x 3 inputs, 2 x 9 weights, 2 outputs.
    assert space.l1_elements(code[None]).tolist() == [9 + 18 + 2]
    described = space.describe(code)
    assert described.parallel == (("Q", 2), ("K", 2))
    assert described.family == "KQ"
    assert str(described) == (
        "for C in 6\n  parallel Q over 2\n    parallel K over 2\n"
        "      level-1 tile K=2, C=1, P=1, Q=1"
    )


def test_statuses() -> None:
    space = whole(Layer("s", K=4, C=4, R=1, S=1, P=4, Q=4), machine(elements=8, l1=20))
    pair = {(t, f): i for i, (t, f) in enumerate(space.pairs[0].tolist())}
    one, two, four = pair[1, 1], pair[1, 2], pair[1, 4]
    codes = np.array(
        [
            [two, two, two, one, 0, 0],
            [two, two, two, two, 0, 0],
            [four, four, one, one, 0, 0],
            [pair[4, 1], pair[2, 1], one, one, 0, 0],  # 2 + 8 + 4 = 14 elements, twice
        ],
        np.int32,
    )
    status, excess = space.status(codes)
    assert status.tolist() == [STATUS_OK, STATUS_PARALLEL, STATUS_FANOUT, LEVEL_L1]
    assert excess.tolist() == [0, 1, 8, 8]
    costs = MaestroModel().evaluate(space, codes)
    assert np.array_equal(costs.status, status)
    assert np.isfinite(costs.edp).tolist() == [True, False, False, False]
    with pytest.raises(ContractError, match="Row 1: expected at most 3 parallel"):
        space.mappings(codes)


def test_depthwise_layers_keep_k() -> None:
    space = whole(DEPTHWISE, machine())
    assert space.cardinality[0] == 1
    assert space.mappings(space.sample(np.random.default_rng(0), 50, feasible=True)).depthwise.all()


@every_space
def test_sampling_is_uniform(space: OnChipSpace) -> None:
    codes = space.sample(np.random.default_rng(0), 30_000)
    space.check(codes)
    for column, cardinality in enumerate(space.cardinality):
        seen = np.bincount(codes[:, column], minlength=cardinality)
        assert cardinality == 1 or stats.chisquare(seen).pvalue > 1e-6


def test_feasible_sampling_is_uniform_over_feasible_codes() -> None:
    space = whole(Layer("s", K=2, C=2, R=1, S=1, P=2, Q=1), machine(elements=3, l1=8))
    codes = all_codes(space)[::576]
    expected = set(map(tuple, codes[space.feasible(codes)][:, :4].tolist()))
    assert 0 < len(expected) < len(codes)
    drawn = space.sample(np.random.default_rng(1), 200 * len(expected), feasible=True)
    tilings, counts = np.unique(drawn[:, :4], axis=0, return_counts=True)
    assert set(map(tuple, tilings.tolist())) == expected
    assert stats.chisquare(counts).pvalue > 1e-6


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_codes_read_back(space: OnChipSpace, seed: int) -> None:
    codes = space.sample(np.random.default_rng(seed), 40, feasible=True)
    points = space.encode(codes)
    assert points.shape == (40, len(space.feature_names))
    assert points.dtype == np.float32
    assert np.array_equal(space.project(points), codes)


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_projection_is_feasible(space: OnChipSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = space.project(rng.normal(5, 40, (30, len(space.feature_names))))
    space.check(codes)
    assert codes.dtype == np.int32
    assert space.feasible(codes).all()


@every_space
@given(seed=SEEDS, steps=st.integers(1, 4))
@settings(max_examples=10)
def test_moves_stay_in_the_space(space: OnChipSpace, seed: int, steps: int) -> None:
    codes, _ = draw(space, seed)
    before = codes.copy()
    moved = space.mutate(np.random.default_rng(seed), codes, steps=steps)
    space.check(moved)
    assert np.array_equal(codes, before)
    assert ((moved != codes).sum(axis=1) <= steps).all()
    assert (moved != codes).any()
    if steps == 1:
        for row, code in list(zip(moved, codes, strict=True))[:5]:
            known = space.neighbours(code).tolist()
            assert row.tolist() == code.tolist() or row.tolist() in known
    mask = np.random.default_rng(seed).random(codes.shape) < 0.5
    fresh = space.resample(np.random.default_rng(seed), codes, mask)
    space.check(fresh)
    assert np.array_equal(fresh[~mask], codes[~mask])


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_edits(space: OnChipSpace, seed: int) -> None:
    codes, edits = draw(space, seed)
    edited = space.edit(codes, edits)
    space.check(edited)
    assert np.array_equal(space.edit(codes, np.zeros_like(edits)), codes)
    assert np.array_equal(edited[edits == 0], codes[edits == 0])
    assert space.feasible(edited)[space.feasible(codes)].all()
    assert np.array_equal(space.edit(codes[::-1], edits[::-1])[::-1], edited)
    assert np.array_equal(space.edit(codes, edits.astype(np.uint8)), edited)


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_single_edits_are_the_neighbours_and_have_reverses(space: OnChipSpace, seed: int) -> None:
    code = space.sample(np.random.default_rng(seed), 1, feasible=True)[0]
    single = [(d, e) for d, count in enumerate(space.edit_choices) for e in range(1, count)]
    edits = np.zeros((len(single), 6), np.int64)
    back = edits.copy()
    for row, (d, e) in enumerate(single):
        edits[row, d] = e
        back[row, d] = e if d >= 4 else e + 1 if e % 2 else e - 1
    edited = space.edit(np.repeat(code[None], len(single), axis=0), edits)
    moved = (edited != code).any(axis=1)
    known = space.neighbours(code)
    known = known[space.feasible(known)]
    assert np.array_equal(np.unique(edited[moved], axis=0), np.unique(known, axis=0))
    assert (space.edit(edited, back)[moved] == code).all()


@every_space
def test_misuse_is_named(space: OnChipSpace) -> None:
    codes, edits = draw(space, 0)
    for wrong in (codes[0], codes[:, :4], codes.astype(float)):
        with pytest.raises(ContractError, match=r"codes"):
            space.check(wrong)
    with pytest.raises(ContractError, match=r"codes \[3, 4\] \(order\) must lie in 0..23, got 24"):
        space.check(np.where(np.arange(6) == 4, np.where(np.arange(60) == 3, 24, 0)[:, None], 0))
    with pytest.raises(ContractError, match=r"edits \[0, 5\] \(clusters\)"):
        space.edit(codes, edits * 0 + [0, 0, 0, 0, 0, 7])
    with pytest.raises(ContractError, match="finite points"):
        space.project(np.full((2, 22), np.nan))
    with pytest.raises(ContractError, match="OnChipSpace, got ToySpace"):
        MaestroModel().evaluate(type("ToySpace", (), {})(), codes)


def test_what_makes_no_space() -> None:
    for tile, message in (
        (
            (3, 2, 3, 3, 4, 2),
            "dense: level-3 tile does not divide K: expected a divisor of 4, got 3",
        ),
        (
            (4, 2, 3, 3, 4, 0),
            "dense: level-3 tile does not divide Q: expected a divisor of 2, got 0",
        ),
        ((4, 2, 3, 3), r"expected six sizes \(K, C, R, S, P, Q\), got \(4, 2, 3, 3\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            OnChipSpace(DENSE, tile, EYERISS)
    # 9 pixels, 9 weights and an output, twice.
    smallest = (
        r"level-1 tile \(K=1, C=1, R=3, S=3, P=1, Q=1\) needs 38 words of the L1 buffer of tiny"
    )
    with pytest.raises(ConfigError, match=f"dense fits nowhere: .*{smallest}.* 1 more than its 37"):
        whole(DENSE, machine(l1=37))
    assert whole(DENSE, machine(l1=38)).feasible(np.zeros((1, 6), np.int32)).all()
    vector = [{"name": "L1", "fanout": 2}]
    with pytest.raises(ConfigError, match="last level but one only, got it at: L2, L1"):
        Platform.of(accelerator({"extends": "eyeriss-168", "name": "vector", "levels": vector}))
    with pytest.raises(ConfigError, match=r"expected equal, whole bandwidths, got 2\.5"):
        Platform.of(machine(bandwidth=2.5))
    assert Platform.of(EYERISS) == Platform(168, 12, 512, 110592)
    assert Platform.of(EDGE) == Platform(1024, 128, 512, 110592)


@every_space
def test_evaluate_is_cost_of_the_mappings(space: OnChipSpace) -> None:
    model = MaestroModel(fidelity="corrected" if space.remainders else "maestro", pj_per_unit=2.0)
    codes, _ = draw(space, 3, rows=400)
    costs = model.evaluate(space, codes)
    good = space.feasible(codes)
    assert np.array_equal(costs.ok, good)
    direct = model.cost(space.mappings(codes[good]))
    assert np.array_equal(costs.energy_pj[good], 2.0 * direct.energies.total)
    assert np.array_equal(costs.latency_cycles[good], direct.counts.runtime_cycles)
    # The space and the corrected counts agree on what L1 has to hold.
    strict = MaestroModel(fidelity="corrected").cost(space.mappings(codes[good]))
    assert np.array_equal(2 * space.l1_elements(codes[good]), strict.counts.l1_required.sum(axis=1))


@pytest.mark.parametrize("name", ["random", "annealing", "genetic"])
def test_searchers_run_and_improve(name: str) -> None:
    space, model = SPACES["l8"], MaestroModel()
    evaluator = Evaluator(model, space, iterations=3000)
    make(name, space, seed=0).run(evaluator)
    result = evaluator.result()
    assert result.iterations == 3000
    assert result.best_loss < result.curve_loss[0]
    found = on_chip_search(space.layer, space.bounds, EYERISS, objectives=("edp",))
    assert found.best["edp"].value <= result.best_loss * (1 + 1e-12)
    if name != "random":
        assert result.best_loss < 1.5 * found.best["edp"].value


def test_remainders_are_refused_by_maestros_counts() -> None:
    space = SPACES["remainders"]
    codes = space.sample(np.random.default_rng(0), 300, feasible=True)
    costs = MaestroModel().evaluate(space, codes)
    whole_rows = space.mappings(codes).divides
    assert set(costs.status.tolist()) == {STATUS_OK, STATUS_REMAINDER}
    assert np.array_equal(costs.ok, whole_rows)
