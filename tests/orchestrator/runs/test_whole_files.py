"""Files that are there whole or not at all, also where the disk is full."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pyarrow.fs
import pytest

from orchestrator.runs.atomic_filesystem import whole_files


def test_a_file_is_replaced_when_it_is_closed(tmp_path: Path) -> None:
    # Ray sends the file system to its workers.
    files = pickle.loads(pickle.dumps(whole_files()))
    path = tmp_path / "state"
    path.write_bytes(b"before")
    with files.open_output_stream(str(path)) as stream:
        stream.write(b"after")
        stream.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_file_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"x" * (1 << 20))
    path = tmp_path / "state"
    path.write_bytes(b"before")
    device = io.FileIO
    # A device that is always full.
    monkeypatch.setattr("io.FileIO", lambda name, mode: device("/dev/full", mode))
    monkeypatch.setattr("os.unlink", lambda name: None)
    with pytest.raises(OSError, match="No space left on device"):
        pyarrow.fs.copy_files(
            str(tmp_path / "source"), str(path), destination_filesystem=whole_files()
        )
    assert path.read_bytes() == b"before"
