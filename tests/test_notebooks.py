"""The notebooks run as they are, and are kept without what running them left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# On two cores without other work; each is meant for a first look.
SECONDS = 60


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
    assert "`pip install" in first.source  # what it needs
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
