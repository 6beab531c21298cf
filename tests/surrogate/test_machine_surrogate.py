"""The surrogate for every machine: its formula, what it learnt, its range, its files."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError, ContractError, DataError
from searchers import Evaluator, make
from surrogate import machine_training
from surrogate.count_network import CountNetwork, Readout
from surrogate.for_space import predictor
from surrogate.machine_surrogate import SHIPPED, load_network, shipped_for, why_not
from surrogate.machine_training import Judged, calibrate, fit_rest, judge, reached, rows_of, train
from surrogate.machines import HELD_OUT, HELD_OUT_DEEPER, TRAINING, case

LIMITED = {
    "extends": "mm256",
    "levels": [
        {"name": "DRAM", "energy_pj": {"read": 100.0, "fill": 90.0, "update": 80.0}},
        {"name": "L2", "bandwidth": 16.0, "bypass": ["weight"]},
        {"name": "L1", "read_bandwidth": 2.0, "write_bandwidth": 1.0},
    ],
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def compared(problem: str, machine: Any, network: CountNetwork) -> tuple[np.ndarray, np.ndarray]:
    """Differences of ln energy and ln cycles from the cost model's, `[B]` each."""
    space = MapSpace(workload(problem), accelerator(machine))
    codes = space.sample(np.random.default_rng(0), 100, feasible=True)
    truth = LoopNestModel().evaluate(space, codes)
    readout = Readout(space, network)
    with torch.no_grad():
        described = readout.describe(torch.from_numpy(space.encode(codes)))
        energy, cycles = readout.energy_and_cycles(described)
    return (
        energy.mean(0).numpy() - np.log(truth.energy_pj),
        cycles.mean(0).numpy() - np.log(truth.latency_cycles),
    )


@pytest.mark.parametrize("problem", ["gemm-512", "mttkrp-0", "marvel-l5"])
@pytest.mark.parametrize("machine", ["mm256", "mm256-bw", LIMITED], ids=["mm256", "bw", "limited"])
def test_where_no_tiles_slide_it_is_the_cost_model(problem: str, machine: Any) -> None:
    energy, cycles = compared(problem, machine, CountNetwork())
    np.testing.assert_allclose(energy, 0, atol=1e-4)
    # Cycles are rounded up.
    np.testing.assert_allclose(cycles, 0, atol=1e-3)


def test_what_slides_in_time_by_hand() -> None:
    """A window of 3 taps at 4 steps of 2 outputs: 4 words at first, then 2 new ones each."""
    space = MapSpace(workload("conv1d:P=8,R=3"), accelerator("mm256"))
    readout = Readout(space, load_network()[1])
    seen = torch.tensor([[math.log(2 / 4), math.log(4)]])
    learnt = readout.network.in_time(seen).detach()
    assert float(learnt.mean()) == pytest.approx(math.log((4 + 3 * 2) / (4 * 4)), abs=0.02)
    # Nothing slides where the innermost loop is of another dimension.
    assert readout.network.in_time(torch.zeros(5, 2)).abs().max() == 0


@pytest.mark.parametrize("index", [HELD_OUT[5], HELD_OUT[16], HELD_OUT_DEEPER[4]])
def test_machines_never_seen(index: int) -> None:
    card, network = load_network()
    judged = judge(network, case(index))
    assert np.sqrt(np.mean(judged.errors**2)) < 0.05
    assert judged.correlation > 0.999
    assert card.held_out.rmse < 0.05
    assert 0.8 <= card.held_out.inside_90 <= 0.95


@pytest.mark.slow
def test_the_card_says_what_training_would_reach() -> None:
    """A hundredth of the cases and some steps come near; the formula alone does not."""
    network, queries = train(40, steps=150)
    assert queries == 216 * (queries // 216)
    sliding = [index for index in HELD_OUT[:12] if case(index).workload.dimensions.get("R", 1) > 1]
    errors = np.concatenate([judge(network, case(index)).errors for index in sliding])
    plain = np.concatenate([judge(network, case(index), learnt=False).errors for index in sliding])
    assert np.sqrt(np.mean(errors**2)) < 0.3 * np.sqrt(np.mean(plain**2))


def test_training_is_decided_by_its_seed() -> None:
    in_time, across, _ = rows_of(map(case, TRAINING[:30]))
    assert (in_time.targets <= 1e-5).all()
    networks = []
    for _ in range(2):
        torch.manual_seed(3)
        network = CountNetwork()
        fit_rest(network.across, across, steps=5, seed=1)
        networks.append(network.state_dict())
    for name, value in networks[0].items():
        assert torch.equal(value, networks[1][name])


def test_gradients_are_differences() -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator(LIMITED))
    found = shipped_for(space)
    codes = space.sample(np.random.default_rng(1), 4, feasible=True)
    points = space.encode(codes)
    values, described, slopes = found.value_and_slope(points)
    np.testing.assert_allclose(found.value(points), values, atol=1e-4)
    np.testing.assert_array_equal(found.describe(points), described)
    truth = np.log(LoopNestModel().evaluate(space, codes).edp)
    assert np.std(values - truth) < 0.02
    # Along the iterations, of which energy and latency grow with all else.
    step = torch.zeros(described.shape[1])
    step[0] = 1e-2
    with torch.no_grad():
        at = torch.from_numpy(described)
        up, down = (found.readout.log_edp(at + sign * step).mean(0) for sign in (1, -1))
    np.testing.assert_allclose(((up - down) / 2e-2).numpy(), slopes[:, 0], atol=0.2)
    edp, gradient = found.value_and_gradient(points)
    np.testing.assert_allclose(edp, values, atol=1e-4)
    assert np.isfinite(gradient).all()
    _, spreads = found.value_and_spread(points)
    assert (spreads > 0).all()


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ({"extends": "mm256", "bypass": "searched"}, "bypass: none, not searched"),
        ({"extends": "mm256", "factors": "imperfect"}, "factors: perfect, not imperfect"),
        ({"extends": "mm256", "levels": [{"name": "L2", "hop_energy_pj": 0.5}]}, "hop_energy_pj"),
        ({"extends": "mm256", "levels": [{"name": "L1", "leakage_pj": 0.5}]}, "leakage_pj .of L1"),
        ("eyeriss168bw", "2 to 4 memory levels, not 5"),
        ({"extends": "mm256", "output_fills": "charged"}, "output_fills: elided, not charged"),
    ],
)  # fmt: skip
def test_it_says_by_name_what_it_is_not_for(machine: Any, reason: str) -> None:
    space = MapSpace(workload("gemm-512"), accelerator(machine))
    with pytest.raises(ConfigError, match=reason) as refused:
        predictor(space, None)
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="surrogate for machines does not fit"):
        shipped_for(space)
    assert why_not(space.workload, accelerator("mm256"), (2, 4)) is None


def test_points_are_checked() -> None:
    space = MapSpace(workload("gemm-512"), accelerator("mm256"))
    found = shipped_for(space)
    with pytest.raises(ContractError, match="shape"):
        found.value(np.zeros((2, 3), np.float32))
    points = np.ones((2, len(space.feature_names)), np.float32)
    points[1, 0] = np.nan
    with pytest.raises(ContractError, match="row 1"):
        found.value(points)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    for suffix in (".json", ".safetensors"):
        shutil.copy(SHIPPED.with_suffix(suffix), tmp_path / f"machines{suffix}")
    path = tmp_path / "machines.json"
    assert load_network(path)[0].format == 1
    load_network.cache_clear()
    weights = path.with_suffix(".safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + b"\x00")
    with pytest.raises(DataError, match="damaged"):
        load_network(path)
    weights.write_bytes(whole)
    card = json.loads(path.read_text())
    path.write_text(json.dumps({**card, "width": 7}))
    with pytest.raises(DataError, match="of width 48, got 1 with 4 of 7"):
        load_network(path)
    path.write_text("{")
    with pytest.raises(DataError, match=r"machines\.json"):
        load_network(path)
    with pytest.raises(DataError, match=r"machines\.json"):
        load_network(tmp_path / "none" / "machines.json")


def test_searches_on_a_machine_without_its_own_training() -> None:
    """The first proposal is near the best of many by chance."""
    space = MapSpace(workload("alexnet-conv4"), accelerator(LIMITED))
    drawn = space.sample(np.random.default_rng(0), 200, feasible=True)
    chance = LoopNestModel().evaluate(space, drawn).edp.min()
    for name, iterations in (("surrogate-guided", 1), ("gradient", 200)):
        evaluator = Evaluator(LoopNestModel(), space, iterations=iterations)
        make(name, space, seed=0, predictor=predictor(space, None)).run(evaluator)
        assert evaluator.best_loss < chance


@pytest.mark.parametrize("width", [0.5, 3.0])
def test_nine_tenths_of_the_truths_are_inside_what_calibration_says(
    width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the ensemble is unsure of little more than rounding, and where of much more."""
    rng = np.random.default_rng(0)
    spreads = np.where(rng.random(40_000) < 0.5, 0.0, rng.uniform(0.02, 0.4, 40_000))
    errors = np.hypot(width * spreads, 0.02) * rng.standard_normal(40_000)
    parts = iter([Judged(errors[:100], spreads[:100], 1.0), Judged(errors[100:], spreads[100:], 1)])
    monkeypatch.setattr(machine_training, "judge", lambda network, found: next(parts))
    nothing: list[Any] = [None, None]
    found, floor = calibrate(CountNetwork(), nothing)
    assert floor == pytest.approx(0.02, rel=0.02)
    assert found == pytest.approx(width, rel=0.02)
    unsure = spreads > floor
    inside = np.abs(errors) <= 1.645 * np.hypot(found * spreads, floor)
    assert inside[unsure].mean() == pytest.approx(0.9, abs=1e-3)


def test_what_is_reached_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases of three and one mappings, beside the formula alone, which errs by one."""
    cases = [
        Judged(np.array([0.1, -0.3, 0.2]), np.array([0.0, 0.1, 0.1]), 0.5),
        Judged(np.array([-0.4]), np.array([0.05]), float("nan")),
    ]

    def judged(network: Any, found: Any, *, learnt: bool = True) -> Judged:
        return cases[found] if learnt else Judged(np.array([1.0]), np.array([0.0]), 1.0)

    monkeypatch.setattr(machine_training, "judge", judged)
    numbers: list[Any] = [0, 1]
    found = reached(CountNetwork(), numbers, 2.0, 0.07)
    assert (found.cases, found.rows) == (2, 4)
    assert found.rmse == pytest.approx(np.sqrt((0.01 + 0.09 + 0.04 + 0.16) / 4))
    assert found.rmse_of_the_formula == 1.0
    assert found.worst == 0.4
    assert found.spearman == found.spearman_worst == 0.5
    # 0.1 <= 1.645 x 0.07; 0.3 and 0.2 <= 1.645 x hypot(0.2, 0.07); 0.4 > 1.645 x hypot(0.1, 0.07).
    assert found.inside_90 == 0.75
    # It is sure of the first and of the last.
    assert found.inside_90_where_unsure == 1.0
    assert found.unsure == 0.5
