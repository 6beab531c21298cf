"""docs/extending.md is true: its package is installed, keeps the promises and runs on Ray."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "extending.md"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, and in `site` the package installed."""
    folder = tmp_path_factory.mktemp("hill")
    blocks = re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 8
    for name, text in blocks:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*install, *offline, str(folder)], check=True)
    return folder


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(project / "site"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plug_in_is_listed_with_its_package(project: Path) -> None:
    listed = run(project, "orchestrator", "list", "searchers", "--long").stdout
    assert re.search(r"hill-climbing +Hill climbing: one move", listed)
    assert "Presets: impatient. Plug-in of mapspace-hill 0.1." in " ".join(listed.split())
    assert "patience whole number, at least 1; default 100, impatient 10" in " ".join(
        listed.split()
    )
    models = " ".join(run(project, "orchestrator", "list", "models").stdout.split())
    assert "blocked Words that a blocked matrix product moves" in models


@pytest.mark.timeout(900)
def test_a_plug_in_keeps_the_promises(project: Path) -> None:
    tests = run(project, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert tests.returncode == 0, tests.stdout
    assert " passed" in tests.stdout


@pytest.mark.timeout(900)
def test_a_plug_in_runs_on_ray_and_the_page_names_it(project: Path) -> None:
    # Every further core starts a worker for seconds.
    benchmark = ["benchmark", "hill.yaml", "--output", "run", "--cores", "1"]
    for command in (benchmark, ["report", "run"]):
        done = run(project, "orchestrator", *command)
        assert done.returncode == 0, done.stderr
    page = (project / "run" / "report.html").read_text()
    for named in ("hill-climbing (impatient)", "plug-in: searcher hill-climbing"):
        assert named in page
    assert "plug-in: cost model blocked" in page
    assert "mapspace-hill 0.1" in page


@pytest.mark.timeout(900)
def test_a_kind_of_its_own_runs_on_ray_and_is_read_again(project: Path) -> None:
    command = ("orchestrator", "sweep", "fits.yaml", "--output", "fits")
    first, second = run(project, *command), run(project, *command)
    assert first.returncode == 0, first.stderr
    shares = json.loads((project / "fits" / "shares.json").read_text())
    assert len(shares) == 2
    assert all(0 < share < 1 for share in shares.values())
    assert "gemm:M=512,N=512,K=512" in first.stdout
    assert second.stdout == first.stdout
    assert "already finished" in second.stderr
    other = run(project, "orchestrator", "benchmark", "hill.yaml", "--output", "fits")
    assert "holds a study of feasibility (feasibility.json)" in other.stderr


def test_mistakes_in_its_hyperparameters_are_one_line(project: Path) -> None:
    text = (project / "hill.yaml").read_text()
    (project / "wrong.yaml").write_text(
        text.replace("hill-climbing: {}", "hill-climbing: {parameters: {patience: 0}}")
    )
    done = run(project, "orchestrator", "benchmark", "wrong.yaml", "--output", "wrong")
    assert done.returncode == 2
    assert "searcher hill-climbing: patience: expected at least 1, got 0." in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
