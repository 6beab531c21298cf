"""`import mapspace`: what it loads, which names it has, and that its page documents all of them."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from paths import ROOT

import costmodel
import mapspace
import mapspace as ms

PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAVY = {"ray", "torch", "mlflow", "pandas", "matplotlib", "numba", "numpy", "pyarrow", "pydantic"}
# Measured: 0.02 s. The rest is for a busy machine; the least of several runs counts.
SECONDS = 0.15


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def test_the_import_loads_nothing() -> None:
    loaded = set(python("import sys, mapspace; print(*sys.modules)").split())
    assert not {name.split(".")[0] for name in loaded} & HEAVY
    assert not {name for name in loaded if name.startswith(("costmodel", "orchestrator"))}


def test_the_import_is_quick() -> None:
    code = "import time; a = time.perf_counter(); import mapspace; print(time.perf_counter() - a)"
    seconds = []
    while not seconds or (min(seconds) > SECONDS and len(seconds) < 20):
        seconds.append(float(python(code)))
    assert min(seconds) <= SECONDS


def test_the_page_documents_every_name() -> None:
    headings = "\n".join(line for line in PAGE.splitlines() if line.startswith("## "))
    documented = re.findall(r"`(\w+)`", headings)
    assert sorted(documented) == sorted(ms.__all__)


def test_every_name_is_found_and_typed() -> None:
    """The lazy table and what type checkers read say the same."""
    source = Path(mapspace.__file__).read_text()
    typed = {
        alias.name: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing")
        for alias in node.names
    }
    assert typed.pop("lazy") == "mapspace.lazy"
    assert set(typed) == set(ms.__all__)
    for name, module in typed.items():
        assert module is not None
        assert getattr(ms, name) is getattr(importlib.import_module(module), name)
    assert set(ms.__all__) <= set(dir(ms))
    assert not hasattr(ms, "serch")


def test_a_misspelt_name_is_an_error_to_type_checkers(tmp_path: Path) -> None:
    file = tmp_path / "use.py"
    file.write_text("import mapspace as ms\nreveal_type(ms.search('x').costs)\nms.serch('x')\n")
    # What others' packages say of types takes most of the time and decides nothing here.
    quick = ["--follow-imports=silent", "--no-site-packages", "--cache-dir", str(tmp_path)]
    arguments = ["-m", "mypy", *quick, str(file)]
    run = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert "orchestrator.records.found_mapping.MappingCosts" in run.stdout
    assert 'Module has no attribute "serch"' in run.stdout


def test_the_names_of_the_cost_models() -> None:
    for name in ("TilingSpace", "MaestroModel"):
        assert name in costmodel.__all__
        assert getattr(costmodel, name) is getattr(ms, name)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_runtime: None) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```python") > 10
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert (tmp_path / "best.certificate.json").exists()
    assert (tmp_path / "front.png").exists()


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(block.splitlines()) <= 10
    exec(compile(block, "README.md", "exec"), {})
