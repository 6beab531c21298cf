"""`mapspace benchmark` of a Marvel study: every layer on every accelerator, on Ray tasks.

The run folder holds `study.json` (the study), `results/` (what each task has found, from the moment
that it is finished), then `rows.jsonl`: a row per layer and accelerator, in the experiment's order,
and `best.jsonl`: the best mappings as records. The same command again computes what is missing
only; equal layers are computed once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, file_sizes, make_folder, write_atomically
from orchestrator.marvel.config import MarvelStudy
from orchestrator.marvel.layer_task import row_head, study_task
from orchestrator.marvel.numbers import ROWS_FILE, STUDY_FILE, load_study
from orchestrator.marvel.plan import StudyPlan, Task, prepare_study
from orchestrator.marvel.report import PAGE_FILE, marvel_text, write_marvel_report
from orchestrator.marvel.row_models import checked_result
from orchestrator.marvel.rows import Result
from orchestrator.marvel.sections import sections
from orchestrator.report.document import Table
from orchestrator.runs.locations import local_view
from orchestrator.runs.lock import LOCK_FILE, Claim
from orchestrator.runs.mlflow_record import Record, digest
from orchestrator.runs.run_folder import Execute, Experiment

RESULTS_FOLDER = "results"
RECORDS_FILE = "best.jsonl"


class MarvelExperiment(Experiment[StudyPlan, list[Result]]):
    """A study in its run folder."""

    command = "benchmark"
    words = "a Marvel study"
    unit = "layers"
    config = MarvelStudy
    file = STUDY_FILE
    page = PAGE_FILE
    needed = (STUDY_FILE, ROWS_FILE)
    quick: ClassVar = {
        "kind": "marvel",
        "name": "quick",
        "workloads": ["cnn:N=1,K=4,C=4,P=3,Q=2,R=1,S=1"],
        "accelerators": ["eyeriss-168"],
    }

    @classmethod
    def prepare(cls, config: MarvelStudy, where: str) -> StudyPlan:
        """Looks up every name of a study."""
        return prepare_study(config, where)

    @property
    def settings(self) -> MarvelStudy:
        """As the file has it."""
        return self.plan.study

    def identity(self) -> dict[str, Any]:
        """The study on the outermost level, as folders of older versions have it."""
        there = super().identity()
        return {**there.pop("experiment"), **there}

    def begin(self, folder: Place) -> None:
        """Refuses a folder that holds anything but a study."""
        there = set(file_sizes(folder))
        if isinstance(folder, Path):
            there |= {path.name for path in folder.iterdir()}
        if self.file not in there and there - {LOCK_FILE}:
            raise ConfigError(f"{folder}: holds something else; choose another --output.")
        super().begin(folder)

    def work(self, folder: Place, claim: Claim) -> list[Result]:
        """Computes what is missing."""
        plan, results_folder = self.plan, folder / RESULTS_FOLDER
        make_folder(results_folder)
        tasks = {task.key: task for _, task in plan.rows}
        there = file_sizes(results_folder)
        results = {
            key: found
            for key in tasks
            if f"{key}.json" in there and (found := _read(results_folder / f"{key}.json"))
        }
        missing = [task for key, task in tasks.items() if key not in results]
        if missing:
            self.say(_begin_line(plan, len(tasks), len(results)))
        compute_one = functools.partial(_computed, results_folder)
        done = len(results)
        results.update(self.spread(claim, compute_one, missing, total=len(tasks), done=done))
        found_rows = [
            {**row_head(task, found.name, found.kind, found.networks), **results[task.key]}
            for found, task in plan.rows
        ]
        records = [record for row in found_rows for record in _records(row)]
        rows = [{key: row[key] for key in row if key != "records"} for row in found_rows]
        claim.check()
        best = "".join(f"{json.dumps(record)}\n" for record in records)
        write_atomically(folder / RECORDS_FILE, best.encode())
        content = "".join(f"{json.dumps(row)}\n" for row in rows)
        write_atomically(folder / ROWS_FILE, content.encode())
        return rows

    def text(self, result: list[Result], folder: Path) -> str:
        """The tables, without the long ones."""
        return marvel_text(folder)

    def draw(self, result: list[Result], folder: Path) -> None:
        """Writes the page, its figures and tables."""
        write_marvel_report(folder)

    def tables(self, result: list[Result], folder: Path) -> Sequence[Table]:
        """All of its page."""
        return [table for part in sections(load_study(folder)) for table in part.tables]

    def record(self, result: list[Result], folder: Path) -> Record:
        """Four series per accelerator, over its layers."""
        metrics, steps = list[tuple[str, float, int]](), dict[str, int]()
        for row in result:
            if row["failure"]:
                continue
            machine = row["accelerator"]
            step = steps[machine] = steps.get(machine, -1) + 1
            values = {
                "runtime_cycles": row["whole"]["runtime"],
                "energy": row["whole"]["energy"],
                "off_chip_cost": row["off_chip"]["cost"],
                "search_seconds": row["off_chip"]["seconds"] + row["on_chip"]["seconds"],
            }
            metrics += [(f"{machine}/{key}", value, step) for key, value in values.items()]
        rows = folder / ROWS_FILE
        return Record(digest(rows), metrics, files=(rows, folder / PAGE_FILE))

    @classmethod
    def report(cls, folder: Place, *, tracking_uri: str | None = None) -> Path:
        """Draws the page of what the folder holds."""
        with local_view(folder, cls.is_needed) as copy:
            return write_marvel_report(copy)


def study(plan: StudyPlan, folder: Place, *, execute: Execute | None = None) -> list[Result]:
    """Computes what is missing in a run folder, as `Experiment.run` does."""
    return MarvelExperiment(plan, execute=execute).run(folder)


def _computed(folder: Place, task: Task) -> tuple[str, Result]:
    return task.key, compute(folder, task)


def compute(folder: Place, task: Task) -> Result:
    """A task's result, which then also lies in the folder, so that it outlives the command."""
    path = folder / f"{task.key}.json"
    # Written by a worker that died before it could answer.
    result = _read(path) if path.exists() else None
    if result is None:
        result = study_task(task)
        write_atomically(path, f"{json.dumps(result)}\n".encode())
    return result


def _records(row: Result) -> list[Result]:
    """The records of a row's best mappings; results from before there were records have none."""
    head = {"layer": row["layer"], "machine": row["accelerator"]}
    best = {} if row["failure"] else row["on_chip"]["best"]
    return [
        {**head, "objective": name, "value": best[name]["value"], **record}
        for name, record in row.get("records", {}).items()
        if name in best
    ]


def _read(path: Place) -> Result | None:
    """A result; None where it is damaged or none."""
    try:
        return checked_result(read_json(path), str(path))
    except (ValueError, DataError):
        return None


def _begin_line(plan: StudyPlan, tasks: int, known: int) -> str:
    rows = len(plan.layers) * len(plan.accelerators)
    before = f", {known:,} finished before" if known else ""
    return (
        f"{plan.study.name}: {len(plan.layers):,} layers x {len(plan.accelerators):,} accelerators "
        f"= {rows:,} rows, {tasks:,} distinct{before}"
    )
