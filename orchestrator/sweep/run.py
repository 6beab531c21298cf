"""`mapspace sweep`: the proven best mapping of every accelerator x workload, on Ray tasks.

The run folder holds `sweep.json` (what is swept), `proofs/` (each proof from the moment that it is
finished), then `results.parquet`, `architectures.csv`, `pareto.png`, `front.jsonl` and
`sweep.html`. The same command again proves what is missing only, also after the experiment's file
was changed.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from mapspace.storage import Place, file_sizes, make_folder
from orchestrator.runs.limits import Limits
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record, digest
from orchestrator.runs.run_folder import Execute, Experiment
from orchestrator.store.folder import Store
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import SweepPlan, prepare_sweep
from orchestrator.sweep.proofs import (
    PROOFS_FOLDER,
    Problem,
    Proof,
    chunks_of,
    distinct,
    prove_chunk,
    read_proof_files,
    stored_proofs,
    write_proofs,
)
from orchestrator.sweep.report import (
    FIGURE_FILE,
    PAGE_FILE,
    RECORDS_FILE,
    front_table,
    text_summary,
    write_sweep_report,
)
from orchestrator.sweep.results import (
    ARCHITECTURES_FILE,
    RESULTS_FILE,
    SweepResults,
    collect,
    problems_of,
)

# Proofs of the store, in the folder of proofs.
STORED_FILE = "stored.jsonl"
# So that every core has work until close to the end, however few points there are.
TASKS_PER_CORE = 8

Chunk = Sequence[Problem]


class SweepExperiment(Experiment[SweepPlan, SweepResults]):
    """A sweep in its run folder."""

    command = "sweep"
    words = "a sweep"
    unit = "points"
    config = Sweep
    file = "sweep.json"
    page = PAGE_FILE
    needed = (RESULTS_FILE, ARCHITECTURES_FILE)
    tracked = True
    quick: ClassVar = {
        "kind": "sweep",
        "name": "quick",
        "grid": {"L2.fanout": [4, 8]},
        "workloads": ["gemm:M=4,N=4,K=4"],
    }

    @classmethod
    def prepare(cls, config: Sweep, where: str) -> SweepPlan:
        """Looks up every name of a sweep and builds its accelerators."""
        return prepare_sweep(config, where)

    @property
    def settings(self) -> Sweep:
        """As the file has it."""
        return self.plan.sweep

    def work(self, folder: Place, claim: Claim) -> SweepResults:
        """Proves what is missing."""
        make_folder(folder / PROOFS_FOLDER)
        results = collect(self.plan, self._proofs(folder / PROOFS_FOLDER, claim))
        claim.check()
        results.save(folder)
        return results

    def text(self, result: SweepResults, folder: Path) -> str:
        """The front."""
        return text_summary(result)

    def draw(self, result: SweepResults, folder: Path) -> None:
        """Writes the page, the figure and the front's mappings."""
        write_sweep_report(result, folder)

    def record(self, result: SweepResults, folder: Path) -> Record:
        """Counts and the best; area and objective of all accelerators and of the front as series.

        A thousand runs, one per point, would take minutes to log and nobody would open them.
        """
        header, rows = front_table(result)
        files = (RESULTS_FILE, ARCHITECTURES_FILE, FIGURE_FILE, PAGE_FILE, RECORDS_FILE)
        return Record(
            # Other results, such as those with more time for proofs, are another run.
            content=digest(folder / ARCHITECTURES_FILE),
            metrics=_metrics(result),
            files=tuple(folder / name for name in files if (folder / name).exists()),
            tables={
                "front.json": {name: [row[i] for row in rows] for i, name in enumerate(header)}
            },
        )

    def _proofs(self, folder: Place, claim: Claim) -> dict[str, Proof]:
        """All proofs by key: those that are there, and then the missing ones."""
        plan, limit = self.plan, self.plan.sweep.seconds_per_point
        problems = distinct(problems_of(plan))
        there = read_proof_files(proof_files(folder))
        proofs = {key: proof for key, proof in there.items() if key in problems}
        missing = [
            problem
            for key, problem in problems.items()
            if key not in proofs or not proofs[key].answers(limit)
        ]
        if missing and self.store is not None:
            known = list(stored_proofs(missing, limit, self.store))
            if known:
                # Of this run from now on, whatever becomes of the store.
                write_proofs(folder / STORED_FILE, known)
                self.say(f"{self.name}: {len(known):,} of them are in the store")
            proofs |= {proof.key: proof for proof in known}
            missing = [problem for problem in missing if problem.key not in proofs]
            self.taken += len(known)
        self.made += len(missing)
        if not missing:
            return proofs
        self.say(_begin_line(plan, len(problems), len(missing)))
        from costmodel.exact_any.choice import load_compiled

        # Workers then find everything compiled, instead of each compiling it.
        load_compiled()
        tasks = TASKS_PER_CORE * (os.cpu_count() or 1)
        for answers in self.spread(
            claim,
            functools.partial(prove_chunk, folder, limit, self.store),
            chunks_of(missing, plan.sweep.points_per_task, tasks=tasks),
            total=len(problems),
            done=len(problems) - len(missing),
            weight=len,
        ):
            proofs.update((proof.key, proof) for proof in answers)
        return proofs


def sweep(
    plan: SweepPlan,
    folder: Place,
    *,
    execute: Execute | None = None,
    store: Store | None = None,
    limits: Limits | None = None,
) -> SweepResults:
    """Proves what is missing in a run folder, as `Experiment.run` does."""
    limits = limits or Limits()
    return SweepExperiment(plan, execute=execute, store=store, limits=limits).run(folder)


def proof_files(folder: Place) -> list[Place]:
    """Files of proofs; on a disk an older one first, so that of two equal ones the later counts."""
    if isinstance(folder, Path):
        files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [*files]
    return [folder / name for name in sorted(file_sizes(folder)) if name.endswith(".jsonl")]


def _begin_line(plan: SweepPlan, problems: int, missing: int) -> str:
    points = len(plan.architectures) * len(plan.layers)
    known = f", {problems - missing:,} finished before" if missing < problems else ""
    return (
        f"{plan.sweep.name}: {len(plan.architectures):,} accelerators x {len(plan.layers):,} "
        f"workloads = {points:,} points, {problems:,} distinct{known}"
    )


def _metrics(results: SweepResults) -> Iterator[tuple[str, float, int]]:
    points, column, best = results.points, results.objective_column, results.best
    area = results.plan.sweep.area_column
    by_area = results.architectures.sort_values(area, kind="stable")
    yield "points", float(len(points)), 0
    yield "architectures", float(len(by_area)), 0
    yield "front_size", float(len(results.front)), 0
    for name, count in points["status"].value_counts().items():
        yield f"points_{name}", float(count), 0
    yield "proof_seconds", float(points["seconds"].sum()), 0
    yield "largest_gap", float(points["gap"].fillna(0).max()), 0
    yield f"best_{column}", math.nan if best is None else float(best[column]), 0
    for series, rows in (("architecture", by_area), ("front", results.front)):
        for name in (area, column):
            for step, value in enumerate(rows[name]):
                yield f"{series}_{name}", float(value), step
