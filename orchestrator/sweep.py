"""`mapspace sweep`: the proven best mapping of every accelerator x workload, on Ray tasks.

The run folder holds `sweep.json` (what is swept), `proofs/` (each proof from the moment that it is
finished), then `results.parquet`, `architectures.csv`, `pareto.png` and `sweep.html`. The same
command again proves what is missing only, also after the experiment's file was changed.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from costmodel.errors import ConfigError, MapspaceError
from orchestrator.lock import claimed
from orchestrator.places import RUNS, local_copy, publish
from orchestrator.runtime import code_version, completed, ray_runtime
from orchestrator.sweep_config import load_sweep
from orchestrator.sweep_plan import SweepPlan, prepare_sweep
from orchestrator.sweep_proofs import (
    PROOFS_FOLDER,
    Problem,
    Proof,
    chunks_of,
    distinct,
    prove_chunk,
    read_proofs,
)
from orchestrator.sweep_results import (
    ARCHITECTURES_FILE,
    RESULTS_FILE,
    SweepResults,
    collect,
    problems_of,
)
from surrogate.storage import Place, file_sizes, make_folder, place, write_atomically

SWEEP_FILE = "sweep.json"
# So that every core has work until close to the end, however few points there are.
TASKS_PER_CORE = 8

Chunk = Sequence[Problem]
Execute = Callable[[Callable[[Chunk], list[Proof]], Sequence[Chunk]], Iterator[list[Proof]]]


@dataclass(frozen=True)
class SweepAnswer:
    """What a sweep leaves for a person: its folder, its page and the summary for a terminal."""

    folder: Place
    page: Path
    text: str


def run_sweep(
    source: Path | str,
    output: Place | str | None = None,
    *,
    tracking_uri: str | None = None,
    address: str | None = None,
) -> SweepAnswer:
    """Runs or continues a sweep, draws it and logs it to MLflow.

    Args:
        source: the experiment's YAML file.
        output: the run folder, a path or a URI; None: runs/NAME.
        tracking_uri: MLflow; None: a SQLite file in the run folder or its local copy.
        address: Ray cluster; its nodes must share the folder, or have the URI's credentials.

    Raises:
        ConfigError: the experiment is wrong, or the folder holds another one, or another run
            writes to it.
        MapspaceError: MLflow cannot be reached.
    """
    from orchestrator.sweep_report import FIGURE_FILE, PAGE_FILE, text_summary, write_sweep_report
    from orchestrator.sweep_tracking import log_sweep
    from orchestrator.tracking import TRACKING_FILE, default_uri

    plan = prepare_sweep(load_sweep(source), str(source))
    folder = place(output or RUNS / plan.sweep.name)

    def on_ray(
        function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk]
    ) -> Iterator[list[Proof]]:
        with ray_runtime(address):
            yield from prove_on_ray(function, chunks)

    results = sweep(plan, folder, execute=on_ray, console=Console(stderr=True))
    files = (RESULTS_FILE, ARCHITECTURES_FILE, TRACKING_FILE)
    copy = local_copy(folder, lambda name: name in files)
    page = write_sweep_report(results, copy)
    publish(copy, [FIGURE_FILE, PAGE_FILE], folder)
    log_sweep(results, copy, tracking_uri or default_uri(copy))
    publish(copy, [TRACKING_FILE], folder)
    return SweepAnswer(folder, page, text_summary(results))


def prove_on_ray(
    function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk], *, retries: int = 3
) -> Iterator[list[Proof]]:
    """Applies a function to chunks on Ray tasks of one core; answers come as they are ready.

    Raises:
        MapspaceError: workers keep dying on a chunk.
    """
    for _, proofs in completed(function, chunks, retries=retries):
        if proofs is None:
            raise MapspaceError(
                f"A worker process died {retries + 1} times on the same points (out of memory?). "
                "The same command tries them again."
            )
        yield proofs


def sweep(
    plan: SweepPlan, folder: Place, *, execute: Execute, console: Console | None = None
) -> SweepResults:
    """Proves what is missing in a run folder.

    Args:
        plan: what to sweep.
        folder: where, a path or a URI; created if need be.
        execute: applies a function to chunks of problems, in any order: `prove_on_ray`, or
            `map` here.
        console: where progress is shown.

    Returns:
        The results, which then also lie in the folder.

    Raises:
        ConfigError: the folder holds another sweep, or another run writes to it.
    """
    with claimed(folder) as claim:
        proofs = _prove(plan, folder, execute, console)
        claim.check()
        results = collect(plan, proofs)
        results.save(folder)
    return results


def _prove(
    plan: SweepPlan, folder: Place, execute: Execute, console: Console | None
) -> dict[str, Proof]:
    """All proofs of a sweep by key: those that are there, and then the missing ones."""
    console = console or Console(stderr=True, quiet=True)
    proofs_folder = _claim(plan, folder)
    problems = distinct(problems_of(plan))
    limit = plan.sweep.seconds_per_point
    there = read_proofs(_proof_files(proofs_folder))
    proofs = {key: proof for key, proof in there.items() if key in problems}
    missing = [
        problem
        for key, problem in problems.items()
        if key not in proofs or not proofs[key].answers(limit)
    ]
    if missing:
        console.print(_begin_line(plan, len(problems), len(missing)), soft_wrap=True)
        from costmodel.exact.prover import load_compiled

        # Workers then find everything compiled, instead of each compiling it.
        load_compiled()
        tasks = TASKS_PER_CORE * (os.cpu_count() or 1)
        chunks = chunks_of(missing, plan.sweep.points_per_task, tasks=tasks)
        task = functools.partial(prove_chunk, proofs_folder, limit)
        with _progress(console) as progress:
            done = len(problems) - len(missing)
            bar = progress.add_task(plan.sweep.name, total=len(problems), completed=done, rate="")
            started = time.monotonic()
            finished = 0
            for answers in execute(task, chunks):
                proofs.update((proof.key, proof) for proof in answers)
                finished += len(answers)
                rate = f"{finished / (time.monotonic() - started):,.1f} points/s"
                progress.update(bar, advance=len(answers), rate=rate)
    return proofs


def _proof_files(folder: Place) -> list[Place]:
    """Files of proofs; on a disk an older one first, so that of two equal ones the later counts."""
    if isinstance(folder, Path):
        files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [*files]
    return [folder / name for name in sorted(file_sizes(folder)) if name.endswith(".jsonl")]


def _claim(plan: SweepPlan, folder: Place) -> Place:
    """Notes in the folder what is swept; the folder of the proofs.

    Raises:
        ConfigError: the folder holds another sweep.
    """
    path = folder / SWEEP_FILE
    if path.exists():
        try:
            name = json.loads(path.read_text())["experiment"]["name"]
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: is damaged; remove it to continue the sweep.") from error
        if name != plan.sweep.name:
            raise ConfigError(
                f"{folder}: expected the sweep {plan.sweep.name!r}, found {name!r}; choose "
                "another --output."
            )
    proofs = folder / PROOFS_FOLDER
    content = {"experiment": plan.sweep.model_dump(mode="json"), "provenance": code_version()}
    make_folder(proofs)
    try:
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}.") from error
    return proofs.resolve()


def _begin_line(plan: SweepPlan, problems: int, missing: int) -> str:
    points = len(plan.architectures) * len(plan.layers)
    known = f", {problems - missing:,} finished before" if missing < problems else ""
    return (
        f"{plan.sweep.name}: {len(plan.architectures):,} accelerators x {len(plan.layers):,} "
        f"workloads = {points:,} points, {problems:,} distinct{known}"
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("points"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    )
