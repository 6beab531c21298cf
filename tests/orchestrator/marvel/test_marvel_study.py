"""Marvel studies: layers, baselines against exhaustive counts, interruptions, the command."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import noisy_libraries
from paths import EXPERIMENTS

from costmodel import ConfigError, accelerator, workload
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import OnChipSpace, Pruning, on_chip_search
from costmodel.maestro.distinct_blocks import Layer, footprint_elements, layer_of
from costmodel.maestro.off_chip import search
from costmodel.maestro.on_chip_search import OBJECTIVES, model_of
from costmodel.problems.workload_families import cnn, conv1d, gemm, mttkrp
from costmodel.tile_chains.lattice import divisors_of
from orchestrator.marvel.baselines import JointSpace, brute_force, random_search
from orchestrator.marvel.config import MarvelStudy
from orchestrator.marvel.joint import joint_search, least_compute_cycles, least_values
from orchestrator.marvel.plan import StudyPlan, Task, kind_of, prepare_study, study_layer
from orchestrator.marvel.remainders import remainder_search
from orchestrator.marvel.rows import Result, memory_of, tiles_of, whole_layer
from orchestrator.marvel.run import compute, study
from orchestrator.marvel.space_sizes import space_sizes
from orchestrator.records.evaluate_records import scored
from orchestrator.runs.experiments import load_experiment
from orchestrator.runs.ray_runtime import fan_out
from orchestrator.schemas.published import schema

SMALL = "cnn:N=1,K=4,C=4,P=3,Q=2,R=1,S=1"
OTHER = "cnn:N=1,K=2,C=2,P=4,Q=4,R=3,S=3"
DENSE = Layer("dense", K=2, C=2, R=3, S=3, P=4, Q=2)
DEPTHWISE = Layer("depthwise", K=1, C=4, R=3, S=3, P=4, Q=2, depthwise=True)
STRIDED = Layer("strided", K=2, C=4, R=1, S=1, P=3, Q=2, stride=2)


def machine(elements: int = 4, l1: int = 90, l2: int = 150) -> Accelerator:
    network = {"read_bandwidth": 3.0, "write_bandwidth": 3.0, "fanout": elements}
    levels = [
        {"name": "L2", "capacity_words": l2, **network},
        {"name": "L1", "capacity_words": l1},
    ]
    return accelerator({"extends": "eyeriss-168", "name": "tiny", "levels": levels})


def content_for(**changes: object) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": "marvel",
        "name": "test",
        "workloads": [SMALL, OTHER],
        "accelerators": ["eyeriss-168"],
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def plan_for(**changes: object) -> StudyPlan:
    return prepare_study(MarvelStudy.model_validate(content_for(**changes)), "test.yaml")


def rows_in(folder: Path) -> list[Result]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def everything(layer: Layer, device: Accelerator) -> dict[str, Any]:
    """Least values over all fitting level-3 tiles x all codes that run, one tile at a time."""
    memory, model = memory_of(device), model_of(device)
    least = dict.fromkeys(OBJECTIVES, math.inf)
    count = tiles = 0
    for k in divisors_of(layer.K):
        for c in divisors_of(layer.C):
            for p in divisors_of(layer.P):
                for q in divisors_of(layer.Q):
                    tile = (k, c, layer.R, layer.S, p, q)
                    if 2 * footprint_elements(layer, np.array([tile])).sum() > (
                        memory.capacity_bytes
                    ):
                        continue
                    space = OnChipSpace(layer, tile, device)
                    grid = np.meshgrid(*map(np.arange, space.cardinality), indexing="ij")
                    codes = np.stack(grid, axis=-1).reshape(-1, 6).astype(np.int32)
                    codes = codes[space.feasible(codes)]
                    costs = model.cost(space.mappings(codes))
                    repeats = tiles_of(layer, tile)
                    runtime = repeats * costs.counts.runtime_cycles
                    energy = repeats * costs.energies.total
                    values = (runtime, energy, runtime * energy)
                    for name, some in zip(OBJECTIVES, values, strict=True):
                        least[name] = min(least[name], float(some.min()))
                    count += len(codes)
                    tiles += 1
    return {"count": count, "tiles": tiles, "least": least}


def test_the_shipped_studies() -> None:
    path = EXPERIMENTS / "marvel-layers.yaml"
    plan = prepare_study(load_experiment(path, MarvelStudy), str(path))
    assert [found.kind for found in plan.layers] == [
        *["RADD", "DSCONV", "DSCONV", "DSCONV", "PWCONV", "SPWCONV", "FC", "CONV", "CONV"],
        *["RADD", "PWCONV", "PWCONV", "PWCONV", "SPWCONV", "FC"],
    ]
    assert [found.layer.depthwise for found in plan.layers] == [True] * 4 + [False] * 11
    assert len({task.key for _, task in plan.rows}) == len(plan.rows) == 30
    path = EXPERIMENTS / "marvel-networks.yaml"
    plan = prepare_study(load_experiment(path, MarvelStudy), str(path))
    totals: dict[str, int] = {}
    for found in plan.layers:
        for name, count in found.networks.items():
            totals[name] = totals.get(name, 0) + count
    assert totals == {"vgg16": 13, "alexnet": 5, "resnet50": 53, "mobilenetv2": 52}
    # Both accelerators have the same rows, each distinct layer once.
    assert len(plan.layers) == 64
    assert len({task.key for _, task in plan.rows}) == 2 * 64


def test_layers_that_are_no_plain_convolution() -> None:
    found = study_layer(cnn("g", N=1, K=8, C=4, P=6, Q=6, R=3, S=3, stride=2, groups=2))
    assert (found.groups, found.layer.bounds, found.layer.stride) == (2, (8, 4, 3, 3, 6, 6), 2)
    assert (found.layer.depthwise, found.kind) == (False, "SCONV")
    found = study_layer(gemm("m", M=5, N=7, K=3))
    assert (found.layer.bounds, found.kind) == ((7, 3, 1, 1, 5, 1), "PWCONV")
    found = study_layer(conv1d("l", K=2, C=3, P=9, R=4))
    # The axis is the width, P, and its filter the paper's S.
    assert found.layer.bounds == (2, 3, 1, 4, 9, 1)
    assert kind_of(study_layer(gemm("v", M=1, N=7, K=3)).layer) == "FC"
    with pytest.raises(ConfigError, match=r"t: expected a convolution, .* got 'mttkrp'"):
        study_layer(mttkrp("t", I=2, J=2, K=2, L=2))
    with pytest.raises(ConfigError, match="N = 2"):
        study_layer(cnn("b", N=2, K=8, C=4, P=6, Q=6, R=3, S=3))


def test_sizes_by_hand() -> None:
    layer = Layer("two", K=2, C=2, R=1, S=1, P=1, Q=1)
    device = machine(elements=2)
    off_chip = search(layer, 150)
    assert off_chip.tile == (2, 2, 1, 1, 1, 1)
    on_chip = on_chip_search(layer, off_chip.tile, device)
    sizes = space_sizes(layer, device, off_chip, on_chip, Pruning())
    # A bound of 2 has three chains of divisors (1 1 1, 1 1 2, 2 1 2: tile, factor, level-3 tile)
    # without and one (1 2 2) with parallelism; two elements allow one of two such factors.
    assert sizes["original"] == (3 * 3 + 3 + 3) * 5040**2 * 864
    assert sizes["off_chip"] == 2 * 2 * 5040 * 864
    assert sizes["on_chip"] == (2 * 2 + 2 + 2) * 5040
    assert sizes["off_chip_pruned"] == 2 * 2 * 36
    assert sizes["on_chip_pruned"] == (2 * 2 + 2 + 2) * 12


@pytest.mark.parametrize("layer", [DENSE, DEPTHWISE, STRIDED], ids=lambda layer: layer.name)
def test_joint_searches_against_everything(layer: Layer) -> None:
    device = machine()
    truth = everything(layer, device)
    tiles = math.prod(len(divisors_of(bound)) for bound in (layer.K, layer.C, layer.P, layer.Q))
    assert 1 < truth["tiles"] <= tiles
    assert layer is not DENSE or truth["tiles"] < tiles  # the buffer counts
    force = brute_force(layer, device, 1, seconds=60.0)
    assert force["complete"]
    assert (force["evaluated"], force["fitting"]) == (truth["count"], truth["tiles"])
    off_chip = search(layer, 150)
    first = off_chip.tile, on_chip_search(layer, off_chip.tile, device)
    joint = joint_search(layer, device, 1, first, seconds=60.0)
    assert joint["complete"]
    drawn = random_search(layer, device, 1, seconds=0.05, seed=0)
    own = whole_layer(first[1].best, tiles_of(layer, off_chip.tile))
    for name in OBJECTIVES:
        least = pytest.approx(truth["least"][name], rel=1e-12)
        assert force["best"][name]["value"] == least
        assert joint["best"][name]["value"] == least
        assert drawn["best"][name]["value"] >= truth["least"][name] * (1 - 1e-12)
        assert own[name] >= truth["least"][name] * (1 - 1e-12)
        assert joint["best"][name]["cost"] >= off_chip.cost
    twice = joint_search(layer, device, 2, first, seconds=60.0)
    assert twice["best"]["edp"]["value"] == pytest.approx(4 * truth["least"]["edp"], rel=1e-12)


@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 4),
    window=st.tuples(*[st.sampled_from([1, 2, 3])] * 2),
    stride=st.integers(1, 3),
    depthwise=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_bounds_hold(
    sizes: tuple[int, ...], window: tuple[int, ...], stride: int, depthwise: bool, seed: int
) -> None:
    (k, c, p, q), (r, s) = sizes, window
    layer = Layer("any", 1 if depthwise else k, c, r, s, p, q, stride, depthwise)
    device = machine(elements=6, l2=2000)
    space, model = JointSpace(layer, device), model_of(device)
    bounds = least_values(space, model, 1)
    chosen, mappings = space.sample(np.random.default_rng(seed), 200)
    costs = model.cost(mappings)
    repeats = space.counts[chosen]
    runtime = costs.counts.runtime_cycles * repeats
    energy = costs.energies.total * repeats
    work = np.array([least_compute_cycles(space, index) for index in range(len(space.tiles))])
    assert (bounds["runtime"][chosen] <= runtime).all()
    assert ((space.counts * work)[chosen] <= runtime).all()
    rounding = 1 + 1e-12
    assert (bounds["energy"][chosen] <= energy * rounding).all()
    assert (bounds["edp"][chosen] <= runtime * energy * rounding).all()


def test_samples_are_uniform_over_tiles_and_mappings() -> None:
    space = JointSpace(Layer("even", K=2, C=2, R=1, S=1, P=1, Q=2), machine())
    chosen, mappings = space.sample(np.random.default_rng(0), 24_000)
    assert len(space.tiles) == 8
    assert np.bincount(chosen) == pytest.approx(np.full(8, 3000), abs=250)
    # Of the tile K = C = Q = 2 every pair (tile, factor) is drawn equally often, but for one
    # element too many: 3 x 3 x 3 combinations without 2 x 2 x 2 over four elements.
    whole = chosen == 7
    combinations = np.concatenate([mappings.tile, mappings.spread], axis=1)[whole]
    kinds, counts = np.unique(combinations, axis=0, return_counts=True)
    assert len(kinds) == 26
    assert counts == pytest.approx(np.full(26, whole.sum() / 26), abs=60)
    again = space.sample(np.random.default_rng(0), 24_000)
    assert (again[0] == chosen).all()
    assert (again[1].order == mappings.order).all()


def test_remainders_are_searched_completely_where_there_is_time() -> None:
    layer, device = Layer("odd", K=3, C=1, R=1, S=3, P=5, Q=1), machine(elements=2)
    found = remainder_search(layer, layer.bounds, device, seconds=60.0)
    assert found["proven"]
    space = OnChipSpace(layer, layer.bounds, device, remainders=True)
    grid = np.meshgrid(*map(np.arange, space.cardinality), indexing="ij")
    codes = np.stack(grid, axis=-1).reshape(-1, 6).astype(np.int32)
    costs = model_of(device, fidelity="corrected").cost(
        space.mappings(codes[space.feasible(codes)])
    )
    runtime, energy = costs.counts.runtime_cycles, costs.energies.total
    for name, values in zip(OBJECTIVES, (runtime, energy, runtime * energy), strict=True):
        assert found["best"][name]["value"] == pytest.approx(float(values.min()), rel=1e-12)
    # Neither 3 nor 5 divides over two elements: 45 multiply-accumulates one after another.
    assert found["reference"]["runtime"]["value"] >= 45
    assert found["best"]["runtime"]["value"] < 45


def test_without_time_remainders_keep_what_divides() -> None:
    layer = layer_of(workload("marvel-l9"))
    tile = (64, 64, 3, 3, 5, 5)
    found = remainder_search(layer, tile, accelerator("eyeriss-168"), seconds=0.01)
    assert not found["proven"]
    for name in OBJECTIVES:
        assert found["best"][name]["value"] <= found["reference"][name]["value"]


def test_a_study_of_two_of_the_papers_layers(tmp_path: Path) -> None:
    plan = plan_for(
        workloads=["marvel-l4", "marvel-l15"], accelerators=["eyeriss-168", "edge-1024"]
    )
    rows = study(plan, tmp_path, execute=map)
    assert rows_in(tmp_path) == rows
    assert [(row["layer"], row["accelerator"]) for row in rows] == [
        (name, device)
        for name in ("marvel-l4", "marvel-l15")
        for device in ("eyeriss-168", "edge-1024")
    ]
    # What `mapspace benchmark marvel-layers` writes of these layers.
    found = [row["on_chip"]["best"]["runtime"]["value"] for row in rows]
    assert found == [326, 41, 4145, 433]
    row = rows[0]
    assert row["off_chip"]["tile"] == [1, 64, 3, 3, 5, 5]
    assert row["off_chip"]["layout"] == ["C", "C", "K"]
    assert row["off_chip"]["order"] == ["C"]
    assert min(row["off_chip"]["least_costs"]) == row["off_chip"]["cost"]
    assert row["tiles_per_layer"] == 9
    assert row["macs"] == 576 * 9 * 25
    assert row["whole"]["runtime"] == 9 * 326
    best = row["on_chip"]["best"]["edp"]
    assert row["whole"]["edp"] == pytest.approx(81 * best["runtime"] * best["energy"], rel=1e-12)
    for row in rows:
        for name in OBJECTIVES:
            least = row["on_chip"]["best"][name]["value"]
            families = row["on_chip"]["families"].values()
            assert min(family[name]["value"] for family in families) <= least
            for flow in row["on_chip"]["dataflows"].values():
                assert flow[name]["value"] >= least
        assert row["whole"]["runtime"] >= 0.9 * row["roofline"]["cycles"]
        assert (row["baselines"], row["remainders"]) == ([], None)
    (records,) = scored("maestro", tmp_path / "best.jsonl")
    heads = [(record["layer"], record["machine"], record["objective"]) for record in records]
    assert heads == [(r["layer"], r["accelerator"], name) for r in rows for name in OBJECTIVES]
    for record in records:
        runtime, energy = record["result"]["runtime"], record["result"]["energy_total"]
        value = {"runtime": runtime, "energy": energy, "edp": runtime * energy}
        assert value[record["objective"]] == pytest.approx(record["value"], rel=1e-12)


def test_groups_run_one_after_another() -> None:
    grouped = plan_for(workloads=["cnn:N=1,K=4,C=4,P=3,Q=2,R=1,S=1,groups=2"], joint_seconds=9.0)
    single = plan_for(workloads=[SMALL], joint_seconds=9.0)
    (head, two), (_, one) = grouped.rows[0], single.rows[0]
    assert (head.groups, two.layer.bounds) == (2, one.layer.bounds)
    from orchestrator.marvel.layer_task import study_task

    twice, once = study_task(two), study_task(one)
    assert twice["tiles_per_layer"] == 2 * once["tiles_per_layer"]
    assert twice["roofline"]["cycles"] == 2 * once["roofline"]["cycles"]
    assert twice["off_chip"]["total_blocks"] == 2 * once["off_chip"]["total_blocks"]
    factors = {"runtime": 2, "energy": 2, "edp": 4}
    for name, factor in factors.items():
        assert twice["whole"][name] == factor * once["whole"][name]
        joint = [found["baselines"][0]["best"][name]["value"] for found in (twice, once)]
        assert joint[0] == pytest.approx(factor * joint[1], rel=1e-12)


def test_equal_layers_are_computed_once_and_finished_ones_never_again(tmp_path: Path) -> None:
    network = tmp_path / "net.yaml"
    network.write_text(
        yaml.safe_dump({"layers": [{"workload": SMALL, "name": "first"}, OTHER, SMALL, SMALL]})
    )
    plan = plan_for(workloads=[SMALL], networks=[str(network)])
    assert [found.networks for found in plan.layers[1:]] == [{"net": 3}, {"net": 1}]
    done: list[str] = []

    def counted(function: Callable[[Task], Any], tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            done.append(task.key)
            yield function(task)

    def names() -> list[str]:
        return [row["layer"] for row in study(plan, tmp_path / "run", execute=counted)]

    assert len(names()) == 3
    assert len(done) == 2
    names()
    assert len(done) == 2
    (tmp_path / "run" / "results" / f"{done[0]}.json").write_text('{"failure": nul')
    names()
    assert done == [done[0], done[1], done[0]]
    (tmp_path / "run" / "results" / f"{done[0]}.json").write_text('{"failure": null}')
    names()
    assert done == [done[0], done[1], done[0], done[0]]
    with pytest.raises(ConfigError, match=f"layers: the name '{OTHER}' is given twice"):
        plan_for(workloads=[OTHER], networks=[str(network)])


def test_a_killed_worker_loses_only_the_layer_at_work(tmp_path: Path, ray_runtime: None) -> None:
    marker = tmp_path / "killed"
    plan = plan_for()

    def dies_after(function: Callable[[Task], Any]) -> Callable[[Task], Any]:
        def wrapped(task: Task) -> Any:
            result = function(task)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    def execute(function: Callable[[Task], Any], tasks: Sequence[Task]) -> Iterator[Any]:
        return fan_out(dies_after(function), tasks)

    rows = study(plan, tmp_path / "run", execute=execute)
    assert marker.exists()
    assert [row["failure"] for row in rows] == [None, None]
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_what_a_dead_worker_has_written_is_taken(tmp_path: Path) -> None:
    (_, task), _ = plan_for().rows
    before = compute(tmp_path, task)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({**before, "tiles_per_layer": 12345}))
    assert compute(tmp_path, task)["tiles_per_layer"] == 12345


def test_a_layer_that_fits_nowhere_is_a_row(tmp_path: Path) -> None:
    levels = [{"name": "L2", "capacity_words": 20}, {"name": "L1", "capacity_words": 512}]
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({"extends": "eyeriss-168", "levels": levels}))
    plan = plan_for(accelerators=[str(path)], utilisation_bound=0.0)
    rows = study(plan, tmp_path / "run", execute=map)
    assert rows[0]["failure"] is None
    assert rows[1]["failure"].startswith("the layer fits nowhere: its smallest tile (K=1, C=1, R=3")
    assert rows[1]["layer"] == OTHER
    assert "on_chip" not in rows[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workloads": ["marvel-l16"]}, r"workloads: Unknown workload 'marvel-l16'"),
        ({"networks": ["resnet"]}, r"networks: Unknown network 'resnet'.*resnet50"),
        ({"accelerators": ["eyeris"]}, r"accelerators: .*'eyeris'.*eyeriss-168"),
        ({"baseline_second": 1.0}, r"baseline_second.*baseline_seconds"),
        ({"utilisation_bound": 1.5}, r"utilisation_bound"),
        ({"workloads": None}, "expected workloads or networks, got neither"),
        ({"workloads": [SMALL, SMALL]}, "is given twice"),
        ({"workloads": ["mttkrp-0"]}, r"workloads: mttkrp-0: expected a convolution"),
        (
            {"residuals_as_convolutions": ["marvel-l10"]},
            "residuals_as_convolutions: Unknown workload 'marvel-l10'",
        ),
    ],
)
def test_wrong_studies_are_one_line(
    changes: dict[str, object],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(content_for(**changes)))
    assert call("benchmark", str(path)) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert re.search(message, lines[0]), lines[0]
    assert not (tmp_path / "runs").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], ray_runtime: None) -> None:
    path, folder = tmp_path / "study.yaml", tmp_path / "run"
    path.write_text(
        yaml.safe_dump(
            content_for(
                workloads=["marvel-l4"],
                remainder_seconds=0.1,
                joint_seconds=0.1,
                baseline_seconds=0.05,
                baseline_seeds=1,
            )
        )
    )

    def run(*more: str) -> int | str | None:
        return call("benchmark", str(path), "--output", str(folder), *more)

    assert run() == 0
    assert str(folder) in capsys.readouterr().out
    (row,) = rows_in(folder)
    assert [found["method"] for found in row["baselines"]] == ["joint", "random", "brute-force"]
    assert row["remainders"]["reference"]["runtime"]["value"] > 0
    assert run("--no-resume") == 2
    assert "exists already" in capsys.readouterr().err
    capsys.readouterr()
    assert call("report", str(folder), "--json") == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), schema("report"))
    path.write_text(yaml.safe_dump(content_for(name="another")))
    assert run() == 2
    assert "expected the study 'another', found 'test'" in capsys.readouterr().err
    assert call("benchmark", str(path), "--output", str(tmp_path)) == 2
    assert "holds something else" in capsys.readouterr().err


@pytest.mark.slow
@noisy_libraries
def test_mlflow_has_the_study_where_it_is_asked_for(tmp_path: Path, ray_runtime: None) -> None:
    from mlflow.tracking import MlflowClient

    path, folder = tmp_path / "study.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(content_for(workloads=["marvel-l4", "marvel-l15"])))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert call("benchmark", str(path), "--output", str(folder), "--tracking-uri", uri) == 0
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("test")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "eyeriss-168/runtime_cycles")
    rows = rows_in(folder)
    assert [metric.value for metric in history] == [row["whole"]["runtime"] for row in rows]
    assert run.data.params["utilisation_bound"] == "0.1"
    assert "rows.jsonl" in [file.path for file in client.list_artifacts(run.info.run_id)]
