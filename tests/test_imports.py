"""Which package may import what, as docs/architecture.md states it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWN = {"orchestrator", "searchers", "surrogate", "costmodel"}
ALLOWED_OWN = {
    "orchestrator": {"orchestrator", "searchers", "surrogate", "costmodel"},
    "searchers": {"searchers", "costmodel"},
    "surrogate": {"surrogate", "costmodel"},
    "costmodel": {"costmodel"},
}
ALLOWED_OUTSIDE = {
    "searchers": {"numpy", "numba"},
    "surrogate": {"numpy", "pydantic", "pyarrow", "safetensors", "scipy", "torch", "yaml"},
    "costmodel": {"numpy", "numba", "platformdirs", "pydantic", "pydantic_core", "yaml"},
}
# RLlib drives its own loop, so what hosts it needs Ray; the other searchers need nothing of it.
REINFORCEMENT = {"gymnasium", "ray", "torch"}
REINFORCEMENT_FILES = {"searchers/ddpg.py", "searchers/ppo.py"}
# Some searchers are another library's model or optimiser.
LIBRARIES = {
    "searchers/cma_es.py": {"cmaes"},
    # Non-negative least squares, and solutions from one Cholesky factor: NumPy has neither.
    "searchers/gaussian_process.py": {"scipy"},
    "searchers/model_guided.py": {"scipy"},
    "searchers/nevergrad.py": {"nevergrad"},
    "searchers/optuna.py": {"optuna"},
    "searchers/xgboost.py": {"xgboost"},
}
TVM_FILES = {"costmodel/tiling/schedule.py", "costmodel/tiling/hardware.py"}
FILES = [path for package in sorted(OWN) for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_follow_the_table(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    names = imported(path)
    assert names & OWN <= ALLOWED_OWN[package]
    if package in ALLOWED_OUTSIDE:
        outside = names - OWN - set(sys.stdlib_module_names)
        place = path.relative_to(ROOT).as_posix()
        if place in REINFORCEMENT_FILES or place.startswith("searchers/reinforcement/"):
            outside -= REINFORCEMENT
        outside -= LIBRARIES.get(place, set())
        if place in TVM_FILES:
            outside -= {"tvm"}
        assert outside <= ALLOWED_OUTSIDE[package], f"{path} imports {outside}"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("costmodel", {"ray", "mlflow", "torch", "pandas", "matplotlib", "pyarrow"}),
        ("searchers", {"ray", "mlflow", "torch", "pandas", "matplotlib", "pyarrow"}),
        ("searchers.ppo, searchers.ddpg", {"ray", "torch"}),
        ("searchers.xgboost", {"xgboost", "sklearn", "pandas"}),
        ("searchers.cma_es, searchers.nevergrad", {"cmaes", "nevergrad", "pandas"}),
        ("searchers.optuna", {"optuna", "torch"}),
        ("surrogate", {"ray", "mlflow"}),
        ("orchestrator.cli", {"ray", "mlflow", "torch", "pandas", "matplotlib", "pyarrow"}),
    ],
)
def test_heavy_libraries_wait_until_they_are_needed(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & absent


def test_files_stay_readable() -> None:
    long = [p for p in FILES if len(p.read_text().splitlines()) > 600]
    assert not long, f"over 600 lines: {long}"
