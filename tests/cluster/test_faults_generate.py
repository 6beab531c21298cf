"""What dies or fills up while a data set is made: every shard is there once, bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import call
from marks import noisy_libraries
from processes import DRIVER, Nodes, driver, kill, meanwhile, press_control_c, wait_for

from mapspace.errors import ConfigError
from orchestrator.runs.ray_runtime import fan_out
from orchestrator.training.generate import GenerateConfig, Generated, generate
from surrogate.shards import Dataset, Manifest, ShardEntry

pytestmark = [
    pytest.mark.faults,
    # Several drivers each, on cores that others may use.
    pytest.mark.timeout(600),
    noisy_libraries,
]

SHARDS = 40
DATA: dict[str, Any] = {
    "kind": "generate",
    "name": "small",
    "problems": {"family": "mttkrp"},
    "rows": SHARDS * 1600,
    "mappings_per_problem": 20,
    "problems_per_shard": 80,
}


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.parquet"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("undisturbed")
    return generate(GenerateConfig.model_validate(DATA), folder, execute=map).manifest


def assert_same_data(folder: Path, expected: Manifest) -> None:
    """Every shard once, bit for bit, and nothing else in the folder but how the run stands."""
    found = Manifest.read(folder)
    assert found.shards == expected.shards
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in shards(folder)}
    assert files == {shard.file: shard.sha256 for shard in expected.shards}
    assert {path.name for path in folder.iterdir()} == {*files, "manifest.json", "progress.json"}


def generate_counting(folder: Path, calls: Path) -> Generated:
    """Generates on the cluster; a byte per shard that is begun goes into a file."""

    def counted(function: Callable[[int], ShardEntry]) -> Callable[[int], ShardEntry]:
        def wrapped(index: int) -> ShardEntry:
            with calls.open("ab") as file:
                file.write(b"x")
            return function(index)

        return wrapped

    def execute(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        return fan_out(counted(function), indices)

    return generate(GenerateConfig.model_validate(DATA), folder, execute=execute)


def test_killed_workers_cost_generation_only_their_shards(
    nodes: Nodes, tmp_path: Path, undisturbed: Manifest
) -> None:
    folder, calls = tmp_path / "data", tmp_path / "calls"
    killed: list[int] = []

    def disturb() -> None:
        for already in (4, 14, 24):
            victims: list[int] = []
            wait_for(lambda already=already: len(shards(folder)) >= already)
            wait_for(lambda victims=victims: victims.extend(nodes.workers("ray::task")) or victims)
            kill(victims[0])
            killed.append(victims[0])

    with meanwhile(disturb):
        generate_counting(folder, calls)
    assert len(set(killed)) == 3
    drawn = calls.stat().st_size
    print("worker killed: drawn", drawn, "of", SHARDS)
    assert SHARDS < drawn <= SHARDS + len(killed)
    assert_same_data(folder, undisturbed)


def test_a_removed_node_costs_generation_only_its_shards(
    nodes: Nodes, tmp_path: Path, undisturbed: Manifest
) -> None:
    folder, calls = tmp_path / "data", tmp_path / "calls"

    def one_at_work() -> Any:
        return len(shards(folder)) >= 10 and next(iter(nodes.workers("ray::task").values()), None)

    with nodes.removing(one_at_work):
        generate_counting(folder, calls)
    drawn = calls.stat().st_size
    print("node removed: drawn", drawn, "of", SHARDS)
    assert SHARDS <= drawn <= SHARDS + 2
    assert_same_data(folder, undisturbed)


def test_generation_continues_after_control_c_and_after_its_driver_was_killed(
    nodes: Nodes, tmp_path: Path, undisturbed: Manifest
) -> None:
    file, folder, errors = tmp_path / "small.yaml", tmp_path / "data", tmp_path / "errors"
    file.write_text(json.dumps(DATA))
    command = ("generate", str(file), "--output", str(folder))
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: len(shards(folder)) >= 5)
        assert press_control_c(process) == 130
    assert errors.read_text().splitlines()[-1].startswith("Error: interrupted; the same command")
    interrupted = {shard.file for shard in Dataset(folder).manifest.shards}
    print("ctrl-c: on disk", len(shards(folder)), "listed", len(interrupted))
    # Not listed is only what was under way: two shards per core.
    assert 0 < len(interrupted) >= len(shards(folder)) - 4
    before = {path: path.stat().st_mtime_ns for path in shards(folder) if path.name in interrupted}

    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: len(shards(folder)) >= len(interrupted) + 8)
        kill(process.pid)
        process.wait()
    killed = Dataset(folder).manifest.shards
    print("driver killed: on disk", len(shards(folder)), "listed", len(killed))
    assert len(killed) < SHARDS
    before |= {folder / s.file: (folder / s.file).stat().st_mtime_ns for s in killed}
    generate(GenerateConfig.model_validate(DATA), folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same_data(folder, undisturbed)


def test_a_driver_survives_stopping_in_the_middle_of_many_short_tasks(nodes: Nodes) -> None:
    """Ray aborts a driver that cancels tasks which end in that moment, once in some 20 stops."""
    for stop in range(30):
        answers = fan_out(lambda index: index, range(200))
        found = {next(answers) for _ in range(10 + 4 * stop)}
        answers.close()
        assert len(found) == 10 + 4 * stop


def test_a_damaged_shard_stops_training_and_is_written_anew(
    tmp_path: Path, undisturbed: Manifest, capsys: pytest.CaptureFixture[str]
) -> None:
    config = GenerateConfig.model_validate(DATA)
    folder = tmp_path / "data"
    generate(config, folder, execute=map)
    # One bit of one file, and half of another one.
    flipped, cut = folder / "shard-00003.parquet", folder / "shard-00007.parquet"
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    os.truncate(cut, cut.stat().st_size // 2)
    kept = {path: path.stat().st_mtime_ns for path in shards(folder) if path not in (flipped, cut)}
    file = tmp_path / "train.yaml"
    file.write_text(json.dumps({"kind": "train", "name": "x", "data": str(folder)}))
    assert call("train", str(file), "--output", str(tmp_path / "run")) == 1
    line = capsys.readouterr().err.splitlines()
    assert len(line) == 1
    assert line[0].endswith(
        f"{flipped} is damaged (its checksum differs from the manifest's): "
        "`mapspace generate` writes it anew."
    )
    repaired = generate(config, folder, execute=map)
    assert (repaired.written, repaired.kept) == (2, SHARDS - 2)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert_same_data(folder, undisturbed)


def test_a_second_run_into_the_same_folder_is_refused(
    nodes: Nodes, tmp_path: Path, undisturbed: Manifest
) -> None:
    file, folder, errors = tmp_path / "small.yaml", tmp_path / "data", tmp_path / "errors"
    file.write_text(json.dumps(DATA))
    command = ("generate", str(file), "--output", str(folder))
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: shards(folder))
        with pytest.raises(ConfigError, match=rf"another run writes here \(process {process.pid}"):
            generate(GenerateConfig.model_validate(DATA), folder)
        assert process.wait(120) == 0
    assert_same_data(folder, undisturbed)


# A small disk that only the processes of this script see; the kernel takes it away with them.
SMALL_DISK = """
set -u
mount -t tmpfs -o size=1m none "$1"
run() { "$2" -c "$3" generate "$4" --output "$1/data" 2> "$5/$6" > /dev/null; echo $?; }
run "$@" full
cp -r "$1/data" "$5/then"
mount -o remount,size=50m "$1"
run "$@" space
cp -r "$1/data" "$5/data"
"""


def test_a_full_disk_is_one_clear_line_and_generation_continues_when_there_is_space(
    tmp_path: Path, undisturbed: Manifest
) -> None:
    file, disk = tmp_path / "small.yaml", tmp_path / "disk"
    file.write_text(json.dumps(DATA))
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system lets nobody mount a small disk")
    arguments = [str(disk), sys.executable, DRIVER, str(file), str(tmp_path)]
    codes = subprocess.run(
        [*alone, "sh", "-c", SMALL_DISK, "sh", *arguments],
        stdout=subprocess.PIPE, text=True, timeout=240, check=True,
    ).stdout.split()  # fmt: skip
    assert codes == ["1", "0"]
    *_, line = (tmp_path / "full").read_text().splitlines()
    assert line.startswith("Error: ")
    assert "No space left on device" in line
    # What was written before is whole, and nothing is half there.
    then = tmp_path / "then"
    there = {shard.file: shard.sha256 for shard in undisturbed.shards}
    listed = Manifest.read(then).shards
    assert {shard.file: shard.sha256 for shard in listed}.items() <= there.items()
    for path in then.glob("*.parquet"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == there[path.name]
    assert 0 < len(listed) < SHARDS
    assert not list(then.glob(".*.tmp"))
    print("full disk: on disk", len(shards(then)), "listed", len(listed))
    assert_same_data(tmp_path / "data", undisturbed)
