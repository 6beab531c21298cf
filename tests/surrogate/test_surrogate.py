"""Surrogates: features against the cost model, training, prediction."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import surrogate
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator, AcceleratorSource, accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workload_families import cnn, gemm, mttkrp
from costmodel.problems.workloads import Workload
from mapspace.errors import ConfigError, ContractError, DataError, MapspaceError
from surrogate import predictor
from surrogate.applicability import Structure
from surrogate.features import PhysicalFeatures
from surrogate.network import SurrogateNetwork
from surrogate.shards import Dataset
from surrogate.training import RECIPES, FitOptions, Fitted, Progress, Worker, fit

LAYER = cnn("layer", N=4, K=32, C=48, P=14, Q=12, R=3, S=5)
TENSORS = mttkrp("tensors", I=128, J=96, K=60, L=24)
MATRICES = gemm("matrices", M=96, N=120, K=64)
DEEP = ("eyeriss", "simba", "tpu-v1")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def points_of(work: Workload, machine: str, count: int = 40) -> tuple[MapSpace, np.ndarray]:
    device = accelerator(machine)
    # Of buffers side by side the features are those of the file's order.
    levels = tuple(level.model_copy(update={"beside": None}) for level in device.levels)
    space = MapSpace(work, device.model_copy(update={"levels": levels}))
    return space, space.sample(np.random.default_rng(3), count, feasible=True)


# --- features


def blocks_of(module: PhysicalFeatures, points: np.ndarray) -> dict[str, np.ndarray]:
    """Features by meaning, in the order in which the module concatenates them."""
    n, tensors = len(module.structure.dimensions), len(module.structure.tensors)
    features = module(torch.from_numpy(points)).double().numpy()
    assert features.shape == (len(points), module.width)
    axes, inner = module.sliding.shape[1], len(module.structure.levels) - 1
    widths = {
        "logs": (1 + len(module.structure.slots)) * n,
        "extents": inner * axes,
        "stationary": inner * tensors,
        "tiles": inner * tensors,
        "visits": inner * tensors,
        "spread": len(module.fan_outs) * (tensors + 1),
        "renewed": inner * axes,
    }
    split = np.split(features, np.cumsum(list(widths.values())), axis=1)
    return dict(zip((*widths, "rest"), split, strict=True))


def next_holders(kept: np.ndarray) -> np.ndarray:
    """Per mapping and level, `[B, L]`: the next level inwards that holds a tensor, 0 for none."""
    found = np.zeros(kept.shape, int)
    for level in range(kept.shape[1] - 2, -1, -1):
        found[:, level] = np.where(kept[:, level + 1], level + 1, found[:, level + 1])
    return found


@pytest.mark.parametrize("work", [LAYER, TENSORS, MATRICES], ids=lambda work: work.name)
@pytest.mark.parametrize(
    "machine",
    ["mm256", "mindmappings", "mm256-bypass", "eyeriss-168", "nvdla-small", *DEEP],
)
def test_features_are_the_cost_models_own_quantities(work: Workload, machine: str) -> None:
    space, codes = points_of(work, machine)
    module = PhysicalFeatures(Structure.of(space))
    found = blocks_of(module, space.encode(codes))
    detail = LoopNestModel().evaluate(space, codes, detail=True).detail
    assert detail is not None
    tensors, inner, rows = len(work.tensors), len(space.accelerator.levels) - 1, len(codes)
    tiles = np.exp(found["tiles"]).reshape(rows, inner, tensors)
    visits = np.exp(found["visits"]).reshape(rows, inner, tensors)
    spread = np.ones((rows, inner + 2, tensors + 1))
    for x, at in enumerate(module.fan_outs):
        level = module.structure.slots[at][1]
        spread[:, level + 1] = np.exp(found["spread"].reshape(rows, -1, tensors + 1)[:, x])
    spread = spread.cumprod(axis=1)
    kept = detail.tile > 0
    np.testing.assert_allclose(tiles[kept[:, 1:]], detail.tile[:, 1:][kept[:, 1:]], rtol=1e-4)
    # Without overlap of tiles, what enters a tile is its words times its visits.
    for t, tensor in enumerate(work.tensors[:-1]):
        if any(len(axis.terms) > 1 for axis in tensor.axes):
            continue
        entering = (tiles * visits)[:, :, t][kept[:, 1:, t]]
        np.testing.assert_allclose(entering, detail.fills[:, 1:, t][kept[:, 1:, t]], rtol=1e-4)
        # Each word that leaves a level serves all children that need it: fills = reads x sharers.
        holders = next_holders(kept[:, :, t])
        for level in range(1, inner):
            both = np.flatnonzero(kept[:, level, t] & (holders[:, level] > 0))
            child = holders[both, level]
            between = spread[both, child, t] / spread[both, level, t]
            reads = detail.reads[both, level, t]
            np.testing.assert_allclose(between * detail.fills[both, child, t], reads, rtol=1e-4)
    used = spread[:, inner, -1]
    np.testing.assert_allclose(used, detail.instances[:, inner], rtol=1e-5)


@pytest.mark.parametrize("machine", DEEP)
def test_a_level_has_room_for_what_it_may_hold(machine: str) -> None:
    """The margin is what of the capacity the tiles of the tensors held there leave."""
    check_room(*points_of(LAYER, machine))


@pytest.mark.parametrize("machine", ["eyeriss", "eyeriss-v2"])
def test_a_buffer_has_room_wherever_it_stands(machine: str) -> None:
    device = accelerator({"extends": machine, "orders": "searched"})
    space = MapSpace(LAYER, device)
    codes = space.sample(np.random.default_rng(3), 300, feasible=True)
    assert len(np.unique(codes[:, -1])) > 1
    check_room(space, codes)


def check_room(space: MapSpace, codes: np.ndarray) -> None:
    found = blocks_of(PhysicalFeatures(Structure.of(space)), space.encode(codes))
    detail = LoopNestModel().evaluate(space, codes, detail=True).detail
    assert detail is not None
    for index, level in enumerate(space.accelerator.levels[1:], start=1):
        words = level.capacity_words / detail.tile[:, index].sum(axis=1)
        np.testing.assert_allclose(np.exp(found["rest"][:, index - 1]), words, rtol=1e-4)


def test_features_know_that_sliding_windows_overlap() -> None:
    """With P innermost, a step renews P of the P + R - 1 columns of L2's input tile."""
    work = cnn(N=1, K=2, C=2, P=8, Q=1, R=3, S=1)
    space = MapSpace(work, accelerator("mm256"))
    names = list(space.feature_names)
    point = space.encode(space.sample(np.random.default_rng(0), 1))
    point[:, names.index("temporal.DRAM.N") : names.index("rank.DRAM.N")] = 1.0
    for name, value in (("temporal.DRAM.P", 4), ("temporal.L1.P", 2), ("temporal.L1.R", 3)):
        point[0, names.index(name)] = value
    point[0, names.index("temporal.DRAM.K")] = 2
    point[0, names.index("temporal.DRAM.C")] = 2
    module = PhysicalFeatures(Structure.of(space))
    shares = {}
    for innermost in ("P", "K", "C"):
        order = [name for name in work.dimension_names if name != innermost] + [innermost]
        for rank, name in enumerate(order):
            point[0, names.index(f"rank.DRAM.{name}")] = rank
        renewed = blocks_of(module, point)["renewed"][0]
        shares[innermost] = np.exp(renewed[0])  # L2's input columns
    assert shares["P"] == pytest.approx(2 / 4)
    assert shares["K"] == shares["C"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("trips", "l2_share", "l1_share"),
    [
        # L2's 8 + 4 columns move by 8, and within it an element's 2 + 4 by the 4 of two elements.
        ({"DRAM": 2, "L2": 2}, 8 / 12, 4 / 6),
        # L2 has no loop: DRAM's moves what both hold, the 4 columns of two elements.
        ({"DRAM": 2}, 4 / 8, 4 / 6),
        # Only L2's loop moves.
        ({"L2": 2}, 1.0, 4 / 6),
    ],
)
def test_a_step_of_a_loop_passes_all_that_lies_inside(
    trips: dict[str, int], l2_share: float, l1_share: float
) -> None:
    """Two elements of 2 columns each, and windows of 5."""
    work = cnn(N=1, K=2, C=2, P=16, Q=1, R=5, S=1)
    space = MapSpace(work, accelerator("mm256"))
    names = list(space.feature_names)
    point = space.encode(space.sample(np.random.default_rng(0), 1))
    point[:, names.index("temporal.DRAM.N") : names.index("rank.DRAM.N")] = 1.0
    factors = {"spatial.L2.P": 2, "temporal.L1.P": 2, "temporal.L1.R": 5}
    for name, value in {**factors, **{f"temporal.{k}.P": v for k, v in trips.items()}}.items():
        point[0, names.index(name)] = value
    renewed = blocks_of(PhysicalFeatures(Structure.of(space)), point)["renewed"][0]
    axes = len(renewed) // 2
    assert np.exp(renewed[[0, axes]]) == pytest.approx([l2_share, l1_share])


@pytest.mark.parametrize(
    ("trips", "shares"),
    [
        # DRAM's loop moves the 2 + 4 columns of every scratchpad by the 4 of two elements.
        ({}, (4 / 8, 4 / 6, 4 / 6, 4 / 6)),
        # The first scratchpad holds twice the columns, and moves them by 2 for those further in.
        ({"ifmap": 2}, (8 / 12, 8 / 8, 2 / 6, 2 / 6)),
    ],
)
def test_a_step_reaches_through_levels_without_loops(
    trips: dict[str, int], shares: tuple[float, ...]
) -> None:
    work = cnn(N=1, K=2, C=2, P=16, Q=1, R=5, S=1)
    space = MapSpace(work, accelerator("eyeriss"))
    names = list(space.feature_names)
    point = space.encode(space.sample(np.random.default_rng(0), 1))
    point[:, names.index("temporal.DRAM.N") : names.index("rank.DRAM.N")] = 1.0
    factors = {"temporal.DRAM.P": 2, "spatial.GLB.P": 2, "temporal.psum.P": 2, "temporal.psum.R": 5}
    for name, value in {**factors, **{f"temporal.{k}.P": v for k, v in trips.items()}}.items():
        point[0, names.index(name)] = value
    renewed = blocks_of(PhysicalFeatures(Structure.of(space)), point)["renewed"][0]
    axes = len(renewed) // 4
    assert np.exp(renewed[::axes]) == pytest.approx(shares)


def test_a_structure_is_not_bound_to_sizes() -> None:
    machine = accelerator("mm256")
    small, large = cnn(N=1, K=4, C=4, P=7, Q=7, R=1, S=1), LAYER
    assert Structure.of(MapSpace(small, machine)) == Structure.of(MapSpace(large, machine))
    flat = Accelerator(name="flat", levels=machine.levels[:1], mac_energy_pj=1.0)
    with pytest.raises(ConfigError, match="at least 2 levels, but flat has 1"):
        Structure.of(MapSpace(small, flat))


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_gradients_with_respect_to_raw_points_exist(recipe: str) -> None:
    space, codes = points_of(LAYER, "mindmappings")
    torch.manual_seed(0)
    network = SurrogateNetwork(RECIPES[recipe].network, Structure.of(space), 12)
    points = torch.from_numpy(space.encode(codes)).requires_grad_(True)
    (gradient,) = torch.autograd.grad(network.energy_and_cycles(points).sum(), points)
    assert torch.isfinite(gradient).all()
    moved = {
        name.split(".")[0]: float(column.abs().max())
        for name, column in zip(space.feature_names, gradient.T, strict=True)
        if float(column.abs().max()) > 0 or not name.startswith("rank")
    }
    assert set(moved) == {"problem", "temporal", "spatial", "rank", "banks"}
    assert all(value > 0 for value in moved.values())
    # Law: a batch is its rows.
    with torch.no_grad():
        whole = network.log_edp(points)
        rows = torch.cat([network.log_edp(points[i : i + 1]) for i in range(len(points))])
    torch.testing.assert_close(whole, rows, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_the_value_where_it_is_smooth() -> None:
    """Of a factor well above 1, by central differences in double precision."""
    space, _ = points_of(LAYER, "mm256")
    names = list(space.feature_names)
    torch.manual_seed(0)
    network = SurrogateNetwork(RECIPES["fast"].network, Structure.of(space), 12).double()
    point = torch.from_numpy(space.encode(space.sample(np.random.default_rng(1), 1))).double()
    for at, name in enumerate(names):
        if name.startswith(("temporal", "spatial")):
            point[0, at] = 2.0 + 0.25 * (at % 5)
    # L1's loops take part in no order, so nothing discrete depends on their factors.
    column = names.index("temporal.L1.K")
    tracked = point.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(network.log_edp(tracked).sum(), tracked)
    step = torch.zeros_like(point)
    step[0, column] = 1e-5
    with torch.no_grad():
        difference = network.log_edp(point + step) - network.log_edp(point - step)
    assert float(gradient[0, column]) == pytest.approx(float(difference) / 2e-5, rel=1e-5)


def test_recipes_have_the_papers_shape() -> None:
    space, _ = points_of(LAYER, "mindmappings")
    network = SurrogateNetwork(RECIPES["paper"].network, Structure.of(space), 12)
    widths = [m.out_features for m in network.body.modules() if isinstance(m, torch.nn.Linear)]
    first = next(m for m in network.body.modules() if isinstance(m, torch.nn.Linear))
    assert first.in_features == 62
    assert widths == [64, 256, 1024, 2048, 2048, 1024, 256, 64, 12]
    paper = RECIPES["paper"]
    assert (paper.batch_size, paper.learning_rate, paper.epochs) == (128, 0.01, 100)
    space, _ = points_of(TENSORS, "mindmappings")
    assert len(Structure.of(space).features) == 40


# --- training


OPTIONS = FitOptions(views=40_000, held_out_problems=8, checkpoint_views=20_000, seed=3)


@pytest.fixture(scope="module")
def trained(
    small_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Fitted, list[Path]]:
    """A short undisturbed run with its checkpoints."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("checkpoints")
    saved: list[Path] = []

    def report(progress: Progress) -> None:
        saved.append(folder / str(progress.step))
        progress.save(saved[-1])

    return fit(Dataset(small_data), OPTIONS, report=report), saved


def test_a_short_training_learns_to_rank(trained: tuple[Fitted, list[Path]]) -> None:
    """32 problems x 100 mappings, 12 passes: far from the recipe's length, but no chance result."""
    fitted, saved = trained
    assert fitted.figures.problems == 8
    assert fitted.figures.spearman > 0.97
    assert fitted.figures.rmse < 0.6
    assert [path.name for path in saved] == ["19", "38", "39"]


def test_a_continued_training_ends_like_an_undisturbed_one(
    trained: tuple[Fitted, list[Path]], small_data: Path
) -> None:
    fitted, saved = trained
    continued = fit(Dataset(small_data), OPTIONS, resume=saved[0])
    for name, value in fitted.network.state_dict().items():
        torch.testing.assert_close(continued.network.state_dict()[name], value, rtol=0, atol=0)
    assert continued.figures == fitted.figures


def test_every_worker_continues_where_its_own_stream_stood(
    small_data: Path, tmp_path: Path
) -> None:
    """Of four shards one of three workers has two: their epochs end at different steps."""
    options = OPTIONS.model_copy(update={"batch_size": 96, "views": 9600, "checkpoint_views": 4800})
    barrier, standing = threading.Barrier(3), dict[int, tuple[int, int]]()

    def train(rank: int, resume: Path | None = None) -> Fitted:
        def gather(place: tuple[int, int]) -> list[tuple[int, int]]:
            standing[rank] = place
            if resume is None:
                barrier.wait(60)
            places = [standing[other] for other in range(3)]
            if resume is None:
                barrier.wait(60)  # nobody goes on before all have read
            return places

        def report(progress: Progress) -> None:
            progress.save(tmp_path / f"{rank}-{progress.step}")

        worker = Worker(rank, 3, gather=gather)
        return fit(Dataset(small_data), options, report=report, worker=worker, resume=resume)

    with ThreadPoolExecutor(3) as threads:
        alone = list(threads.map(train, range(3)))
    first = json.loads((tmp_path / "0-50" / "state.json").read_text())
    assert len({tuple(place) for place in first["places"]}) > 1
    for rank in (1, 2):
        # What is kept of a run is the first worker's state; weights are all workers' in a real one.
        shutil.copy(tmp_path / "0-50" / "state.json", tmp_path / f"{rank}-50" / "state.json")
        continued = train(rank, tmp_path / f"{rank}-50").network.state_dict()
        for name, value in alone[rank].network.state_dict().items():
            torch.testing.assert_close(continued[name], value, rtol=0, atol=0)


def test_wrong_and_damaged_checkpoints_are_refused(
    trained: tuple[Fitted, list[Path]], small_data: Path, tmp_path: Path
) -> None:
    _, saved = trained
    other = OPTIONS.model_copy(update={"seed": 4})
    with pytest.raises(ConfigError, match="another configuration"):
        fit(Dataset(small_data), other, resume=saved[0])
    for name in ("state.json", "network.safetensors", "optimiser.safetensors"):
        broken = tmp_path / name
        shutil.copytree(saved[0], broken)
        (broken / name).write_bytes((broken / name).read_bytes()[:-20])
        with pytest.raises(DataError, match=r"checkpoint .* is damaged"):
            fit(Dataset(small_data), OPTIONS, resume=broken)


def test_a_diverging_training_says_so(small_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = RECIPES["paper"].model_copy(update={"learning_rate": 1e30})
    monkeypatch.setitem(RECIPES, "paper", wild)
    options = FitOptions(recipe="paper", views=1280, held_out_problems=8)
    with pytest.raises(MapspaceError, match="diverged: its loss is nan"):
        fit(Dataset(small_data), options, report=lambda progress: None)


def test_the_papers_recipe_runs(small_data: Path) -> None:
    options = FitOptions(recipe="paper", views=1280, held_out_problems=8)
    fitted = fit(Dataset(small_data), options)
    assert np.isfinite(fitted.figures.rmse)
    statistics = Dataset(small_data).manifest.statistics
    np.testing.assert_allclose(
        fitted.network.feature_mean.numpy(), statistics.inputs.mean, rtol=1e-5
    )
    np.testing.assert_allclose(fitted.network.target_std.numpy(), statistics.costs.std, rtol=1e-5)


def test_whitening_makes_features_and_targets_standard(
    trained: tuple[Fitted, list[Path]], small_data: Path
) -> None:
    network = trained[0].network
    parts = [Dataset(small_data).read(position) for position in range(4)]
    points = torch.from_numpy(np.concatenate([part.inputs for part in parts]))
    costs = torch.from_numpy(np.concatenate([part.costs for part in parts]))
    with torch.no_grad():
        white = (network.features(points) - network.feature_mean) / network.feature_std
        targets = network.whiten(costs)
    assert float(white.mean(0).abs().max()) < 1e-3
    assert float(targets.mean(0).abs().max()) < 1e-3
    torch.testing.assert_close(targets.std(0), torch.ones(12), rtol=1e-2, atol=0)
    # Features that hardly vary are left small.
    assert float(white.std(0).max()) < 1.01
    assert float((white.std(0) > 0.99).float().mean()) > 0.9


# --- prediction


@pytest.fixture(scope="module")
def written(
    trained: tuple[Fitted, list[Path]],
    small_data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    manifest = Dataset(small_data).manifest
    return predictor.write(
        tmp_path_factory.mktemp("run") / "surrogate",
        trained[0].network,
        structure=manifest.structure,
        costs=manifest.costs,
        ranges=manifest.config.problems.bounds(),
        scale=manifest.statistics.inputs.std,
        reached=trained[0].figures,
        training={},
        provenance={},
    )


def test_a_written_surrogate_predicts_as_it_did(
    trained: tuple[Fitted, list[Path]], written: Path, small_data: Path
) -> None:
    points = Dataset(small_data).read(0).inputs
    loaded = surrogate.load(written.parent)
    assert loaded.card.figures == trained[0].figures
    with torch.no_grad():
        expected = trained[0].network.log_edp(torch.from_numpy(points)).numpy()
    np.testing.assert_array_equal(loaded.value(points), expected)
    values, gradients = loaded.value_and_gradient(points[:50])
    np.testing.assert_allclose(values, expected[:50], rtol=1e-5, atol=1e-5)
    assert gradients.shape == (50, 56)
    assert gradients.dtype == values.dtype == np.float64
    assert np.isfinite(gradients).all()
    assert loaded.scale.shape == (56,)
    assert (loaded.scale > 0).all()


def test_the_gradient_is_that_of_edp_not_of_its_logarithm(written: Path, small_data: Path) -> None:
    loaded = surrogate.load(written)
    points = Dataset(small_data).read(0).inputs[:20]
    values, gradients = loaded.value_and_gradient(points)
    raw = torch.from_numpy(points).requires_grad_(True)
    (of_log,) = torch.autograd.grad(loaded.network.log_edp(raw).sum(), raw)
    np.testing.assert_allclose(gradients, np.exp(values)[:, None] * of_log.numpy(), rtol=1e-4)


def test_the_released_codes_objective_is_offered(written: Path, small_data: Path) -> None:
    loaded = surrogate.load(written)
    points = Dataset(small_data).read(0).inputs[:20]
    values, gradients = loaded.value_and_sum_gradient(points)
    np.testing.assert_array_equal(values, loaded.value(points))

    def sums(at: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return loaded.network(torch.from_numpy(at)).sum(1).numpy()

    # Along its own gradient the sum rises.
    step = 1e-3 * gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    moved = sums((points + step).astype(np.float32))
    assert np.mean(moved > sums(points)) > 0.8


def test_far_points_give_finite_answers(written: Path, small_data: Path) -> None:
    loaded = surrogate.load(written)
    points = Dataset(small_data).read(0).inputs[:6].copy()
    points[0] = -50.0
    points[1] = 1e4
    points[2, 7:35] = 0.0
    values, gradients = loaded.value_and_gradient(points)
    assert np.isfinite(values).all()
    assert np.isfinite(gradients).all()


@pytest.mark.parametrize("shape", [(56,), (3, 55), (2, 3, 56)])
def test_wrong_points_are_refused(written: Path, shape: tuple[int, ...]) -> None:
    loaded = surrogate.load(written)
    with pytest.raises(ContractError, match=r"shape \[B, 56\]"):
        loaded.value(np.ones(shape, np.float32))
    bad = np.ones((3, 56), np.float32)
    bad[1, 4] = np.nan
    with pytest.raises(ContractError, match="nan in row 1"):
        loaded.value_and_gradient(bad)


def test_damaged_surrogates_are_named(written: Path, tmp_path: Path) -> None:
    stem = tmp_path / "x.json"
    weights = written.with_suffix(".safetensors").read_bytes()

    def put(card: str, content: bytes | None) -> None:
        stem.write_text(card)
        stem.with_suffix(".safetensors").unlink(missing_ok=True)
        if content is not None:
            stem.with_suffix(".safetensors").write_bytes(content)

    put(written.read_text(), weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(DataError, match=r"x\.safetensors is damaged"):
        surrogate.load(stem)
    put(written.read_text(), None)
    with pytest.raises(DataError, match=r"x\.safetensors cannot be read"):
        surrogate.load(stem)
    put(written.read_text()[:100], weights)
    with pytest.raises(DataError, match=r"x\.json: not JSON: "):
        surrogate.load(stem)
    card = json.loads(written.read_text())
    card["network"]["blocks"] = 5
    put(json.dumps(card), weights)
    with pytest.raises(DataError, match="does not fit"):
        surrogate.load(stem)
    with pytest.raises(DataError, match="missing"):
        surrogate.load(tmp_path / "nowhere.json")


SIZES = {"N": 2, "K": 32, "C": 32, "P": 14, "Q": 14, "R": 3, "S": 3}


@pytest.mark.parametrize(
    ("work", "machine", "reason"),
    [
        (cnn(**SIZES, stride=2), "mm256", "another projection of Inputs"),
        (cnn(**SIZES, dilation=2), "mm256", "another projection of Inputs"),
        (cnn(**SIZES, groups=2), "mm256", "with dimensions N K C P Q R S"),
        (MATRICES, "mm256", "with dimensions"),
        (cnn(**SIZES), "mindmappings", "accelerator mm256, not mindmappings"),
        (cnn(**SIZES), "mm256-bw", "accelerator mm256, not mm256-bw"),
        (
            cnn(**SIZES),
            {"extends": "mm256", "name": "mm256", "tiles": "apart"},
            "for mm256 as it is shipped",
        ),
    ],
)
def test_a_surrogate_refuses_what_it_was_not_trained_for(
    written: Path, work: Workload, machine: AcceleratorSource, reason: str
) -> None:
    loaded = surrogate.load(written)
    loaded.check(cnn(**SIZES), accelerator("mm256"))
    with pytest.raises(ConfigError, match=reason):
        loaded.check(work, accelerator(machine))


def test_sizes_outside_the_training_range_are_no_mismatch(written: Path) -> None:
    loaded = surrogate.load(written)
    loaded.check(cnn(**{**SIZES, "N": 32}), accelerator("mm256"))
