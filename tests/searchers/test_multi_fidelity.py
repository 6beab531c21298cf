"""The multi-fidelity searcher: what a cheap model lacks is learnt from few true costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemmini import Measured, measured, read_rows
from paths import GOLDEN
from written_nests import written

from costmodel import LoopNestModel, MapSpace, TilingSpace, accelerator, workload
from costmodel.problems.workload_families import gemm
from costmodel.tiling import AnalyticalTiling
from costmodel.tiling.register_kernel import kernel_cycles
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToySpace
from searchers import Evaluator, make
from searchers.shared.calibration import FORMS, Calibrated, Form, Law, choose_form
from searchers.shared.causes import nest_causes
from searchers.shared.priors import plain, prior_of

LAYER = workload("cnn:N=4,K=96,C=80,P=14,Q=14,R=3,S=3,stride=1")
BOUND = MapSpace(LAYER, accelerator("mm256-bw"))


def test_words_without_reuse_by_hand() -> None:
    # Of 4 steps at DRAM each asks for a tile of A (2 x 2), B (2 x 4) and Z (2 x 4) anew. With reuse
    # Z stays while K runs, so that 16 words of it leave.
    space, codes = written(
        gemm("tiny", M=4, N=4, K=4), {"DRAM": "M2 K2", "L2": "| N2", "L1": "M2 N2 K2"}
    )
    causes = nest_causes(space.tables, codes, LoopNestModel().evaluate(space, codes, detail=True))
    np.testing.assert_array_equal(causes.loads[0][0, 3:], [4 * 4, 4 * 8, 4 * 8])
    np.testing.assert_array_equal(causes.loads[0][0, :3], [16, 32, 16])
    assert causes.steps[0] == 4
    # 2 x 2 x 2 steps in each of two elements, of 4 x 4 x 4.
    assert np.exp(causes.compute[0]) == pytest.approx(32)


def drawn(count: int, seed: int) -> tuple[Any, np.ndarray]:
    """Mappings as a model without bandwidths sees them, and their true ln EDP."""
    codes = BOUND.sample(np.random.default_rng(seed), count, feasible=True)
    return prior_of(BOUND, "plain")(codes), np.log(LoopNestModel().evaluate(BOUND, codes).edp)


def test_a_machine_without_what_the_cheap_model_leaves_out() -> None:
    machine = plain(accelerator("mm256-bw"))
    assert machine.levels[0].read_bandwidth is None
    assert machine.levels[1].capacity_words == 262144
    codes = BOUND.sample(np.random.default_rng(0), 50, feasible=True)
    free = LoopNestModel().evaluate(MapSpace(LAYER, machine), codes)
    np.testing.assert_allclose(prior_of(BOUND, "plain")(codes).logs(1, 1), np.log(free.edp))
    whole = LoopNestModel().evaluate(BOUND, codes)
    np.testing.assert_allclose(
        prior_of(BOUND, "model")(codes).logs(0, 1), np.log(whole.latency_cycles)
    )
    assert (whole.latency_cycles > free.latency_cycles).any()


def test_the_cheap_model_of_tilings_has_caches_and_innermost_loops() -> None:
    space = TilingSpace(workload("gemm:M=64,N=64,K=64"))
    codes = space.sample(np.random.default_rng(0), 20)
    causes = prior_of(space, "model")(codes)
    caches = AnalyticalTiling().evaluate(space, codes).latency_cycles
    kernel = kernel_cycles(space, space.factors(codes), accelerator("cpu-avx512"))
    np.testing.assert_allclose(causes.logs(0, 1), np.log(np.maximum(caches, kernel)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", ["edp", "energy", "latency", "ed2p"])
def test_slopes_of_a_law_are_its_differences(form: Form, objective: Any) -> None:
    causes, logs = drawn(30, 0)
    law = Law(form, causes, logs, objective)
    at = np.random.default_rng(1).normal(scale=0.5, size=len(law._prices))
    _, slopes = law._figure(causes, at)
    for price in range(len(at)):
        step = np.zeros(len(at))
        step[price] = 1e-5
        up, down = law._figure(causes, at + step)[0], law._figure(causes, at - step)[0]
        np.testing.assert_allclose((up - down) / 2e-5, slopes[:, price], atol=1e-6)


def test_a_form_is_chosen_where_there_is_enough_to_choose_by() -> None:
    """Of latencies that follow the words of the innermost loops, from 20 on, on two machines."""
    causes, _ = drawn(20, 0)
    asked: Any = {"process": False}
    words = causes.compute + 3.0
    two = np.arange(20) % 2
    assert choose_form(causes, words, "latency", **asked) in FORMS[1:]
    assert choose_form(causes, words, "latency", machines=two, **asked) in FORMS[1:]
    assert choose_form(causes, words, "latency", machines=0 * two, **asked) == FORMS[0]
    few = causes.rows(slice(0, 19))
    assert choose_form(few, words[:19], "latency", **asked) == FORMS[0]
    assert choose_form(causes, words, "energy", **asked) == FORMS[0]


def spread(left: np.ndarray) -> float:
    return float(np.std(left))


def test_bandwidths_are_learnt_from_forty_mappings() -> None:
    seen, logs = drawn(40, 0)
    asked, truth = drawn(400, 1)
    analytic = spread(truth - asked.logs(1, 1))
    corrected = spread(truth - Calibrated(seen, logs, "edp").predict(asked))
    assert analytic > 0.25
    assert corrected < 0.5 * analytic
    # With nothing measured, and with nothing corrected, it is the cheap model.
    nothing = Calibrated(seen.rows(slice(0, 0)), logs[:0], "edp")
    np.testing.assert_allclose(nothing.predict(asked), asked.logs(1, 1))
    none = Calibrated(seen, logs, "edp", correction="none")
    np.testing.assert_allclose(none.predict(asked), asked.logs(1, 1))


def test_one_measurement_moves_the_scale_alone() -> None:
    seen, logs = drawn(1, 0)
    asked, _ = drawn(50, 1)
    moved = Calibrated(seen, logs, "edp").predict(asked) - asked.logs(1, 1)
    assert Calibrated(seen, logs, "edp").predict(seen) == pytest.approx(logs)
    assert spread(moved) < 1e-12


@pytest.fixture(scope="module")
def rtl() -> Measured:
    return measured(read_rows(GOLDEN / "dosa" / "rtl-designs.csv"))


def test_cycles_of_rtl_on_machines_never_seen(rtl: Measured) -> None:
    """Gemmini in FireSim: six machines, each predicted from the five others."""
    published = [
        float(row["target.cycle"]) for row in read_rows(GOLDEN / "dosa" / "rtl-designs.csv")
    ]
    np.testing.assert_allclose(rtl.analytic, published)
    errors = []
    for machine in range(6):
        out = rtl.machines == machine
        model = Calibrated(
            rtl.causes.rows(~out),
            np.log(rtl.cycles[~out]),
            "latency",
            machines=rtl.machines[~out],
        )
        cycles = np.exp(model.predict(rtl.causes.rows(out)))
        errors += list(np.maximum(cycles / rtl.cycles[out], rtl.cycles[out] / cycles))
    assert len(errors) == 101
    analytic = np.maximum(rtl.cycles / rtl.analytic, rtl.analytic / rtl.cycles)
    assert np.quantile(analytic, 0.9) > 2.0
    assert np.quantile(errors, 0.9) < 1.35
    assert np.mean(errors) < 1.13 < np.mean(analytic)


def test_few_queries_beat_the_cheap_model_alone() -> None:
    def after(correction: str) -> float:
        losses = []
        for seed in range(2):
            evaluator = Evaluator(LoopNestModel(), BOUND, iterations=24)
            make("multi-fidelity", BOUND, seed=seed, prior="plain", correction=correction).run(
                evaluator
            )
            losses.append(evaluator.best_loss)
        return float(np.mean(np.log(losses)))

    assert after("process") <= after("none")


def test_refused_mappings_do_not_end_the_search() -> None:
    searcher = make("multi-fidelity", BOUND, seed=0, chains=8, steps=2)
    for losses in (np.full(6, np.inf), np.full(6, 2.0), np.arange(1.0, 7.0)):
        assert len(searcher.ask(6)) == 6
        searcher.tell(losses)
    assert len(searcher.ask(6)) == 6


def test_it_needs_a_space_with_a_cheap_model() -> None:
    with pytest.raises(ConfigError, match="needs a MapSpace or TilingSpace"):
        make("multi-fidelity", ToySpace(), seed=0)
