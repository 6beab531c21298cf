"""Training on Ray Train: the same weights as without Ray, whatever dies in between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from paths import EXPERIMENTS
from processes import descendants, kill, wait_for
from safetensors.torch import load_file

import surrogate
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.strict_yaml import validate
from orchestrator.runs.command import run_experiment
from orchestrator.runs.experiments import load_experiment
from orchestrator.training import train
from orchestrator.training.train import (
    PROGRESS_FILE,
    TrainConfig,
    TrainExperiment,
    run_train,
)
from surrogate.shards import Dataset
from surrogate.training import fit

VIEWS = 6144


def config_for(folder: Path, **changes: object) -> TrainConfig:
    content = {
        "kind": "train",
        "name": "test",
        "data": str(folder),
        "views": VIEWS,
        "held_out_problems": 8,
        "batch_size": 128,
        "checkpoint_views": VIEWS // 2,
        "workers": 2,
        "seed": 2,
    }
    return TrainConfig.model_validate({**content, **changes})


@pytest.fixture(scope="module")
def finished(
    small_data: Path, tmp_path_factory: pytest.TempPathFactory, ray_runtime: None
) -> tuple[TrainConfig, Path]:
    """A run on two workers."""
    config = config_for(small_data)
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_train(config, folder)
    return config, folder


def test_two_workers_average_their_gradients(finished: tuple[TrainConfig, Path]) -> None:
    _, folder = finished
    loaded = surrogate.load(folder)
    assert loaded.card.training["workers"] == 2
    # Shares of other batches than one worker's, so other weights, but as good a fit.
    assert loaded.card.figures.spearman > 0.9


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name it otherwise")
def test_workers_listen_where_ray_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's own name is often its loopback's."""
    from orchestrator.training import torch_backend

    assert torch_backend.interface_of("127.0.0.1") == "lo"
    assert torch_backend.interface_of("192.0.2.1") is None
    monkeypatch.setattr(torch_backend.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    for before, after in ((None, "lo"), ("eth7", "eth7")):
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", before or "")  # so that it is undone
        if before is None:
            monkeypatch.delenv("GLOO_SOCKET_IFNAME")
        torch_backend.choose_interface()
        assert os.environ["GLOO_SOCKET_IFNAME"] == after


def views_so_far(folder: Path) -> int:
    path = folder / PROGRESS_FILE
    return int(json.loads(path.read_text())["views"]) if path.exists() else 0


# What dies within a cluster that stays is among the faults.
@pytest.mark.slow
def test_a_run_that_was_killed_twice_ends_like_an_undisturbed_one(
    small_data: Path, tmp_path: Path, ray_runtime: None
) -> None:
    """The whole process tree, then a worker: the weights are those of the plain loop."""
    # Many checkpoints within few views, so that a process can be killed between two of them.
    config = config_for(small_data, workers=1, views=24_576, checkpoint_views=512)
    folder = tmp_path / "run"
    code = (
        "import sys; from pathlib import Path\n"
        "from orchestrator.training.train import TrainConfig, run_train\n"
        "run_train(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]))"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code, config.model_dump_json(), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: views_so_far(folder))
    finally:
        # The whole run dies at once, as with its machine.
        for process in (driver.pid, *descendants(driver.pid)):
            kill(process)
        driver.wait()
    reached = views_so_far(folder)
    assert 0 < reached < config.options().views
    assert not (folder / "surrogate.json").exists()

    killed: list[int] = []

    def kill_worker() -> None:
        wait_for(lambda: views_so_far(folder) > reached)
        for process, (_, title) in descendants(os.getpid()).items():
            if "ray::RayTrainWorker" in title:
                kill(process)
                killed.append(process)

    killer = threading.Thread(target=kill_worker)
    killer.start()
    run_train(config, folder)
    killer.join()
    assert killed
    torch.set_num_threads(1)
    expected = dict(fit(Dataset(config.data), config.options()).network.state_dict())
    found = load_file(folder / "surrogate.safetensors")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)


def test_a_finished_run_holds_the_surrogate_and_where_it_comes_from(
    finished: tuple[TrainConfig, Path],
) -> None:
    config, folder = finished
    card = surrogate.load(folder).card
    assert card.training["views"] == VIEWS
    assert card.training["rows"] == 4000
    assert card.provenance["model"] == "loopnest"
    assert card.provenance["data_config"] == Dataset(config.data).manifest.config_hash
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.json",
        "progress.json",
        "surrogate.json",
        "surrogate.safetensors",
        "train.json",
    ]


def test_a_finished_run_is_left_alone_and_another_one_refused(
    finished: tuple[TrainConfig, Path],
) -> None:
    config, folder = finished
    before = (folder / "surrogate.json").read_bytes()
    said: list[str] = []
    experiment = TrainExperiment(config, say=said.append)
    text = experiment.text(experiment.run(folder), folder)
    assert said == [f"test: already finished in {folder}"]
    assert "Spearman within a problem" in text
    with pytest.raises(ConfigError, match=r"another training run .*options"):
        run_train(config.model_copy(update={"seed": 3}), folder)
    # A run of a version that knew fewer options is the same run.
    identity = json.loads((folder / "train.json").read_text())
    for name in ("learning_rate", "loss", "precision"):
        del identity["options"][name]
    (folder / "train.json").write_text(json.dumps(identity))
    run_train(config, folder)
    with pytest.raises(ConfigError, match=r"another training run .*options"):
        run_train(config.model_copy(update={"loss": "mae"}), folder)
    assert (folder / "surrogate.json").read_bytes() == before


def test_problems_are_found_before_ray_starts(small_data: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(small_data, tmp_path / "data"))
    (data / "shard-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"shard-00001\.parquet is damaged"):
        run_train(config_for(data), tmp_path / "run")
    for changes, message in (
        ({"data": str(tmp_path / "nowhere")}, "no data set folder"),
        ({"rows": 10_000}, "at most the 4000 rows"),
        ({"workers": 8}, "at most 4"),
        ({"workers": 3}, "divisor of the batch size 128"),
        ({"batch_size": 33}, "divisor of the batch size 33"),
        ({"batch_size": 4096}, "too few for batches of 4096"),
        ({"held_out_problems": 40}, "held_out_problems"),
        ({"held_out_problems": 39}, "too few for batches of 128"),
    ):
        with pytest.raises(ConfigError, match=message):
            run_train(config_for(small_data, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_line(
    small_data: Path, tmp_path: Path, ray_runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(small_data, device="cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(ConfigError, match=r"device: .*cpu, got cuda: .* without CUDA") as caught:
        run_train(config, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    # A build that could use one, where Ray has none.
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(ConfigError, match=r"device: .*got cuda: Ray has 0 GPUs for 2 workers"):
        run_train(config, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"device: .*'auto', 'cpu' or 'cuda'"):
        validate(TrainConfig, {**config.model_dump(), "device": "gpu"}, "test")


@pytest.mark.parametrize("name", ["train-cnn", "train-mttkrp"])
def test_shipped_experiments_are_valid(name: str) -> None:
    assert load_experiment(EXPERIMENTS / f"{name}.yaml", TrainConfig).recipe == "fast"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: generate", "kind: expected train"),
        ("kind: train\nname: x\ndata: d\nrecipe: slow", "recipe"),
        ("kind: train\nname: x\ndata: d\nview: 5", "view: unknown key"),
        ("kind: train\nname: x", "missing data"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        run_experiment(str(path), tmp_path / "out", command="train")
    assert "\n" not in str(caught.value)


def test_a_working_directory_that_has_gone_ends_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would start workers in it for ever."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    train._look_where_we_are()
    gone.rmdir()
    with pytest.raises(MapspaceError, match="the working directory has been removed"):
        train._look_where_we_are()
