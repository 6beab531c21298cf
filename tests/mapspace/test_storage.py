"""Storage by URI, against a real S3 API on localhost: places, data sets, locks, errors."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from data_configs import data_config
from hypothesis import given
from hypothesis import strategies as st
from marks import noisy_libraries

from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.storage import (
    Place,
    RemotePath,
    download,
    file_sizes,
    make_folder,
    place,
    remove_folder,
    write_atomically,
)
from orchestrator.cli import cli
from orchestrator.runs import lock
from orchestrator.runs.lock import claimed
from orchestrator.runs.progress_file import PROGRESS_FILE
from orchestrator.training.generate import generate
from surrogate.shards import Dataset, ShardEntry

pytestmark = noisy_libraries


def post(url: str, content: bytes) -> None:
    request = urllib.request.Request(url, content, {"Content-Type": "text/plain"})
    with urllib.request.urlopen(request):
        pass


# Places


def test_a_place_is_a_path_or_a_uri() -> None:
    assert place("a/b") == Path("a/b")
    assert place("file:///a/b%20c") == Path("/a/b c")
    remote = place("s3://bucket/a/b/?region=x")
    assert remote == RemotePath("s3", "bucket/a/b", "region=x")
    assert str(remote / "c d.json") == "s3://bucket/a/b/c%20d.json?region=x"
    assert (remote / "c.json").name == "c.json"
    assert (remote / "c.json").parent == remote
    assert (remote / "c.json").with_suffix(".bin") == remote / "c.bin"
    assert place(remote) is remote.resolve()


@given(st.lists(st.text("abc %?#&=+-_.", min_size=1).filter(lambda n: n.strip(".")), min_size=1))
def test_every_remote_path_survives_its_own_text(names: list[str]) -> None:
    path = RemotePath("gs", "bucket", "retry_limit_seconds=5")
    for name in names:
        path = path / name
    assert place(str(path)) == path
    assert pickle.loads(pickle.dumps(path)) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", "expected a path or a URI of s3, gs, file"),
        ("s3:///x", "got no bucket"),
        ("file://host/x", "file:///PATH"),
        ("s3://../b", "without empty parts"),
        ("s3://bucket/a/../../b", "without empty parts"),
        ("s3://bucket/a//b", "without empty parts"),
        ("s3://bucket/%2e%2e/b", "without empty parts"),
    ],
)
def test_a_wrong_uri_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        place(text)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="no credentials in a URI") as caught:
        place("s3://key:topsecret@bucket/a")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "", "/x", "."])
def test_a_name_does_not_lead_out_of_its_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="without empty parts"):
        RemotePath("s3", "bucket/a") / name


# Reading and writing


def test_files_are_written_read_listed_and_removed(bucket: RemotePath, tmp_path: Path) -> None:
    for folder in (bucket, tmp_path / "local"):
        make_folder(folder)
        assert not (folder / "x").exists()
        assert file_sizes(folder) == {}
        write_atomically(folder / "x", b"old")
        write_atomically(folder / "x", b"new content")
        make_folder(folder / "below")
        write_atomically(folder / "below" / "y", b"y")
        assert (folder / "x").read_bytes() == b"new content"
        assert (folder / "x").read_text() == "new content"
        assert (folder / "x").exists()
        assert folder.is_dir()
        assert (folder / "below").is_dir()
        assert not (folder / "x").is_dir()
        assert file_sizes(folder) == {"x": 11}
        (folder / "x").unlink()
        (folder / "x").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            (folder / "x").unlink()
        with pytest.raises(FileNotFoundError):
            (folder / "x").read_bytes()
        if isinstance(folder, RemotePath):
            download(folder, tmp_path / "copy", lambda name: name.startswith("below/"))
            assert (tmp_path / "copy" / "below" / "y").read_bytes() == b"y"
        remove_folder(folder)
        remove_folder(folder)
        assert not (folder / "below" / "y").exists()


def test_what_object_storage_refuses_is_one_clear_line(
    endpoint: str, bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = RemotePath("s3", "nowhere/a", bucket.query)
    with pytest.raises(ConfigError, match=r"nowhere/a\?.*: there is no such bucket"):
        make_folder(nowhere)
    with pytest.raises(MapspaceError, match="cannot be written: there is no such bucket"):
        write_atomically(nowhere / "x", b"")
    with pytest.raises(ConfigError, match="query parameter"):
        _ = RemotePath("s3", "bucket/a", "endpont=localhost").filesystem
    # From now on the server knows who may do what, and this account may do nothing.
    reset = f"http://{endpoint}/moto-api/reset-auth"
    post(reset, b"0")
    try:
        for action in (
            lambda: (bucket / "x").read_bytes(),
            lambda: write_atomically(bucket / "x", b""),
            lambda: file_sizes(bucket),
        ):
            with pytest.raises(MapspaceError, match="no permission; the credentials") as caught:
                action()
            assert "\n" not in str(caught.value)
    finally:
        post(reset, b"inf")
    assert not (bucket / "x").exists()


def test_an_endpoint_that_does_not_answer_is_one_clear_line() -> None:
    dead = RemotePath("s3", "bucket/a", "scheme=http&endpoint_override=127.0.0.1:1")
    with pytest.raises(MapspaceError, match=r"127\.0\.0\.1:1: .*endpoint cannot be reached"):
        make_folder(dead)


def test_an_object_cannot_be_copied_out_of_the_folder(
    endpoint: str, bucket: RemotePath, tmp_path: Path
) -> None:
    url = f"http://{endpoint}/{bucket.key}/below/..%2F..%2Fevil"
    with urllib.request.urlopen(urllib.request.Request(url, b"x", method="PUT")):
        pass
    with pytest.raises(ConfigError, match=r"without empty parts, '\.' and '\.\.'"):
        download(bucket, tmp_path / "a" / "b", lambda name: True)
    assert not list(tmp_path.rglob("evil"))


def test_google_storage_is_opened_without_waiting_for_ever() -> None:
    path = place("gs://bucket/a/b")
    assert isinstance(path, RemotePath)
    assert path.filesystem.type_name == "gcs"
    _, (options,) = path.filesystem.__reduce__()
    assert options["retry_time_limit"] == timedelta(seconds=60)


# Data sets


def test_a_remote_data_set_equals_a_local_one_and_is_repaired(
    bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    local = generate(data_config(), tmp_path, execute=map)
    first = generate(data_config(rows=60), bucket, execute=map)
    assert (first.written, first.kept) == (2, 0)
    more = generate(data_config(), bucket, execute=map)
    assert (more.written, more.kept) == (2, 2)
    assert more.manifest.shards == local.manifest.shards
    for shard in local.manifest.shards:
        assert (bucket / shard.file).read_bytes() == (tmp_path / shard.file).read_bytes()
    assert data_files(bucket) == data_files(tmp_path)

    write_atomically(bucket / "shard-00001.parquet", b"PAR1 rubbish")
    (bucket / "shard-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"s3://.*shard-00001\.parquet.* is damaged"):
        Dataset(bucket).read(1)
    repaired = generate(data_config(), bucket, execute=map)
    assert (repaired.written, repaired.kept) == (2, 2)
    assert "shard-00001.parquet" in repaired.damaged[0]
    assert "(the file is missing)" in repaired.damaged[1]
    assert data_files(bucket) == data_files(tmp_path)
    ours, theirs = Dataset(str(bucket)).read(3), Dataset(tmp_path).read(3)
    assert ours.inputs.tobytes() == theirs.inputs.tobytes()
    with pytest.raises(ConfigError, match=r"another data set .*seed"):
        generate(data_config(seed=1), bucket, execute=map)


def test_an_interrupted_remote_run_continues(bucket: RemotePath, quick_locks: None) -> None:
    def interrupted(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        yield from map(function, indices[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(data_config(), bucket, execute=interrupted)
    continued = generate(data_config(), bucket, execute=map)
    assert (continued.written, continued.kept) == (2, 2)


def test_the_command_takes_an_experiment_and_writes_a_data_set_at_uris(
    bucket: RemotePath,
    tmp_path: Path,
    ray_runtime: None,
    quick_locks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = RemotePath("s3", "bucket/experiments/data.yaml", bucket.query)
    write_atomically(experiment, data_config().model_dump_json().encode())
    cli.main(["generate", str(experiment), "--output", str(bucket)], standalone_mode=False)
    assert Dataset(bucket).manifest.rows == 120
    assert sorted(data_files(bucket)) == [
        "manifest.json",
        *(f"shard-0000{index}.parquet" for index in range(4)),
    ]


def data_files(folder: Place) -> dict[str, int]:
    """Names and bytes of the files of a data set, without the note of how its run stands."""
    return {name: size for name, size in file_sizes(folder).items() if name != PROGRESS_FILE}


# Two runs at one place


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_second_run_is_refused_and_told_who_is_there(
    remote: bool, bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    folder = bucket if remote else tmp_path / "data"

    def while_another_starts(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        for index in indices:
            yield function(index)
            with pytest.raises(ConfigError, match=rf"another run writes here \(process {here} on"):
                generate(data_config(), folder, execute=map)

    here = os.getpid()
    made = generate(data_config(rows=60), folder, execute=while_another_starts)
    assert made.written == 2
    assert sorted(data_files(folder)) == [
        *("manifest.json", "shard-00000.parquet", "shard-00001.parquet")
    ]
    assert generate(data_config(rows=60), folder, execute=map).kept == 2


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_the_lock_of_a_killed_run_does_not_stay(
    remote: bool, bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    folder = bucket if remote else tmp_path
    code = (
        "import os, signal, sys\n"
        "from orchestrator.runs.lock import claimed\n"
        "from mapspace.storage import place\n"
        "with claimed(place(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (folder / ".lock").exists()
    with claimed(folder):
        assert str(os.getpid()) in (folder / ".lock").read_text()
    assert not (folder / ".lock").exists()


def test_a_file_that_goes_between_opening_and_reading_is_none(
    bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SDK then says something else than for one that never was."""
    file, filesystem = bucket / "x", bucket.filesystem
    file.write_bytes(b"content")

    class Hasty:
        get_file_info = filesystem.get_file_info

        def open_input_file(self, key: str) -> Any:
            opened = filesystem.open_input_file(key)
            filesystem.delete_file(key)
            return opened

    monkeypatch.setattr(RemotePath, "filesystem", Hasty())
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_on_a_file_that_is_gone_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """The run before may remove its file after this one has opened it and before it locks it."""
    path = tmp_path / ".lock"
    calls = 0
    real = fcntl.flock

    def flock(file: int, operation: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            path.unlink()
            if replaced:
                path.touch()
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    # A busy machine may take long to try again.
    monkeypatch.setattr(lock, "RETRY_SECONDS", 5.0)
    with claimed(tmp_path):
        assert calls == 2
        assert str(os.getpid()) in path.read_text()
        # This one is to be refused, however often it tries.
        monkeypatch.setattr(lock, "RETRY_SECONDS", 0.1)
        with pytest.raises(ConfigError, match="another run writes here"), claimed(tmp_path):
            pass


def test_a_run_that_stalled_finds_its_folder_taken(bucket: RemotePath, quick_locks: None) -> None:
    with claimed(bucket) as claim:
        claim.check()
        deadline = time.monotonic() + 30
        # Like a living run: once is not enough where this one is just about to write.
        while not claim.lost and time.monotonic() < deadline:
            write_atomically(bucket / ".lock", b'{"token": "of another run"}')
            time.sleep(0.1)
        with pytest.raises(MapspaceError, match="another run has taken the folder over"):
            claim.check()
    # It is not this run's to remove.
    assert (bucket / ".lock").exists()


def test_of_two_that_start_in_the_same_moment_one_goes_on(
    bucket: RemotePath, quick_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.5)
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def run() -> None:
        start.wait()
        try:
            with claimed(bucket):
                outcomes.append("in")
                time.sleep(0.5)
        except ConfigError:
            outcomes.append("refused")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["in", "refused"]
