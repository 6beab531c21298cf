"""Breaks the core's sources one place at a time and sees whether the tests notice: `make mutants`.

A seeded sample of small mutations (comparisons, arithmetic, constants, removed statements), each in
a temporary copy of the tree, never in the tree itself. Compiled functions run interpreted, so that
no machine code of other sources can answer; where a file of `ROOMS` that has none of them is broken
they need not, and all tests of the room run, after those that import the module; of either the
files that take least come first, as the unbroken tree has them. Each mutant runs its tests in a
fork of a process that has the heavy libraries imported already. Results are JSON lines; a run that
is started again with the same output goes on where it stopped. Processes may share a sample, and
its output: `--shard 1/4` to `--shard 4/4`. `--again FILE` runs what survived in an earlier output
once more.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from mutations import Mutant, mutants
from parts import part_of
from paths import ROOT

TINY = "tests/costmodel/exact/test_exact.py::test_equals_exhaustive_enumeration_of_tiny_problems"
PINNED_RUNS = "tests/searchers/test_pinned_searches.py"
GENERAL = "tests/costmodel/loop_nest/test_golden_general.py"
MODEL = (
    "tests/costmodel/loop_nest/test_loopnest_by_hand.py",
    "tests/costmodel/loop_nest/test_golden_timeloop.py",
    GENERAL,
    TINY,
)
# Without what takes long when interpreted.
NESTS = (
    GENERAL,
    "tests/costmodel/loop_nest/test_nest_writing.py",
    "-k",
    "not machine0 and not machine1",
)
DRAWS = (
    "tests/costmodel/map_space/test_feasible_draws.py",
    "-k",
    "enumeration or rules or likely and not changes1",
)
FEASIBLE = (
    "tests/costmodel/loop_nest/test_loopnest.py",
    "tests/costmodel/loop_nest/test_golden_validity.py",
    # In Timeloop's own order, which records are judged in.
    f"{GENERAL}::test_refuses_what_timeloop_refuses_in_its_words",
    f"{GENERAL}::test_a_case_counted_by_hand",
    "tests/costmodel/map_space/test_constrained_space.py",
    TINY,
    "-k",
    "tiny or by_roles or judged or excess or fan_out or bank or overflow or refuses or a_case",
)
PROOFS = (
    "tests/costmodel/exact_any/test_pinned_hierarchies.py",
    "tests/costmodel/exact/test_certificate_claims.py",
    TINY,
    "tests/costmodel/exact/test_exact.py",
    "tests/costmodel/exact_any/test_constrained_proofs.py",
    "-k",
    "pinned or claims or tiny or by_hand or says_the_constraints",
)

ANY_DEPTH = (
    "tests/costmodel/exact_any/test_hierarchies.py",
    "tests/costmodel/exact_any/test_credits.py",
    "tests/costmodel/exact_any/test_routed_orders.py",
    "tests/costmodel/exact_any/test_pinned_hierarchies.py",
    "tests/costmodel/exact_any/test_levels_apart.py",
    "tests/costmodel/exact_any/test_fewest_children.py",
    "tests/costmodel/exact_any/test_hulls.py",
    "tests/costmodel/exact_any/test_lattice.py",
    "-k",
    "by_hand or test_equals_exhaustive or credits or fewer_words or pinned or below_the_floor "
    "or hulls or lattice",
)
# Who makes machine code of a function (`costmodel.compiled`).
COMPILERS = {"compiled", "lean", "part"}


# The tests of a file, or of all files of a folder, that run within seconds when interpreted.
TESTS: dict[str, tuple[str, ...]] = {
    "costmodel/loop_nest/cost_kernel.py": MODEL,
    "costmodel/loop_nest/networks.py": MODEL,
    "costmodel/loop_nest/spatial_groups.py": MODEL,
    "costmodel/loop_nest/temporal_reuse.py": MODEL,
    "costmodel/loop_nest/nest_records.py": NESTS,
    "costmodel/loop_nest/nest_tables.py": NESTS,
    "costmodel/loop_nest/nest_validity.py": NESTS,
    "costmodel/loop_nest/nest_writing.py": NESTS,
    "costmodel/arrays/feasibility.py": FEASIBLE,
    "costmodel/map_space/feasible_draws.py": DRAWS,
    "costmodel/map_space/edits.py": ("tests/costmodel/map_space/test_edits.py",),
    "costmodel/map_space/moves.py": (
        PINNED_RUNS,
        "tests/costmodel/map_space/test_mapspace.py",
        "-k",
        # What takes long without machine code is left out.
        "rich or mapspace and not without_feasible and not uniform",
    ),
    "costmodel/exact": PROOFS,
    "costmodel/exact_any": ANY_DEPTH,
    "costmodel/tile_chains": ANY_DEPTH,
}
# The tests of a file that has no compiled function, or of all such files of a folder.
ROOMS: dict[str, tuple[str, ...]] = {
    "costmodel/arrays": tuple(
        f"tests/costmodel/{room}" for room in ("problems", "loop_nest", "map_space")
    ),
    "costmodel/exact_any": ("tests/costmodel/exact_any",),
    "costmodel/machines": ("tests/costmodel/machines", "tests/costmodel/map_space"),
    "costmodel/map_space": (
        "tests/costmodel/map_space",
        "tests/costmodel/machines",
        "tests/orchestrator/map_space",
        "tests/orchestrator/records",
    ),
    "costmodel/tile_chains": ("tests/costmodel/exact_any",),
    "costmodel/networks": ("tests/costmodel/networks", "tests/orchestrator/networks"),
    "orchestrator/networks": ("tests/costmodel/networks", "tests/orchestrator/networks"),
    "searchers": ("tests/searchers",),
    "searchers/shared": ("tests/searchers",),
    "surrogate": ("tests/surrogate",),
    "costmodel/problems": ("tests/costmodel/problems", "tests/mapspace/test_misuse.py"),
    "mapspace": ("tests/mapspace", "tests/test_limits_hold.py"),
    # Where commands lead is looked at by the tests of what they call.
    "orchestrator/commands": tuple(
        f"tests/orchestrator/{room}"
        for room in ("commands", "comparison", "explain", "records", "runs", "search")
    ),
    "orchestrator/imports": ("tests/orchestrator/imports", "tests/test_limits_hold.py"),
    "orchestrator/runs": (
        "tests/orchestrator/runs",
        "tests/orchestrator/benchmark",
        "tests/orchestrator/training",
        "tests/test_limits_hold.py",
    ),
    "orchestrator/search": ("tests/orchestrator/search", "tests/orchestrator/networks"),
    **{
        f"orchestrator/{room}": (f"tests/orchestrator/{room}",)
        for room in (
            "answers",
            "comparison",
            "design",
            "explain",
            "proofs",
            "records",
            "store",
            "sweep",
        )
    },
}
# Imported before the forks: what takes long and is none of this project's.
WARM = ("pytest", "numpy", "numba", "scipy.stats", "hypothesis", "pydantic", "yaml", "torch")

# Seconds that may pass per second of the limit.
ASLEEP = 20

# What the last tests printed, and seconds by file, beside the copy of the tree.
SAID = "said.txt"
TIMES = "times.json"

# A mutant and the tests that it runs.
Work = tuple[Mutant, tuple[str, ...]]


def every_mutant(only: list[str]) -> list[list[Work]]:
    """The mutants of each entry of `TESTS` and `ROOMS`, or of those named only."""
    pools = []
    for path in dict.fromkeys((*TESTS, *ROOMS)):
        folder = ROOT / path
        files = sorted(folder.glob("*.py")) if folder.is_dir() else [folder]
        if not only or path in only:
            names = [str(file.relative_to(ROOT)) for file in files]
            chosen = {name: selected(name, path) for name in names}
            pools.append(
                [
                    (broken, tests)
                    for name, tests in chosen.items()
                    if tests
                    for broken in mutants(name)
                ]
            )
    return pools


def room_of(name: str) -> tuple[str, ...]:
    """The tests that `ROOMS` has for a file; none where it has none."""
    return ROOMS.get(name) or ROOMS.get(name.rpartition("/")[0], ())


@functools.cache
def is_plain(name: str) -> bool:
    """Whether a file lies in one of `ROOMS` and has no compiled function."""
    if not room_of(name):
        return False
    return not any(
        isinstance(node, ast.FunctionDef)
        and any(isinstance(by, ast.Name) and by.id in COMPILERS for by in node.decorator_list)
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
    )


def selected(name: str, entry: str) -> tuple[str, ...]:
    """The tests of a file in an entry: of plain Python those of its room that import it come first.

    None where the entry has none for it, or another entry names the file itself.
    """
    if entry != name and name in TESTS:
        return ()
    if not is_plain(name):
        return TESTS.get(entry, ())
    room = ROOMS.get(entry, ())
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    # Those of other rooms take long, and some of them measure.
    near = [path for path in importers().get(module, ()) if path.startswith(room)]
    return tuple(dict.fromkeys((*near, *room)))


def quickest_first(
    name: str, tests: tuple[str, ...], seconds: Mapping[str, float]
) -> tuple[str, ...]:
    """The tests of a plain file by what they took: of those that import it first, then the others.

    Args:
        name: the file.
        tests: those of its room, as `selected` has them.
        seconds: what each file of tests took.
    """
    if not is_plain(name):
        return tests
    near = [path for path in tests if path.endswith(".py")]
    rest = [path for path in seconds if path.startswith(tests) and path not in near]
    by_time = functools.partial(sorted, key=lambda path: seconds.get(path, 0.0))
    return (*by_time(near), *by_time(rest))


class Times:
    """Adds up what the tests of each file take."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Takes a test, or what is set up for it."""
        self.seconds[report.nodeid.partition("::")[0]] += report.duration


@functools.cache
def importers() -> dict[str, list[str]]:
    """The files of tests that import a module, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                # What is imported may itself be a module.
                names = {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
            elif isinstance(node, ast.Import):
                names = {one.name for one in node.names}
            else:
                continue
            for name in names:
                files = found.setdefault(name, [])
                if str(path.relative_to(ROOT)) not in files:
                    files.append(str(path.relative_to(ROOT)))
    return found


def sample(count: int, seed: int, only: list[str]) -> list[Work]:
    """As many mutants of every entry of `TESTS` as of any other, as far as there are."""
    rng = random.Random(seed)
    pools = every_mutant(only)
    for pool in pools:
        rng.shuffle(pool)
    chosen: list[Work] = []
    while len(chosen) < count and any(pools):
        chosen += [pool.pop() for pool in pools if pool]
    return chosen[:count]


def survivors(path: Path, only: list[str]) -> list[Work]:
    """The mutants that survived in an output, as far as they are still made."""
    wanted = {key(entry) for entry in read(path) if entry["outcome"] == "survived"}
    files = {name for name, *_ in wanted}
    every = [work for pool in every_mutant(only) for work in pool if work[0].file in files]
    found = [work for work in every if key(work[0].name) in wanted]
    print(f"{len(wanted)} survived in {path}; {len(found)} of them are still made.")
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """The entries of an output; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key(entry: dict[str, Any]) -> tuple[Any, ...]:
    """What names a mutant."""
    return tuple(entry[name] for name in ("file", "line", "column", "was", "becomes"))


def run_tests(
    tree: Path, tests: tuple[str, ...], limit: int, interpreted: bool
) -> tuple[str, float]:
    """`killed`, `survived` or `timeout`, and the seconds of processor time that it took.

    The limit is of processor time, so that a busy machine kills no mutant. SAID holds what was
    said.
    """
    started = time.monotonic()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        sys.path[:0] = [str(tree), str(tree / "tests")]
        os.chdir(tree)
        said = os.open(tree.parent / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        import numba
        import pytest

        if not interpreted:
            del os.environ["NUMBA_DISABLE_JIT"]
            numba.config.DISABLE_JIT = 0
        # Stopped tests leave no bytecode, so none of another mutant is read.
        sys.dont_write_bytecode = True
        plain = ("-q", "-x", "-p", "no:cacheprovider", "-W", "ignore", "-o", "timeout=0")
        times = Times()
        arguments = [*plain, "--all-cases", "-m", "not slow and not faults", *tests]
        code = int(pytest.main(arguments, plugins=[times]))
        (tree.parent / TIMES).write_text(json.dumps(times.seconds))
        os._exit(code)
    # What sleeps for ever takes no processor time.
    while time.monotonic() - started < ASLEEP * limit:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
            # At its limit the kernel sends the one signal or the other.
            if code in (-signal.SIGXCPU, -signal.SIGKILL):
                return "timeout", seconds
            return "killed" if code else "survived", seconds
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout", float(limit)


def told(entry: dict[str, Any]) -> str:
    """An entry as a line."""
    where = f"{entry['file']}:{entry['line']}"
    return f"{entry['outcome']:8} {where}: {entry['was']} -> {entry['becomes']}"


def summarise(done: list[dict[str, Any]]) -> None:
    """Prints every survivor and the kill rate; a timeout counts as killed."""
    for entry in done:
        if entry["outcome"] == "survived":
            print(told(entry))
    outcomes = Counter(entry["outcome"] for entry in done)
    share = 1 - outcomes["survived"] / max(len(done), 1)
    print(f"{len(done)} mutants: {dict(outcomes)}; {share:.1%} killed")


def main() -> None:
    """Runs the sample, or its part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--shard", type=part_of, metavar="K/N", default=(1, 1), help="a part")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the survivors of that output")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"), help="JSON lines")
    parser.add_argument("--only", nargs="*", default=[], help=f"of {', '.join((*TESTS, *ROOMS))}")
    options = parser.parse_args()
    if options.again and options.again.resolve() == options.output.resolve():
        parser.error("--again and --output: expected two files, got one.")
    os.environ.update(NUMBA_DISABLE_JIT="1", OMP_NUM_THREADS="1")
    for name in WARM:
        importlib.import_module(name)
    known = {key(entry) for entry in read(options.output)}
    if options.again:
        chosen = survivors(options.again, options.only)
    else:
        chosen = sample(options.count, options.seed, options.only)
    number, shards = options.shard
    # By tests, of plain files by room: in another order they take as long.
    limits: dict[frozenset[str], tuple[int, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, options.output.open("a") as output:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for broken, tests in chosen[number - 1 :: shards]:
            entry: dict[str, Any] = {**broken.name}
            if key(entry) in known:
                continue
            interpreted = not is_plain(broken.file)
            room = frozenset(tests if interpreted else room_of(broken.file))
            if room not in limits:
                outcome, seconds = run_tests(tree, tests, 1800, interpreted)
                if outcome != "survived":
                    print((Path(folder) / SAID).read_text()[-4000:])
                    sys.exit(f"{' '.join(tests)} fails without any mutant ({outcome}), see above.")
                took = json.loads((Path(folder) / TIMES).read_text())
                limits[room] = 20 + int(3 * seconds), took
            limit, took = limits[room]
            path = tree / broken.file
            before = path.read_text()
            path.write_text(broken.source)
            ordered = quickest_first(broken.file, tests, took)
            outcome, seconds = run_tests(tree, ordered, limit, interpreted)
            path.write_text(before)
            entry |= {"outcome": outcome, "seconds": round(seconds, 1)}
            output.write(json.dumps(entry) + "\n")
            output.flush()
            print(told(entry), flush=True)
    summarise(read(options.output))


if __name__ == "__main__":
    main()
