"""How long a benchmark takes of which 1 % of the searches are new, beside one that is all new.

Runs 9,900 searches of 1,000 iterations (five searchers, ten workloads, 198 seeds) with a store of
its own, then the same benchmark with two seeds more: 100 searches to make. Each is the command
`mapspace benchmark`, page and MLflow included, from its start to its end; with `--python` the
second is `ms.benchmark` in a Python of its own, without either. A line of JSON on standard output:

    python tests/benchmarks/bench_second_run.py --folder FOLDER

A second call with the same folder finds the first run there, and takes a copy of its store.

The share depends on how long a search is, and those take some 10 ms of a processor. `--preset NAME`
takes workloads, searchers and budgets of a shipped benchmark, with so many seeds that there are
about 10,000 searches (9,600 of `table1-grid`), a hundredth of them new:

    python tests/benchmarks/bench_second_run.py --folder ANOTHER --preset table1-grid
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mapspace.strict_yaml import load_yaml
from orchestrator.comparison.results_files import load
from orchestrator.runs.experiments import find_experiment

WORKLOADS = (
    *("resnet-conv3", "resnet-conv4", "inception-conv2", "vgg-conv2", "alexnet-conv2"),
    *("alexnet-conv4", "mttkrp-0", "mttkrp-1", "resnet50-conv2_1_3", "resnet50-conv4_2_1"),
)
METHODS = ("random", "annealing", "genetic", "structured", "marvel")
SECONDS = "seconds.json"
# Between two looks at the processes of a run; what one does after the last look is not counted.
LOOK_SECONDS = 0.1


def experiment(preset: str | None, iterations: int) -> dict[str, Any]:
    """The benchmark, but for its seeds."""
    if preset is not None:
        return {**load_yaml(find_experiment(preset)), "name": "second-run"}
    return {
        "kind": "benchmark",
        "name": "second-run",
        "workloads": list(WORKLOADS),
        "searchers": {name: {} for name in METHODS},
        "iterations": iterations,
    }


def seeds_of(data: dict[str, Any], searches: int, share: float) -> tuple[int, int]:
    """Seeds of the second run, and how many of them are new, one at least: exactly that share."""
    seeds = searches / (len(data["workloads"]) * len(data["searchers"]))
    new = max(1, round(share * seeds))
    return round(new / share), new


def run(data: dict[str, Any], store: Path, output: Path, how: str = "") -> tuple[float, float]:
    """Runs the command, or in Python, or under a profiler.

    Returns:
        The seconds that it took, and those of processors that it and all processes below it took,
        Ray's included.
    """
    file = output.parent / f"{output.name}.yaml"
    file.write_text(json.dumps(data))
    command = [sys.executable, "-m", "orchestrator", "benchmark", str(file), "--output"]
    if how == "profile":
        command[1:1] = ["-m", "cProfile", "-o", f"{output}.profile"]
    elif how == "python":
        call = "import sys, mapspace as ms; ms.benchmark(sys.argv[1], sys.argv[3])"
        command[1:4] = ["-c", call]
    # As in what pip has installed, modules are compiled once and not by every command.
    others = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    started, waited = time.monotonic(), _waited_for()
    running = subprocess.Popen(
        [*command, str(output)],
        env={**others, "MAPSPACE_STORE": str(store)},
        stdout=subprocess.DEVNULL,
    )
    # Ray does not wait for its processes, so that nobody else counts what these took.
    seen: dict[tuple[int, float], float] = {}
    while running.poll() is None:
        with suppress(psutil.Error):
            root = psutil.Process(running.pid)
            for process in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    seen[process.pid, process.create_time()] = times.user + times.system
        time.sleep(LOOK_SECONDS)
    took = time.monotonic() - started
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    return took, max(sum(seen.values()), _waited_for() - waited)


def measured(folder: Path, data: dict[str, Any], seeds: int, new: int, how: str) -> dict[str, Any]:
    """Seconds of both runs, also of processors, and whether what both have is the same bit for bit.

    Args:
        folder: of both runs and the store.
        data: the benchmark, but for its seeds.
        seeds: of the second run.
        new: those of them that the first has not.
        how: the second is run; see `run`.
    """
    first, store = folder / "first", folder / "store"
    if not (folder / SECONDS).exists():
        found = run({**data, "seeds": seeds - new}, store, first)
        (folder / SECONDS).write_text(json.dumps(found))
    alone, processor_alone = json.loads((folder / SECONDS).read_text())
    second, copy = folder / "second", folder / "copy"
    for old in (second, copy):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(store, copy)
    again, processor_again = run({**data, "seeds": seeds}, copy, second, how)
    before, after = ({_key(run): run for run in load(place).runs} for place in (first, second))
    equal = all(
        np.array_equal(getattr(before[key], name), getattr(after[key], name))
        for key in before
        for name in ("evaluation", "time", "loss", "counted", "best_code", "best_loss", "seconds")
    )
    # The first run had fewer searches than the second one has.
    more = len(after) / len(before)
    return {
        "searches": len(after),
        "new": len(after) - len(before),
        "first_s": round(alone, 1),
        "first_processor_s": round(processor_alone, 1),
        "second_s": round(again, 2),
        "second_processor_s": round(processor_again, 2),
        "share": round(again / (alone * more), 4),
        "share_of_processor_s": round(processor_again / (processor_alone * more), 4),
        "bit_identical": equal,
    }


def _waited_for() -> float:
    """Processor seconds of processes that this one has started, and that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _key(run: Any) -> tuple[str, str, int]:
    return run.searcher, run.workload, run.seed


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=10_000, help="of the second run, about")
    parser.add_argument("--new", type=float, default=0.01, help="share of them that is new")
    parser.add_argument("--preset", help="a shipped benchmark; else many short searches")
    parser.add_argument("--iterations", type=int, default=1000, help="of a search, without preset")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--python", dest="how", action="store_const", const="python", default="")
    parser.add_argument("--profile", dest="how", action="store_const", const="profile")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        data = experiment(given.preset, given.iterations)
        seeds, new = seeds_of(data, given.searches, given.new)
        figures = measured(folder, data, seeds, new, given.how)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
