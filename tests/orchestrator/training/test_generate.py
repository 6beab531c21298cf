"""Data generation: resumable, repairing, and indifferent to workers that die."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from data_configs import data_config
from paths import EXPERIMENTS

from mapspace.errors import ConfigError, MapspaceError
from orchestrator.runs.command import run_experiment
from orchestrator.runs.experiments import load_experiment
from orchestrator.runs.lock import Claim, claimed
from orchestrator.runs.ray_runtime import fan_out
from orchestrator.training.generate import GenerateConfig, GenerateExperiment, generate
from surrogate.shards import Dataset, Manifest, ShardEntry


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_rows_are_rounded_up_to_shards_and_kept_by_a_second_run(tmp_path: Path) -> None:
    first = generate(data_config(rows=100), tmp_path, execute=map)
    assert (first.written, first.kept, first.manifest.rows) == (4, 0, 120)
    before = contents(tmp_path)
    second = generate(data_config(rows=100), tmp_path, execute=map)
    assert (second.written, second.kept) == (0, 4)
    more = generate(data_config(rows=180), tmp_path, execute=map)
    assert (more.written, more.kept, more.manifest.rows) == (2, 4, 180)
    assert before.items() <= contents(tmp_path).items()


def test_a_damaged_shard_is_named_and_written_anew(tmp_path: Path) -> None:
    generate(data_config(), tmp_path, execute=map)
    before = contents(tmp_path)
    (tmp_path / "shard-00001.parquet").write_bytes(b"PAR1 rubbish")
    (tmp_path / "shard-00003.parquet").unlink()
    (tmp_path / ".shard-00002.parquet.1.tmp").write_bytes(b"left by a killed worker")
    repaired = generate(data_config(), tmp_path, execute=map)
    assert (repaired.written, repaired.kept) == (2, 2)
    assert "shard-00001.parquet" in repaired.damaged[0]
    assert "shard-00003.parquet is damaged (the file is missing)" in repaired.damaged[1]
    assert contents(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    def interrupted(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        yield from map(function, indices[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(data_config(), tmp_path, execute=interrupted)
    assert Dataset(tmp_path).manifest.rows == 60
    continued = generate(data_config(), tmp_path, execute=map)
    assert (continued.written, continued.kept) == (2, 2)
    other = tmp_path / "undisturbed"
    assert generate(data_config(), other, execute=map).manifest.shards == continued.manifest.shards


def test_a_run_that_lost_its_folder_stops_and_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    @contextlib.contextmanager
    def taken_over(folder: Path) -> Iterator[Claim]:
        with claimed(folder) as claim:
            begun.append(claim)
            yield claim

    def execute(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        for index in indices:
            made.append(index)
            begun[0].lost = index == 1
            yield function(index)

    made: list[int] = []
    monkeypatch.setattr("orchestrator.runs.run_folder.claimed", taken_over)
    monkeypatch.setattr("orchestrator.training.generate.MANIFEST_SECONDS", math.inf)
    with pytest.raises(MapspaceError, match="another run has taken the folder over"):
        generate(data_config(), tmp_path, execute=execute)
    assert made == [0, 1]
    # What it knows of its shards is not written over what the other run knows.
    assert not Manifest.read(tmp_path).shards


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"accelerator": "mindmappings"}, "accelerator"),
        ({"mappings_per_problem": 15, "problems_per_shard": 2}, "mappings_per_problem"),
        ({"problems": {"family": "cnn"}}, "problems"),
    ],
)
def test_another_configuration_in_the_folder_is_refused(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    generate(data_config(), tmp_path, execute=map)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match=rf"another data set .*{named}"):
        generate(data_config(**change), tmp_path, execute=map)
    assert contents(tmp_path) == before


def test_a_killed_worker_costs_only_its_shard(tmp_path: Path, ray_runtime: None) -> None:
    marker = tmp_path / "killed"
    folder = tmp_path / "data"

    def dies_once(function: Callable[[int], ShardEntry]) -> Callable[[int], ShardEntry]:
        def wrapped(index: int) -> ShardEntry:
            if index == 2 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return function(index)

        return wrapped

    def execute(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        return fan_out(dies_once(function), indices)

    made = generate(data_config(), folder, execute=execute)
    assert marker.exists()
    assert made.manifest.rows == 120
    assert (
        made.manifest.shards == generate(data_config(), tmp_path / "b", execute=map).manifest.shards
    )


def test_a_worker_that_keeps_dying_is_an_error(ray_runtime: None) -> None:
    def dies(index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index

    with pytest.raises(MapspaceError, match="died 2 times"):
        list(fan_out(dies, [0], retries=1))


def test_an_error_of_a_task_arrives_as_it_was_raised(ray_runtime: None) -> None:
    def fails(index: int) -> int:
        raise ConfigError(f"no {index}")

    with pytest.raises(ConfigError, match="no 7"):
        list(fan_out(fails, [7]))


def test_a_summary_says_what_was_made(tmp_path: Path, ray_runtime: None) -> None:
    folder, experiment = tmp_path / "made", GenerateExperiment(data_config(rows=30))
    made = experiment.run(folder)
    assert Dataset(folder).manifest.rows == 30
    assert "1 written, 0 kept" in experiment.text(made, folder)


@pytest.mark.parametrize("name", ["generate-cnn", "generate-mttkrp"])
def test_shipped_experiments_are_valid(name: str) -> None:
    config = load_experiment(EXPERIMENTS / f"{name}.yaml", GenerateConfig)
    assert config.rows == 1_000_000
    assert config.data().accelerator.name == "mm256"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: train", "kind: expected generate"),
        ("kind: generate\nname: ../x\nproblems: {family: cnn}", "name"),
        ("kind: generate\nname: x\nproblems: {family: cnn}\nrow: 5", "row: unknown key"),
        ("kind: generate\nname: x\nproblems: {family: cnn}\nrows: 0", "rows"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        run_experiment(str(path), tmp_path / "out", command="generate")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
