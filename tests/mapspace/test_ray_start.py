"""Which Ray a process gets, and that none waits for processors that never come."""

from __future__ import annotations

import subprocess
import sys

import pytest
from paths import ROOT

# Ray starts once in a process of its own: what other tests have started does not matter.
TWO_STARTS = """
import ray
from mapspace.errors import ConfigError
from mapspace.ray_start import start_ray
print(start_ray(cpus=1, needed=2), int(ray.cluster_resources()["CPU"]))
print(start_ray(needed=2))
try:
    start_ray(needed=3)
except ConfigError as error:
    print(error)
"""


def test_a_ray_with_too_few_processors_is_refused_rather_than_waited_for() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", TWO_STARTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, second, third = answer.stdout.splitlines()
    assert first == "True 2"
    assert second == "False"
    assert third.startswith("expected a Ray with 3 processors, got one with 2, started in this")


def test_a_job_server_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    from mapspace.errors import ConfigError
    from mapspace.ray_start import start_ray

    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    with pytest.raises(ConfigError, match="a job server"):
        start_ray()
