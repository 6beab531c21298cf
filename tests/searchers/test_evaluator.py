"""The evaluator: budgets, the clock, virtual latency, curves, saving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_model import Clock, SlowModel

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, Costs, Objective
from mapspace.errors import ConfigError, ContractError
from mapspace.testing.toy_space import LIMIT, TARGET, ToyModel, ToySpace, toy_losses
from searchers import Evaluator, make
from searchers.compiled.cost_function import CompiledCosts

SPACE = ToySpace()
CODES = np.array([[0, 0, 0, 0, 0, 0], [7, 1, 3, 4, 0, 1], [8, 8, 0, 0, 0, 0]], dtype=np.int32)


def test_losses_are_the_objective() -> None:
    losses = Evaluator(ToyModel(), SPACE, iterations=10)(CODES)
    np.testing.assert_array_equal(losses[:2], toy_losses(CODES[:2]))
    assert CODES[2, :2].sum() > LIMIT
    assert losses[2] == np.inf
    latencies = Evaluator(ToyModel(), SPACE, iterations=10, objective="latency")(CODES)
    np.testing.assert_array_equal(latencies, [1.0, 1.0, np.inf])
    with pytest.raises(ConfigError, match="objective: expected 'edp', 'energy'"):
        Evaluator(ToyModel(), SPACE, iterations=10, objective="speed")(CODES)  # type: ignore[arg-type]


def test_iterations_count_true_and_surrogate_queries() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=20)
    evaluator(CODES[:1])
    evaluator(CODES, surrogate_queries=5)
    assert (evaluator.true_queries, evaluator.surrogate_queries) == (4, 5)
    assert evaluator.iterations_used == 9
    assert evaluator.remaining == 11
    result = evaluator.result()
    np.testing.assert_array_equal(result.best_code, TARGET)
    assert result.best_loss == 1.0
    # The first row of all, then the second of three rows after five surrogate queries; the end.
    np.testing.assert_array_equal(result.curve_iteration, [1, 1 + 5 + 2, 9])
    np.testing.assert_array_equal(result.curve_counted, [1, 1 + 2, 4])
    np.testing.assert_array_equal(result.curve_loss, [*toy_losses(CODES[:2]), 1.0])


def test_another_clock_runs_and_stands_with_the_first() -> None:
    clock, wall = Clock(), Clock()
    limits: dict[str, Any] = {"seconds": 100.0, "query_latency": 3.0}
    evaluator = Evaluator(ToyModel(), SPACE, **limits, clock=clock, beside=wall)
    assert Evaluator(ToyModel(), SPACE, **limits).seconds_beside is None
    with evaluator.running():
        clock.now, wall.now = clock.now + 1.0, wall.now + 4.0
    wall.now += 50.0
    assert (evaluator.elapsed, evaluator.seconds_beside) == (1.0, 4.0)
    assert evaluator.remaining > 0
    clock.now, wall.now = clock.now + 2.0, wall.now + 10.0
    evaluator(CODES[:2])
    with evaluator.paused():
        clock.now, wall.now = clock.now + 30.0, wall.now + 600.0
    # Latency is virtual, and passes by the first alone.
    assert (evaluator.elapsed, evaluator.seconds_beside) == (9.0, 14.0)
    assert evaluator.virtual_seconds == 6.0
    resumed = Evaluator(ToyModel(), SPACE, **limits, clock=clock, beside=wall)
    resumed.load_state_dict(evaluator.state_dict())
    assert (resumed.elapsed, resumed.seconds_beside, resumed.virtual_seconds) == (9.0, 14.0, 6.0)


def test_batches_that_are_no_better_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget of time every batch is looked at whole: both come to the same."""
    rng, looked = np.random.default_rng(0), list[int]()
    batches = [np.concatenate([SPACE.sample(rng, 3), CODES[2:]]) for _ in range(200)]
    quick = Evaluator(ToyModel(), SPACE, iterations=10_000, clock=Clock())
    whole = Evaluator(ToyModel(), SPACE, iterations=10_000, seconds=1e9, clock=Clock())
    record = quick._record
    monkeypatch.setattr(quick, "_record", lambda *given: looked.append(1) or record(*given))
    for number, batch in enumerate(batches):
        counted = {"counted": number % 3 > 0, "surrogate_queries": number % 2}
        np.testing.assert_array_equal(quick(batch, **counted), whole(batch, **counted))
    found, same = quick.result(), whole.result()
    for name in ("best_code", "curve_iteration", "curve_loss", "curve_counted"):
        np.testing.assert_array_equal(getattr(found, name), getattr(same, name))
    assert (found.iterations, found.true_queries) == (same.iterations, same.true_queries)
    assert len(looked) < 100


def test_uncounted_queries_are_recorded_only() -> None:
    clock = Clock()
    evaluator = Evaluator(SlowModel(clock), SPACE, iterations=20, clock=clock, query_latency=3.0)
    assert evaluator.remaining == 20
    clock.now += 2.0
    evaluator(CODES[:2], surrogate_queries=4, counted=False)
    assert evaluator.iterations_used == 4
    assert evaluator.true_queries == 2
    assert evaluator.elapsed == 2.0
    result = evaluator.result()
    np.testing.assert_array_equal(result.curve_iteration, [2, 4, 4])
    np.testing.assert_array_equal(result.curve_counted, [0, 0, 0])
    np.testing.assert_array_equal(result.curve_seconds, [2.0, 2.0, 2.0])


def test_the_budget_of_iterations_is_never_exceeded() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=3)
    evaluator(CODES[:2])
    with pytest.raises(ContractError, match="2 iterations were spent in one call, but 1 were left"):
        evaluator(CODES[:2])
    with pytest.raises(ContractError, match="3 iterations"):
        evaluator(CODES[:1], surrogate_queries=2)
    evaluator(CODES[:0], surrogate_queries=1)
    assert evaluator.remaining == 0


def test_a_budget_is_required_and_positive() -> None:
    for wrong in ({}, {"iterations": 0}, {"seconds": 0.0}, {"seconds": float("nan")}):
        with pytest.raises(ConfigError, match="budget"):
            Evaluator(ToyModel(), SPACE, **wrong)
    with pytest.raises(ConfigError, match="query_latency"):
        Evaluator(ToyModel(), SPACE, iterations=1, query_latency=-1.0)


def test_time_is_searching_and_querying() -> None:
    clock = Clock()
    evaluator = Evaluator(SlowModel(clock), SPACE, seconds=10.0, clock=clock)
    clock.now += 50.0  # before the search starts
    assert evaluator.remaining > 1_000_000
    clock.now += 1.5
    evaluator(CODES[:2])
    assert evaluator.elapsed == 3.5
    with evaluator.paused():
        clock.now += 20.0
        assert evaluator.elapsed == 3.5
    clock.now += 0.5
    assert evaluator.elapsed == 4.0
    np.testing.assert_array_equal(evaluator.result().curve_seconds, [2.5, 3.5, 4.0])


def test_latency_is_virtual() -> None:
    clock = Clock()
    evaluator = Evaluator(ToyModel(), SPACE, seconds=10.0, query_latency=3.0, clock=clock)
    evaluator(CODES[:2])
    assert evaluator.elapsed == 6.0
    np.testing.assert_array_equal(evaluator.result().curve_seconds, [3.0, 6.0, 6.0])
    assert clock.now == 100.0


def test_nothing_after_the_last_second_is_recorded() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, seconds=5.0, query_latency=3.0, clock=Clock())
    losses = evaluator(CODES[:2])
    assert losses[1] == 1.0
    assert evaluator.best_loss == losses[0]
    assert evaluator.true_queries == 1
    assert evaluator.remaining == 0
    result = evaluator.result()
    assert result.seconds == 5.0
    assert result.curve_seconds.max() == 5.0


def test_the_largest_batch_bounds_searches_by_time_only() -> None:
    by_time = Evaluator(ToyModel(), SPACE, seconds=3.0, largest_batch=2, clock=Clock())
    assert by_time.remaining == 2
    both = Evaluator(ToyModel(), SPACE, seconds=3.0, iterations=1, largest_batch=2, clock=Clock())
    assert both.remaining == 1
    assert Evaluator(ToyModel(), SPACE, iterations=10, largest_batch=2).remaining == 10


def test_the_callback_is_off_the_clock_and_only_on_improvement() -> None:
    clock = Clock()
    seen = []

    def improved(evaluator: Evaluator) -> None:
        seen.append((evaluator.iterations_used, evaluator.best_loss))
        clock.now += 30.0

    evaluator = Evaluator(ToyModel(), SPACE, iterations=10, clock=clock, on_improvement=improved)
    for row in (1, 0, 2):
        evaluator(CODES[row : row + 1])
    assert seen == [(1, 1.0)]
    assert evaluator.elapsed == 0.0


def test_the_last_of_a_batch_may_be_the_best() -> None:
    """Every row has its own moment, the last one too: of what is asked, and of what walks."""
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    drawn = space.sample(np.random.default_rng(0), 40, feasible=True)
    edp = LoopNestModel().evaluate(space, drawn).edp
    codes = drawn[[edp.argmax(), np.argsort(edp)[20], edp.argmin()]]
    costs = LoopNestModel().evaluate(space, codes)
    scores = np.column_stack([costs.edp, costs.energy_pj])

    def of(evaluator: Evaluator) -> tuple[list[int], list[float], list[int]]:
        result = evaluator.result()
        return (
            result.curve_iteration.tolist(),
            result.curve_seconds.tolist(),
            result.curve_counted.tolist(),
        )

    expected = [1, 2, 3, 3], [2.0, 4.0, 6.0, 6.0], [1, 2, 3, 3]
    for walks in (False, True):
        evaluator = Evaluator(
            LoopNestModel(), space, iterations=9, clock=lambda: 0.0, query_latency=2.0
        )
        if walks:
            assert evaluator.walk(lambda _, n: (codes, scores))
        else:
            evaluator(codes)
        assert of(evaluator) == expected


def test_walks_are_counted_timed_and_checked() -> None:
    """Compiled code searches by itself; what it reports is counted here, and its best checked."""
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    codes = space.sample(np.random.default_rng(0), 40, feasible=True)
    costs = LoopNestModel().evaluate(space, codes)
    losses, scores = costs.edp, np.column_stack([costs.edp, costs.energy_pj])
    clock = Clock()

    def evaluator(**budget: Any) -> Evaluator:
        return Evaluator(LoopNestModel(), space, clock=clock, query_latency=0.5, **budget)

    def walk(costs: CompiledCosts, n: int) -> tuple[Any, Any]:
        clock.now += 20.0
        assert costs.tables is space.tables
        return codes[:n], scores[:n]

    walked = evaluator(iterations=60)
    assert walked.walk(walk)
    assert (walked.iterations_used, walked.true_queries, walked.remaining) == (40, 40, 20)
    result = walked.result()
    # Half a second of walking and half a second of latency for each.
    np.testing.assert_allclose(result.curve_seconds, result.curve_iteration * 1.0)
    assert result.best_loss == losses.min() == result.curve_loss[-1]
    asked = evaluator(iterations=60)
    asked(codes)
    np.testing.assert_array_equal(asked.result().curve_loss, result.curve_loss)
    np.testing.assert_array_equal(asked.result().curve_iteration, result.curve_iteration)
    late = evaluator(seconds=10.0)
    assert late.walk(walk)
    assert (late.iterations_used, late.best_loss) == (10, losses[:10].min())
    with pytest.raises(ContractError, match="40 iterations were spent in one call, but 20 were"):
        walked.walk(lambda _, n: (codes, scores))
    with pytest.raises(ContractError, match="21 iterations were spent in one call, but 20 were"):
        walked.walk(lambda _, n: (codes[:21], scores[:21]))
    with pytest.raises(ContractError, match="not the model's"):
        evaluator(iterations=60).walk(lambda _, n: (codes, scores * [0.99, 1]))
    assert not Evaluator(ToyModel(), SPACE, iterations=5).walk(walk)


class TiedModel(ToyModel):
    """Energy and latency that many mappings share: powers of two, so that products tie exactly."""

    def evaluate(self, space: Any, codes: np.ndarray, *, detail: bool = False) -> Costs:
        good = space.feasible(codes)
        energy, latency = 2.0 ** (codes[:, 2] % 4), 2.0 ** (codes[:, 3] % 4)
        return Costs(
            energy_pj=np.where(good, energy, np.inf),
            latency_cycles=np.where(good, latency, np.inf),
            status=np.where(good, 0, 2).astype(np.int32),
            excess=np.where(good, 0, 1),
        )


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_the_order_of_telling_does_not_decide_ties(
    objective: Objective, seed: int, cuts: list[int]
) -> None:
    """Whatever comes first, in however many batches, counted or not, saved in between or not."""
    rng = np.random.default_rng(seed)
    codes = SPACE.sample(rng, 40)
    costs = TiedModel().evaluate(SPACE, codes)
    other = {"energy": costs.latency_cycles}.get(objective, costs.energy_pj)
    best = min(zip(costs.objective(objective), other, strict=True))
    for order in (np.arange(40), rng.permutation(40)):
        evaluator = Evaluator(TiedModel(), SPACE, iterations=40, objective=objective)
        for batch in np.split(codes[order], sorted(cuts)):
            evaluator(batch, counted=bool(rng.integers(2)))
            state = evaluator.state_dict()
            evaluator = Evaluator(TiedModel(), SPACE, iterations=40, objective=objective)
            evaluator.load_state_dict(state)
        if np.isinf(best[0]):
            assert evaluator.best_code is None
            continue
        assert evaluator.best_code is not None
        kept = TiedModel().evaluate(SPACE, evaluator.best_code[None])
        assert (evaluator.best_loss, evaluator.best_tie) == best
        assert (kept.energy_pj[0], kept.latency_cycles[0]) in {
            (energy, latency)
            for loss, tie, energy, latency in zip(
                costs.objective(objective),
                other,
                costs.energy_pj,
                costs.latency_cycles,
                strict=True,
            )
            if (loss, tie) == best
        }
        # The curve is that of the objective alone.
        assert (np.diff(evaluator.result().curve_loss[:-1]) < 0).all()


def test_a_state_without_ties_keeps_what_was_first() -> None:
    code = np.array([[0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0]], np.int32)
    evaluator = Evaluator(TiedModel(), SPACE, iterations=9)
    evaluator(code[1:])
    state = evaluator.state_dict()
    del state["best_tie"]
    evaluator.load_state_dict(state)
    evaluator(code[:1])
    np.testing.assert_array_equal(evaluator.best_code, code[1])


def test_what_decides_between_equals_may_be_above_the_loss() -> None:
    """Losses here are latencies, of which all are 1; energies decide, which are above 1."""
    near = TARGET + np.array([0, 0, 1, 0, 0, 0])
    assert 1.0 < toy_losses(near[None])[0] < toy_losses(CODES[:1])[0]
    evaluator = Evaluator(ToyModel(), SPACE, iterations=9, objective="latency")
    evaluator(CODES[:1])
    evaluator(near[None].astype(np.int32))
    assert evaluator.best_loss == 1.0
    np.testing.assert_array_equal(evaluator.best_code, near)


def test_a_tie_beyond_the_time_does_not_count() -> None:
    clock = Clock()

    class Slow(TiedModel):
        def evaluate(self, space: Any, codes: np.ndarray, *, detail: bool = False) -> Costs:
            clock.now += len(codes)
            return super().evaluate(space, codes, detail=detail)

    codes = np.array([[0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0]], np.int32)
    evaluator = Evaluator(Slow(), SPACE, seconds=1.5, clock=clock)
    evaluator(codes)
    np.testing.assert_array_equal(evaluator.best_code, codes[0])


def test_nothing_feasible_is_a_result() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=2)
    evaluator(CODES[2:])
    result = evaluator.result()
    assert result.best_code is None
    assert result.best_loss == np.inf
    np.testing.assert_array_equal(result.curve_loss, [np.inf])


def test_resume_is_exact() -> None:
    def start() -> tuple[Any, Evaluator]:
        return make("genetic", SPACE, seed=3), Evaluator(ToyModel(), SPACE, iterations=1000)

    searcher, evaluator = start()
    searcher.run(evaluator)
    undisturbed = evaluator.result()

    class KilledError(Exception):
        pass

    searcher, evaluator = start()
    states: list[tuple[Any, Any]] = []

    def die(step: Any) -> None:
        states.append((searcher.state_dict(), evaluator.state_dict()))
        if len(states) == 5:
            raise KilledError

    with pytest.raises(KilledError):
        searcher.run(evaluator, die)
    searcher, evaluator = start()
    searcher.load_state_dict(states[-1][0])
    evaluator.load_state_dict(states[-1][1])
    searcher.run(evaluator)
    resumed = evaluator.result()
    for name in ("best_loss", "iterations", "true_queries", "surrogate_queries"):
        assert getattr(resumed, name) == getattr(undisturbed, name)
    for name in ("best_code", "curve_iteration", "curve_loss"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(undisturbed, name))


def test_resumed_time_continues() -> None:
    clock = Clock()
    evaluator = Evaluator(ToyModel(), SPACE, seconds=10.0, clock=clock)
    assert evaluator.remaining
    clock.now += 4.0
    state = evaluator.state_dict()
    clock.now += 100.0
    resumed = Evaluator(ToyModel(), SPACE, seconds=10.0, clock=clock)
    resumed.load_state_dict(state)
    assert resumed.elapsed == 4.0
    assert resumed.remaining
    clock.now += 5.0
    assert resumed.elapsed == 9.0
    clock.now += 1.0
    assert resumed.remaining == 0


def test_an_empty_curve_survives_saving() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=2)
    resumed = Evaluator(ToyModel(), SPACE, iterations=2)
    resumed.load_state_dict(evaluator.state_dict())
    assert resumed.result().curve_loss.tolist() == [np.inf]


def test_what_came_too_late_is_no_iteration() -> None:
    clock = Clock()
    evaluator = Evaluator(ToyModel(), SPACE, seconds=2.0, query_latency=0.05, clock=clock)
    assert evaluator.remaining
    evaluator(SPACE.sample(np.random.default_rng(0), 100))
    result = evaluator.result()
    assert result.true_queries == result.iterations == 40
    assert evaluator.remaining == 0


def test_less_than_a_second_is_a_budget() -> None:
    assert Evaluator(ToyModel(), SPACE, seconds=0.5, clock=Clock()).seconds_left == 0.5
    assert Evaluator(ToyModel(), SPACE, iterations=1, query_latency=0.0).remaining == 1


def test_recorded_queries_may_take_the_last_iteration() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=4)
    evaluator(CODES[:2], surrogate_queries=4, counted=False)
    assert evaluator.remaining == 0


def test_a_single_query_takes_all_of_its_time() -> None:
    clock = Clock()
    evaluator = Evaluator(SlowModel(clock), SPACE, seconds=10.0, query_latency=1.0, clock=clock)
    evaluator(CODES[:1])
    evaluator(CODES[1:2])
    np.testing.assert_array_equal(evaluator.result().curve_seconds, [2.0, 4.0, 4.0])


def test_as_many_queries_as_fit_count() -> None:
    """Of three seconds' queries two are in time, and none more than there were."""
    clock = Clock()
    evaluator = Evaluator(SlowModel(clock), SPACE, seconds=2.5, clock=clock)
    evaluator(CODES)
    assert (evaluator.true_queries, evaluator.iterations_used) == (2, 2)
    evaluator = Evaluator(SlowModel(clock), SPACE, seconds=100.0, clock=clock)
    evaluator(CODES)
    assert (evaluator.true_queries, evaluator.iterations_used) == (3, 3)


@pytest.mark.parametrize(
    ("network", "fanout", "rows"),
    [
        ({"hop_energy_pj": 0.5}, 2**20, 1),
        ({"hop_energy_pj": 0.5}, 2**18, 4),
        ({"router_pj": 0.5}, 2**19, 2),
        ({"ingress_pj": 0.5}, 2**22, 1),
        ({"ingress_pj": 0.5}, 256, 64),
        ({}, 2**22, 64),
    ],
    ids=str,
)
def test_a_walk_looks_at_the_clock_where_mappings_take_long(
    network: dict[str, float], fanout: int, rows: int
) -> None:
    """A second each where millions of children are counted apart."""
    levels = [
        {"name": "DRAM", "energy_pj": 100.0, "fanout": fanout, **network},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
    ]
    machine = accelerator({"name": "wide", "mac_energy_pj": 1.0, "levels": levels})
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), machine)
    asked = list[int]()

    def walk(_: CompiledCosts, n: int) -> tuple[Any, Any]:
        asked.append(min(n, 64))
        return codes, np.ones((0, 2))

    codes = space.sample(np.random.default_rng(0), 0)
    for budget in ({"seconds": 3.0}, {"iterations": 64}):
        assert Evaluator(LoopNestModel(), space, clock=Clock(), **budget).walk(walk)
    assert asked == [rows, 64]


def test_a_second_walk_goes_on_where_the_first_ended() -> None:
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    codes = space.sample(np.random.default_rng(0), 40, feasible=True)
    costs = LoopNestModel().evaluate(space, codes)
    order = np.argsort(-costs.edp, kind="stable")
    codes, scores = codes[order], np.column_stack([costs.edp, costs.energy_pj])[order]
    clock = Clock()
    evaluator = Evaluator(LoopNestModel(), space, iterations=60, clock=clock)

    def part(rows: slice) -> Any:
        def walk(_: CompiledCosts, n: int) -> tuple[Any, Any]:
            clock.now += 10.0
            return codes[rows], scores[rows]

        return walk

    for rows in (slice(0, 10), slice(10, 30), slice(30, 40)):
        assert evaluator.walk(part(rows))
    result = evaluator.result()
    spent = result.curve_iteration
    np.testing.assert_allclose(
        result.curve_seconds, np.interp(spent, [0, 10, 30, 40], [0.0, 10.0, 20.0, 30.0])
    )
    assert result.best_loss == scores[:, 0].min()


def test_a_tie_that_a_walk_claims_is_checked() -> None:
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    codes = space.sample(np.random.default_rng(0), 4, feasible=True)
    costs = LoopNestModel().evaluate(space, codes)
    scores = np.column_stack([costs.edp, costs.energy_pj])
    best = np.argmin(scores[:, 0])
    evaluator = Evaluator(LoopNestModel(), space, iterations=60)
    assert evaluator.walk(lambda _, n: (codes, scores))
    with pytest.raises(ContractError, match="not the model's"):
        evaluator.walk(lambda _, n: (codes[best][None], scores[best][None] * [1, 0.5]))


def test_a_curve_of_searches_that_overlap_does_not_go_back_in_time() -> None:
    """What another evaluator found while this one ran is later than what is known here."""
    mine, other = (Evaluator(ToyModel(), SPACE, seconds=100.0, clock=Clock()) for _ in range(2))
    for evaluator, latency, code in ((mine, 9.0, 0), (other, 2.0, 1)):
        evaluator.query_latency = latency
        evaluator(CODES[code : code + 1])
    mine.add(other.state_dict(), 1.0)
    result = mine.result()
    assert result.curve_loss[1] < result.curve_loss[0]
    assert (np.diff(result.curve_seconds) >= 0).all()
    assert result.curve_seconds[0] == result.curve_seconds[1] == 9.0


def elsewhere(
    code: int, loss: float, tie: float, curve: list[tuple[int, float, float, int]]
) -> Any:
    """The state of another evaluator after four true and two surrogate queries."""
    iteration, seconds, losses, counted = zip(*curve, strict=True)
    return {
        **Evaluator(ToyModel(), SPACE, iterations=6).state_dict(),
        "best_code": CODES[code],
        "best_loss": loss,
        "best_tie": tie,
        "true_queries": 4,
        "surrogate_queries": 2,
        "iterations_used": 6,
        "curve_iteration": np.array(iteration),
        "curve_seconds": np.array(seconds),
        "curve_loss": np.array(losses),
        "curve_counted": np.array(counted),
    }


def test_what_others_scored_is_counted_as_if_it_came_next() -> None:
    called: list[float] = []
    mine = Evaluator(
        ToyModel(), SPACE, iterations=16, clock=Clock(),
        on_improvement=lambda one: called.append(one.best_loss),
    )  # fmt: skip
    mine(CODES[:1], surrogate_queries=3)
    first = mine.best_loss
    # Of what it found the second alone is better than what is known.
    mine.add(elsewhere(1, 5.0, 2.0, [(2, 0.25, first, 1), (5, 0.5, 5.0, 3)]), 2.0)
    assert (mine.true_queries, mine.surrogate_queries, mine.iterations_used) == (5, 5, 10)
    assert called == [first, 5.0]
    assert (mine.best_loss, mine.best_tie) == (5.0, 2.0)
    result = mine.result()
    # Four iterations and one true query came before.
    assert result.curve_iteration.tolist()[:2] == [4, 4 + 5]
    assert result.curve_counted.tolist()[:2] == [1, 1 + 3]
    assert result.curve_seconds.tolist()[:2] == [0.0, 2.0 + 0.5]
    assert result.curve_loss.tolist()[:2] == [first, 5.0]
    # As good: it is no improvement, and what was first stays; of equal losses the tie decides.
    mine.add(elsewhere(0, 5.0, 2.0, [(1, 0.0, 5.0, 1)]), 3.0)
    assert np.array_equal(mine.result().best_code, CODES[1])
    assert called == [first, 5.0]
    assert mine.remaining == 0
    with pytest.raises(ContractError, match="6 iterations were spent elsewhere, 0 were left"):
        mine.add(elsewhere(0, 1.0, 1.0, [(1, 0.0, 1.0, 1)]), 3.0)


def test_what_others_scored_ends_with_the_time() -> None:
    mine = Evaluator(ToyModel(), SPACE, seconds=2.25, clock=Clock())
    mine.add(elsewhere(1, 5.0, 2.0, [(1, 0.25, 9.0, 1), (5, 0.5, 5.0, 3)]), 0.0)
    mine.add(elsewhere(0, 4.0, 2.0, [(1, 0.5, 4.0, 1)]), 2.0)
    mine.add(elsewhere(2, 7.0, 1.0, [(1, 0.5, 7.0, 1)]), 2.0)
    mine.add(elsewhere(1, 4.0, 1.5, [(1, 0.5, 4.0, 1)]), 2.0)
    result = mine.result()
    assert result.curve_seconds.tolist()[:3] == [0.25, 0.5, 2.25]
    assert result.curve_loss.tolist()[:3] == [9.0, 5.0, 4.0]
    assert (mine.best_loss, mine.best_tie) == (4.0, 1.5)
    assert np.array_equal(result.best_code, CODES[1])
    mine.add(Evaluator(ToyModel(), SPACE, iterations=6).state_dict(), 2.0)
    assert np.array_equal(mine.result().best_code, CODES[1])
