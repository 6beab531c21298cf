"""Which package may import what, as docs/inside/architecture.md states it."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from paths import ROOT

OWN = {"costmodel", "mapspace", "orchestrator", "searchers", "surrogate"}
# Lowest first. A file imports from its own room and from the floors below it: never upwards, never
# from a room beside it.
FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "mapspace",
        "costmodel costmodel.compiled",
        "costmodel.problems",
        "costmodel.machines",
        "costmodel.networks",
        "costmodel.arrays",
        "costmodel.map_space",
        "costmodel.loop_nest",
        "costmodel.accelforge costmodel.exact costmodel.exact_imperfect costmodel.independent "
        "costmodel.maestro costmodel.scalesim costmodel.tiling costmodel.timeloop costmodel.zigzag",
        "costmodel.cascades costmodel.command costmodel.tile_chains",
        "costmodel.exact_any",
        "costmodel.explanation costmodel.models",
        "searchers.compiled surrogate",
        "searchers.base",
        "searchers.reinforcement searchers.shared",
        "searchers",
        "mapspace.testing",
        "orchestrator.report orchestrator.schemas orchestrator.store",
        "orchestrator.runs",
        "orchestrator.comparison orchestrator.imports orchestrator.pool orchestrator.watch",
        "orchestrator.benchmark orchestrator.records",
        "orchestrator.kept orchestrator.map_space",
        "orchestrator.marvel orchestrator.sweep orchestrator.training "
        "orchestrator.answers orchestrator.bypass orchestrator.proofs",
        "orchestrator.design orchestrator.explain orchestrator.search",
        "orchestrator.networks",
        "orchestrator.commands",
        "orchestrator",
    )
)
# Files that stand on another floor than their folder's.
RAISED = {
    "costmodel": "costmodel.models",  # the public names
    "mapspace": "orchestrator",  # the public names, which load on demand
    "mapspace.tune": "orchestrator",
    "costmodel.models": "costmodel.models",
    "costmodel.cost_model_entry": "costmodel.networks",
    "orchestrator.schemas.published": "orchestrator.commands",
    "searchers.base": "searchers.base",
    "searchers.context": "searchers.base",
    "searchers.options": "searchers.base",
    "searchers.scales": "searchers.base",
    "searchers.evaluator": "searchers.base",
}
ALLOWED_OUTSIDE = {
    "mapspace.testing": {"hypothesis", "numpy", "pytest"},
    "mapspace": {"fsspec", "numpy", "platformdirs", "pyarrow", "pydantic", "pydantic_core", "yaml"},
    "searchers": {"numpy", "numba", "pydantic"},
    "surrogate": {"numpy", "pydantic", "pyarrow", "safetensors", "scipy", "torch", "yaml"},
    "costmodel": {
        "libconf",
        "llvmlite",
        "numpy",
        "numba",
        "platformdirs",
        "pydantic",
        "typing_extensions",
        "yaml",
    },
}
# RLlib drives its own loop, so what hosts it needs Ray; the other searchers need nothing of it.
REINFORCEMENT = {"gymnasium", "ray", "torch"}
RAY_FILES = {"mapspace/ray_start.py"}
REINFORCEMENT_FILES = {"searchers/ddpg.py", "searchers/ppo.py"}
# Some searchers are another library's model or optimiser; templates are Jinja's.
LIBRARIES = {
    "costmodel/command/templates.py": {"jinja2"},
    "costmodel/compiled/once.py": {"filelock"},
    "searchers/cma_es.py": {"cmaes"},
    # Non-negative least squares, and solutions from one Cholesky factor: NumPy has neither.
    "searchers/shared/body_process.py": {"scipy"},
    "searchers/shared/gaussian_process.py": {"scipy"},
    "searchers/shared/calibration.py": {"scipy"},
    "searchers/model_guided.py": {"scipy"},
    "searchers/shared/one_thread.py": {"scipy", "threadpoolctl"},
    "searchers/nevergrad.py": {"nevergrad"},
    "searchers/optuna.py": {"optuna"},
    "searchers/xgboost.py": {"xgboost"},
}
TVM_FILES = {"costmodel/tiling/tvm_schedule.py", "costmodel/tiling/build_and_time.py"}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in sorted(OWN)
    for path in sorted((ROOT / package).rglob("*.py"))
}


@cache
def imported(module: str) -> tuple[set[str], set[str]]:
    """Modules that one imports when it runs, and for type checkers alone; own ones are whole."""
    running, checking = set[str](), set[str]()

    def visit(node: ast.AST, found: set[str]) -> None:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            assert node.module is not None
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found.update(name if name in MODULES else node.module for name in names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found = checking
        # No expression holds an import.
        if not isinstance(node, ast.expr):
            for child in ast.iter_child_nodes(node):
                visit(child, found)

    visit(ast.parse(MODULES[module].read_text()), running)
    return running, checking


@cache
def with_types() -> dict[str, set[str]]:
    return {module: set.union(*imported(module)) & set(MODULES) - {module} for module in MODULES}


def floor(module: str) -> tuple[int, str]:
    """The number of a module's floor, and its room there."""
    folder = ".".join(MODULES[module].relative_to(ROOT).parent.parts)
    room = RAISED.get(module, folder)
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms), room


def test_imports_follow_the_table() -> None:
    assert [problem for module in MODULES for problem in _against_the_table(module)] == []


def _against_the_table(module: str) -> Iterator[str]:
    """What a module imports and may not, in lines."""
    mine, room = floor(module)
    for other in sorted(with_types()[module]):
        its, its_room = floor(other)
        if its >= mine and its_room != room:
            yield f"{module} (floor {mine}) imports {other} ({its})"
    package = room if room in ALLOWED_OUTSIDE else module.split(".")[0]
    if package in ALLOWED_OUTSIDE:
        names = {name.split(".")[0] for name in imported(module)[0]}
        outside = names - OWN - set(sys.stdlib_module_names)
        place = MODULES[module].relative_to(ROOT).as_posix()
        if place in REINFORCEMENT_FILES or place.startswith("searchers/reinforcement/"):
            outside -= REINFORCEMENT
        outside -= LIBRARIES.get(place, set())
        if place in RAY_FILES:
            outside -= {"ray"}
        if place in TVM_FILES:
            outside -= {"tvm"}
        for name in sorted(outside - ALLOWED_OUTSIDE[package]):
            yield f"{module} imports {name}"


def test_no_file_imports_itself_in_a_circle() -> None:
    graphlib.TopologicalSorter(with_types()).prepare()  # raises on a cycle, and names it


def test_the_table_is_that_of_the_page() -> None:
    lines = (ROOT / "docs/inside/architecture.md").read_text().splitlines()
    number, stated = "", set()
    for _, floor_cell, rooms_cell, *_ in (line.split("|") for line in lines if line[:2] == "| "):
        number = floor_cell.strip() or number
        if not number.isdigit():
            continue
        found = re.findall(r"`(\w*)\.?(\w*)`", rooms_cell)
        package = found[0][0]
        stated |= {(int(number), f"{one or package}.{two}".rstrip(".")) for one, two in found}
    folders = {(i, room) for i, rooms in enumerate(FLOORS) for room in rooms}
    assert folders - stated == set()


def test_one_nested_level_at_most() -> None:
    deep = [m for m, path in MODULES.items() if len(path.relative_to(ROOT).parts) > 3]
    assert not deep


# What may not be there once modules are imported, after those above them.
HEAVY = {
    # Nor compiled code: half a second before every answer.
    "orchestrator.cli": "ray mlflow torch pandas matplotlib pyarrow duckdb numba",
    "costmodel": "ray mlflow torch pandas matplotlib pyarrow",
    "searchers": "ray mlflow torch pandas matplotlib pyarrow",
    "searchers.ppo, searchers.ddpg": "ray torch",
    "searchers.xgboost": "xgboost sklearn pandas",
    "searchers.cma_es, searchers.nevergrad": "cmaes nevergrad pandas",
    "searchers.optuna": "optuna torch",
    "surrogate": "ray mlflow",
}


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """What one process has loaded after each of HEAVY: what all do not load, none of them does."""
    code = (
        "import sys\n"
        "for modules in sys.argv[1:]:\n"
        "    exec(f'import {modules}')\n"
        "    print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    words = [sys.executable, "-c", code, *HEAVY]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    return {modules: set(line.split()) for modules, line in zip(HEAVY, lines, strict=True)}


@pytest.mark.parametrize("modules", HEAVY)
def test_heavy_libraries_wait_until_they_are_needed(
    modules: str, loaded: dict[str, set[str]]
) -> None:
    assert modules.split(".")[0].split(",")[0] in loaded[modules]
    assert not loaded[modules] & set(HEAVY[modules].split())


def test_a_search_loads_what_it_needs_alone() -> None:
    """So that it starts within a second."""
    code = (
        "import sys\n"
        "from orchestrator.cli import main\n"
        "try:\n    main(['search', 'gemm:M=8,N=4,K=2', '--json'])\n"
        "finally:\n    print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert '"proven": true' in run.stdout
    loaded = set(run.stderr.splitlines()[-1].split())
    assert "costmodel" in loaded
    assert not loaded & {"ray", "mlflow", "torch", "pandas", "matplotlib", "pyarrow"}


def test_files_stay_readable() -> None:
    long = [p for p in MODULES.values() if len(p.read_text().splitlines()) > 600]
    assert not long, f"over 600 lines: {long}"
