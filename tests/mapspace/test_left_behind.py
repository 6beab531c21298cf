"""What killed processes leave is swept by the next one, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mapspace import left_behind
from mapspace.left_behind import MARK, is_dead, mark_session, owner, scratch_folder, sweep_sessions

KILLED = """
import os, signal
from mapspace.left_behind import owner, scratch_folder
with scratch_folder("test"):
    print(owner(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(left_behind, "_ray_folders", lambda: [tmp_path / "ray"])
    left_behind._sweep_scratch.cache_clear()
    return tmp_path


def killed() -> str:
    """A process that was killed in its scratch folder, as it says who it was."""
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert done.returncode < 0
    return done.stdout.strip()


def test_scratch_folders_of_the_dead_go(place: Path) -> None:
    dead = killed()
    [left] = place.iterdir()
    assert dead in left.name
    assert is_dead(dead)
    assert not is_dead(owner())
    # Somebody has the number of a process that is dead: it is another one all the same.
    assert is_dead(f"{os.getpid()}.1")
    (place / f"mapspace-test-{owner()}-alive").mkdir()
    (place / f"mapspace-other-{dead}-x").mkdir()
    (place / f"mapspace-test-{dead}-link").symlink_to(place)
    with scratch_folder("test") as folder:
        assert folder.is_dir()
        assert not left.exists()
    names = {entry.name.rpartition("-")[2] for entry in place.iterdir()}
    assert names == {"alive", "x", "link"}


def test_sessions_of_the_dead_end(place: Path) -> None:
    """Their agents are killed, their folders removed; those of others and of the living are not."""
    dead = killed()
    for name, mark in (("dead", dead), ("alive", ""), ("foreign", None)):
        session = place / "ray" / f"session_{name}"
        session.mkdir(parents=True)
        if mark is not None:
            (session / MARK).write_text(mark)
    mark_session("session_alive")
    agents = {
        name: subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)", f"{place}/ray/session_{name}/x"]
        )
        for name in ("dead", "alive", "foreign")
    }
    try:
        sweep_sessions()
        assert agents["dead"].wait(10) < 0
        assert [agents[name].poll() for name in ("alive", "foreign")] == [None, None]
        there = {entry.name for entry in (place / "ray").iterdir()}
        assert there == {"session_alive", "session_foreign"}
    finally:
        for agent in agents.values():
            agent.kill()
            agent.wait()
