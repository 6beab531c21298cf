"""What others' machines run is what this one runs: targets, parts and versions that there are."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml
from paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return dict(found["jobs"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.name))
def test_every_target_is_in_the_makefile(file: Any) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"run: make ([a-z-]+)", file.read_text())
    assert named
    assert set(named) <= targets
    assert "secrets." not in file.read_text()
    assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}


def test_every_slow_part_runs_once_a_week() -> None:
    for job, command in (("slow", "test-slow"), ("faults", "faults")):
        found = jobs("slow.yml")[job]
        parts = found["strategy"]["matrix"]["part"]
        assert parts == list(range(1, len(parts) + 1))
        assert (
            found["steps"][-1]["run"] == f"make {command} PART=${{{{ matrix.part }}}}/{len(parts)}"
        )


def test_every_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert said == jobs("tests.yml")["test"]["strategy"]["matrix"]["python"]
    assert project["requires-python"] == f">={said[0]}"
