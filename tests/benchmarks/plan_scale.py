"""What a study takes on clusters of three sizes, from what a task costs here; one command.

First it measures: benchmarks whose trials are one search of 20 iterations, and tasks that do
nothing, on clusters of 1, 2, 4, 8 and 16 Ray nodes of one core on this machine. All of them share
its processors, so what counts is processor seconds per trial, of the driver, the head's store, the
nodes and the workers. Then it simulates 1,000 workers whose trials take what searches took in kept
results, one driver and one head's store that serve one message after another for what was
measured. At last it says at how many workers each of them is busy all the time, and what the study
and its training data cost.

    python tests/benchmarks/plan_scale.py                    # measures, then plans
    python tests/benchmarks/plan_scale.py --figures FILE     # plans by what was measured before
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests/support")]
os.environ["MAPSPACE_STORE"] = "off"

NODES = (1, 2, 4, 8, 16)
# Two sizes of each measurement: what a start takes is the same for both.
TRIALS, TASKS = (50, 350), (500, 3500)
IDLE_SECONDS = 10.0
SEEDS, PROBLEMS = 100, 8
KEPT = ("table1-iso-iteration", "study-iso-iteration")
CLUSTERS = (16, 64, 1000)
SEEDS_PER_TRIAL = (1, 2, 5, 10, 25, 50, 100)
DOLLARS_PER_PROCESSOR_HOUR = 0.05
# Between looks at the processes, and what their titles say.
LOOK_SECONDS = 0.5
KINDS = {"gcs_server": "head", "raylet/raylet": "node", "ray::": "worker"}
# Of 50,000 rows, on one processor, by `mapspace generate`.
ROWS, ROWS_PER_SHARD, SHARD_SECONDS = 10_000_000, 50_000, 0.39
# Starting a machine: assumed.
START_SECONDS = 60.0
# Writes of a state within a search, and what S3 promises to take per prefix.
STATE_SECONDS, PUTS_PER_SECOND = 5.0, 3500.0


class Meter:
    """Processor seconds of this process and those below it, also of those that have ended."""

    def __init__(self) -> None:
        self._used: dict[int, tuple[str, float]] = {}
        self._own = 0.0
        self._looking = threading.Lock()
        threading.Thread(target=self._look_on, daemon=True).start()

    def read(self) -> Counter[str]:
        """So far, by what the processes are; this one without what looking takes."""
        self._look()
        parts: Counter[str] = Counter(driver=time.process_time() - self._own)
        for kind, seconds in self._used.values():
            parts[kind] += seconds
        return parts

    @contextlib.contextmanager
    def added(self, into: Counter[str]) -> Iterator[None]:
        """Adds what the block uses."""
        before = self.read()
        yield
        into.update(self.read())
        into.subtract(before)

    def _look_on(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        from processes import descendants

        with self._looking:
            began = time.thread_time()
            for process, (_, title) in descendants(os.getpid()).items():
                with contextlib.suppress(OSError):
                    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
                    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                    kinds = (kind for name, kind in KINDS.items() if name in title)
                    self._used[process] = (next(kinds, "agents"), seconds)
            self._own += time.thread_time() - began


def nothing(item: int) -> int:
    """A task."""
    return item + 1


def run_trials(count: int, folder: Path) -> None:
    """A benchmark of so many trials of one short search each."""
    from mapspace.strict_yaml import validate
    from orchestrator.benchmark import run, tune_runner
    from orchestrator.benchmark.config import Benchmark, prepare

    tune_runner.are_few = lambda *_: False
    data = {
        "kind": "benchmark", "name": "trials", "workloads": ["gemm:M=64,N=64,K=64"],
        "searchers": {"random": {}}, "seeds": count, "seeds_per_trial": 1, "iterations": 20,
        "proof_seconds": 0,
    }  # fmt: skip
    plan = prepare(validate(Benchmark, data, "trials"), "trials")
    run.run_benchmark(plan, folder, progress=lambda line: None)


def measure(nodes: int) -> dict[str, Any]:
    """Processor seconds of each part per trial, per task, and per second of doing nothing."""
    from ray.cluster_utils import Cluster

    from mapspace.ray_start import ENVIRONMENT
    from orchestrator.runs.ray_runtime import completed, ray_runtime

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    found: dict[str, Any] = {"nodes": nodes}
    meter = Meter()
    with ray_runtime(str(cluster.address)), tempfile.TemporaryDirectory() as folder:
        # What is imported, compiled and started once is no part of it.
        list(completed(nothing, range(4 * nodes)))
        run_trials(4 * nodes, Path(folder) / "first")
        idle: Counter[str] = Counter()
        with meter.added(idle):
            time.sleep(IDLE_SECONDS)
        found["idle"] = {part: idle[part] / IDLE_SECONDS for part in idle}
        for name, sizes in (("task", TASKS), ("trial", TRIALS)):
            spent = []
            for size in sizes:
                one: Counter[str] = Counter()
                began = time.monotonic()
                with meter.added(one):
                    if name == "task":
                        assert len(list(completed(nothing, range(size)))) == size
                    else:
                        run_trials(size, Path(folder) / str(size))
                # What goes on without any work is no part of it.
                wall = time.monotonic() - began
                spent.append({part: one[part] - wall * found["idle"][part] for part in one})
            more = sizes[1] - sizes[0]
            found[name] = {part: (spent[1][part] - spent[0][part]) / more for part in spent[1]}
    cluster.shutdown()
    return found


def measure_mlflow() -> float:
    """Seconds that MLflow takes for the study's results, after the searches."""
    from bench_mlflow import made_up

    from orchestrator.benchmark.mlflow_log import log_results
    from orchestrator.comparison.results_files import save
    from orchestrator.runs.mlflow_client import default_uri

    with tempfile.TemporaryDirectory() as temporary:
        results = made_up(len(method_seconds()), PROBLEMS, SEEDS)
        save(results, Path(temporary))
        began = time.process_time()
        log_results(results, Path(temporary), default_uri(Path(temporary)))
        return time.process_time() - began


def method_seconds() -> dict[str, np.ndarray]:
    """Of every method the processor seconds that its searches of 5,000 queries took."""
    found: dict[str, list[float]] = defaultdict(list)
    for name in KEPT:
        text = (ROOT / "docs/results/kept" / name / "summary.json").read_text()
        mine: dict[str, list[float]] = defaultdict(list)
        for run in json.loads(text)["runs"]:
            mine[run["searcher"]].append(run["processor_seconds"])
        found |= {label: times for label, times in mine.items() if label not in found}
    return {label: np.array(times) for label, times in found.items()}


def plan_bytes() -> int:
    """What every node is sent of a benchmark."""
    from ray import cloudpickle

    from orchestrator.benchmark.config import Benchmark, prepare
    from orchestrator.runs.experiments import find_experiment, load_experiment

    config = load_experiment(find_experiment(KEPT[0]), Benchmark)
    return len(cloudpickle.dumps(prepare(config, config.name)))


class Simulated(NamedTuple):
    """A study on a cluster: its seconds, and the share of them that each part was busy."""

    seconds: float
    workers: float
    driver: float
    head: float


def simulate(workers: int, trials: np.ndarray, cost: dict[str, float]) -> Simulated:
    """A trial at a time on every worker; driver and head's store serve one after another.

    Args:
        workers: how many.
        trials: `[n]` seconds of each, in the order in which they are given out.
        cost: seconds of `driver`, `head` and `worker` per trial.
    """
    free = {"driver": 0.0, "head": 0.0}
    waiting = [(0.0, number) for number in range(workers)]
    end = 0.0
    for seconds in trials:
        now, worker = heapq.heappop(waiting)
        for part in free:
            now = free[part] = max(free[part], now) + cost[part]
        now += seconds + cost["worker"]
        heapq.heappush(waiting, (now, worker))
        end = max(end, now)
    busy = [len(trials) * cost[part] / end for part in free]
    return Simulated(end, float(trials.sum()) / workers / end, busy[0], busy[1])


def trials_of(seeds_per_trial: int) -> np.ndarray:
    """Seconds of the study's trials; methods take turns, as in a benchmark."""
    rng = np.random.default_rng(0)
    drawn = {label: rng.choice(times, (PROBLEMS, SEEDS))
             for label, times in method_seconds().items()}  # fmt: skip
    starts = np.arange(0, SEEDS, seeds_per_trial)
    return np.concatenate([np.add.reduceat(one, starts, axis=1).ravel() for one in drawn.values()])


def plan(figures: dict[str, Any]) -> str:
    """The tables, as text."""
    out = io.StringIO()
    say = partial(print, file=out)
    # Those of workers waver with their starts, which are not the same in both sizes; agents start
    # with them.
    parts = ("driver", "head", "node", "worker", "agents")
    for name, what in (
        ("trial", "trial"),
        ("task", "task"),
        ("idle", "second without work, of all nodes"),
    ):
        shown = parts if name == "idle" else parts[:-1]
        say(f"Processor ms per {what}:")
        say(f"{'nodes':>6}" + "".join(f"{part:>9}" for part in shown))
        for one in figures["clusters"]:
            row = "".join(f"{1000 * one[name].get(part, 0.0):9.2f}" for part in shown)
            say(f"{one['nodes']:6}{row}")
        say()
    fewest, largest = figures["clusters"][0], figures["clusters"][-1]
    cost = {
        part: max(0.0, float(np.median([one["trial"][part] for one in figures["clusters"]])))
        for part in ("driver", "head", "worker")
    }
    more = largest["idle"]["head"] - fewest["idle"]["head"]
    per_node = more / (largest["nodes"] - fewest["nodes"])
    methods = method_seconds()
    work = sum(float(times.mean()) for times in methods.values()) * SEEDS * PROBLEMS
    searches = SEEDS * PROBLEMS * len(methods)
    say(f"Study: {SEEDS} seeds x {len(methods)} methods x {PROBLEMS} problems = {searches:,} "
        f"searches of {work / searches:.2f} s = {work / 3600:.1f} processor hours")  # fmt: skip
    say(f"MLflow afterwards, from the driver: {figures['mlflow']:.0f} s")
    say(f"{'workers':>8}{'seeds':>6}{'trials':>8}{'minutes':>9}{'workers':>9}{'driver':>8}"
        f"{'head':>7}{'hours':>8}{'dollars':>9}")  # fmt: skip
    for workers in CLUSTERS:
        tried = [(simulate(workers, trials_of(n), cost), n) for n in SEEDS_PER_TRIAL]
        for found, seeds in (tried[0], min(tried)):
            seconds = found.seconds + START_SECONDS + figures["mlflow"]
            hours = workers * seconds / 3600
            say(f"{workers:8,}{seeds:6}{len(trials_of(seeds)):8,}{seconds / 60:9.1f}"
                f"{found.workers:9.0%}{found.driver:8.0%}{found.head:7.0%}{hours:8.1f}"
                f"{hours * DOLLARS_PER_PROCESSOR_HOUR:9.2f}")  # fmt: skip
    mean = work / searches
    say("\nBusy all the time at so many workers, with trials of one search:")
    say(f"  driver              {(mean + cost['worker']) / cost['driver']:10,.0f}")
    say(f"  head's store        {(mean + cost['worker']) / cost['head']:10,.0f}")
    say(f"  ... by idle nodes   {1 / max(per_node, 1e-9):10,.0f}")
    states = PUTS_PER_SECOND * min(STATE_SECONDS, mean)
    say(f"  S3, states each {STATE_SECONDS:g} s {states:10,.0f}")
    say(f"Ray's object store has the plan, once per node: {plan_bytes() / 1024:.0f} KiB")
    shards = ROWS // ROWS_PER_SHARD
    task = float(np.median([one["task"]["driver"] for one in figures["clusters"]]))
    seconds = shards * SHARD_SECONDS
    dollars = seconds / 3600 * DOLLARS_PER_PROCESSOR_HOUR
    say(
        f"\n{ROWS:,} rows: {shards} shards of {SHARD_SECONDS} s = {seconds:.0f} processor seconds, "
        f"{dollars:.4f} dollars; the driver {1000 * task:.2f} ms per shard, all the time at "
        f"{SHARD_SECONDS / task:,.0f} workers"
    )
    return out.getvalue()


def main() -> None:
    """Measures where nothing was, and plans."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, help="what was measured; written if not there")
    parser.add_argument("--nodes", type=int, help="measures this cluster alone")
    given = parser.parse_args()
    if given.nodes:
        print(json.dumps(measure(given.nodes)))
        return
    if given.figures and given.figures.exists():
        figures = json.loads(given.figures.read_text())
    else:
        clusters = []
        for nodes in NODES:
            command = [sys.executable, __file__, "--nodes", str(nodes)]
            said = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
            ).stdout
            clusters.append(json.loads(said.splitlines()[-1]))
            print(said.splitlines()[-1], file=sys.stderr, flush=True)
        figures = {"clusters": clusters, "mlflow": measure_mlflow()}
        if given.figures:
            given.figures.write_text(json.dumps(figures))
    print(plan(figures), end="")


if __name__ == "__main__":
    main()
