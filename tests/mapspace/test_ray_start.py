"""Which Ray a process gets, and that none waits for processors that never come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from mapspace.errors import ConfigError, MapspaceError
from mapspace.ray_start import start_ray


@pytest.mark.usefixtures("ray_runtime")
def test_a_ray_that_starts_has_the_processors_that_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray

    asked: dict[str, Any] = {}
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: asked.update(options))
    assert start_ray("local", cpus=1, needed=2)
    assert asked["num_cpus"] == 2


@pytest.mark.usefixtures("ray_runtime")
def test_a_ray_with_too_few_processors_is_refused_rather_than_waited_for() -> None:
    assert not start_ray("local", needed=2)
    with pytest.raises(ConfigError, match="a Ray with 3 processors, got one with 2, started in"):
        start_ray("local", needed=3)


@pytest.mark.parametrize("there", [False, True])
def test_an_embedded_rays_token_is_its_users_alone(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: None)
    token = tmp_path / ".ray" / "auth_token"
    if there:
        token.parent.mkdir(mode=0o755)
        token.write_text("known")
        token.chmod(0o644)
    assert start_ray("local", cpus=1)
    assert [entry.stat().st_mode & 0o777 for entry in (token, token.parent)] == [0o600, 0o700]
    assert (token.read_text() == "known") == there
    assert there or len(token.read_text()) == 64


# Two tasks wait at any time. What Ray's node was asked for it writes to a file. In a process of its
# own: what other tests have started does not matter.
WORKERS = """
import os, re, time
os.environ["RAY_debug_dump_period_milliseconds"] = "100"
import ray
from pathlib import Path
from mapspace.ray_start import start_ray
start_ray(cpus=1)

@ray.remote
def nap():
    time.sleep(0.6)

waiting = [nap.remote(), nap.remote()]
for _ in range(3):
    ray.get(waiting.pop(0))
    waiting.append(nap.remote())
ray.get(waiting)
time.sleep(1)
folder = Path(ray._private.worker.global_worker.node.get_session_dir_path())
said = (folder / "logs" / "debug_state.txt").read_text()
found = re.search(r"grpc_server\\.ReturnWorkerLease - (\\d+) total", said)
print(found[1] if found else 0)
"""


def test_a_worker_is_kept_for_the_next_tasks() -> None:
    """With Ray's own half a second it is given back after each of the five."""
    answer = subprocess.run(
        [sys.executable, "-c", WORKERS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) <= 2


def test_a_job_server_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    with pytest.raises(ConfigError, match="a job server"):
        start_ray()


def test_a_ray_that_does_not_start_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def late(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(MapspaceError, match=r"does not start: The current .* startup\.$"):
        start_ray()


def test_a_stopped_command_ends_as_before_while_ray_runs_and_after_it() -> None:
    """Ray takes SIGTERM for itself, and leaves the system's way to end when it ends."""
    code = """
import os, signal
from mapspace.ray_start import start_ray, stop_ray
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
start_ray("local", cpus=1)
os.kill(os.getpid(), signal.SIGTERM)
stop_ray()
os.kill(os.getpid(), signal.SIGTERM)
print(told)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "[1, 1]\n"), done.stderr
    assert "SIGTERM" not in done.stderr
