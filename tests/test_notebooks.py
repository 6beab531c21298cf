"""The notebooks run as they are, and are kept without what running them left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# On two cores without other work; each is meant for a first look.
SECONDS = 60
NEEDS = re.compile(r"`pip install (?:\.|'\.\[([\w,]+)\]')` in a clone")


OF_NOTEBOOKS = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def test_every_notebook_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert len(NOTEBOOKS) > 8
    for path in NOTEBOOKS:
        assert f"](notebooks/{path.name})" in index


@OF_NOTEBOOKS
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    # What it needs; there is no mapspace in a registry of packages.
    assert NEEDS.search(first.source)
    assert first.source.count("pip install") == 1
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.slow
@OF_NOTEBOOKS
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `!mapspace` is the command of this installation.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    started = time.monotonic()
    NotebookClient(notebook, timeout=2 * SECONDS, resources=where).execute()
    seconds = time.monotonic() - started
    print(f"{path.stem}: {seconds:.1f} s")
    # A command that fails raises nothing in a notebook.
    shown = str([cell.get("outputs", []) for cell in notebook.cells])
    assert "Error" not in shown
    assert "Traceback" not in shown
    assert seconds < 2 * SECONDS


def needed(path: Path) -> set[str]:
    """The extras that a notebook says it needs."""
    said = NEEDS.search(path.read_text())
    assert said is not None, path
    return set(filter(None, (said[1] or "").split(",")))


# Those of the core and of small extras: Ray and PyTorch are 2 GB for each run of the tests.
LIGHT = {"store"}
OF_THE_CORE = [path for path in NOTEBOOKS if needed(path) <= LIGHT]
RUN = """
import json, sys
import nbformat
from nbclient import NotebookClient
import mapspace
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
shown = [cell.get("outputs", []) for cell in notebook.cells]
print(json.dumps({"from": mapspace.__file__, "shown": shown}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, the light extras and what runs notebooks."""
    folder = tmp_path_factory.mktemp("installed")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, env=clean)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    wanted = [f"{wheel}[{','.join(sorted(LIGHT))}]", "nbclient", "ipykernel"]
    pins = ["--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")]
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", *pins, *wanted], check=True, env=clean)
    return python


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("notebook", OF_THE_CORE, ids=[path.stem for path in OF_THE_CORE])
def test_a_notebook_runs_from_the_wheel(notebook: Path, installed: Path, tmp_path: Path) -> None:
    """With the extras that it names, outside of the checkout."""
    # Nothing of these tests' own settings; what is compiled once is kept for the next notebook.
    home = installed.parent.parent.parent / "home"
    path = f"{installed.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(home), "MAPSPACE_STORE": "off"}
    started = time.monotonic()
    done = subprocess.run(
        [installed, "-c", RUN, str(notebook), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    print(f"{notebook.stem}: {time.monotonic() - started:.1f} s")
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert Path(answer["from"]).is_relative_to(installed.parent.parent)
    # A command that fails raises nothing in a notebook.
    assert "Error" not in str(answer["shown"])
    assert "Traceback" not in str(answer["shown"])


def test_most_notebooks_need_no_large_extra() -> None:
    assert len(OF_THE_CORE) >= 6
