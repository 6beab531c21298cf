"""`mapspace benchmark` of a Marvel study: every layer on every accelerator, on Ray tasks.

The run folder holds `study.json` (the study), `results/` (what each task has found, from the moment
that it is finished), then `rows.jsonl`: a row per layer and accelerator, in the experiment's order.
The same command again computes what is missing only; equal layers are computed once.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from costmodel.errors import ConfigError, MapspaceError
from orchestrator.marvel.config import load_study
from orchestrator.marvel.layer import row_head, study_task
from orchestrator.marvel.plan import StudyPlan, Task, prepare_study
from orchestrator.marvel.values import Result
from orchestrator.runtime import code_version, completed, ray_runtime

RUNS = Path("runs")
STUDY_FILE = "study.json"
ROWS_FILE = "rows.jsonl"
RESULTS_FOLDER = "results"
RETRIES = 3

Execute = Callable[[Callable[[Task], Result], Sequence[Task]], Iterator[tuple[Task, Result]]]


@dataclass(frozen=True)
class StudyAnswer:
    """What a study leaves for a person: its folder, its page and the tables for a terminal."""

    folder: Path
    page: Path
    text: str


def run_marvel(
    source: Path | str,
    output: Path | None = None,
    *,
    resume: bool = True,
    tracking_uri: str | None = None,
) -> StudyAnswer:
    """Runs or continues a study and draws its page.

    Args:
        source: the experiment's YAML file.
        output: the run folder; None: runs/NAME.
        resume: continue what lies in the folder; else it must not exist.
        tracking_uri: MLflow, where the study is then logged, too; None: nowhere.

    Raises:
        ConfigError: the experiment is wrong, or the folder holds another one.
        MapspaceError: workers keep dying on a layer, or MLflow cannot be reached.

    The nodes of a Ray cluster (`RAY_ADDRESS`) must share the folder.
    """
    from orchestrator.marvel.report import marvel_text, write_marvel_report

    plan = prepare_study(load_study(source), str(source))
    folder = output or RUNS / plan.study.name
    if not resume and folder.exists():
        raise ConfigError(f"{folder}: exists already; drop --no-resume to continue it.")

    def on_ray(
        function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        with ray_runtime():
            yield from study_on_ray(function, tasks)

    rows = study(plan, folder, execute=on_ray, console=Console(stderr=True))
    page = write_marvel_report(folder)
    if tracking_uri is not None:
        from orchestrator.marvel.tracking import log_study

        log_study(plan.study, rows, folder, [folder / ROWS_FILE, page], tracking_uri)
    return StudyAnswer(folder, page, marvel_text(folder))


def is_study(folder: Path) -> bool:
    """Whether a folder is the run folder of a study."""
    return (folder / STUDY_FILE).is_file()


def study_on_ray(
    function: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Result]]:
    """Applies a function to tasks on Ray; answers come as they are ready.

    Raises:
        MapspaceError: workers keep dying on a task.
    """
    for task, result in completed(function, tasks, retries=RETRIES):
        if result is None:
            raise MapspaceError(
                f"A worker process died {RETRIES + 1} times on the same layer (out of memory?). "
                "The same command tries it again."
            )
        yield task, result


def study(
    plan: StudyPlan, folder: Path, *, execute: Execute, console: Console | None = None
) -> list[Result]:
    """Computes what is missing in a run folder.

    Args:
        plan: what to study.
        folder: where; created if need be.
        execute: applies a function to tasks, in any order: `study_on_ray`, or one here.
        console: where progress is shown.

    Returns:
        The rows, which then also lie in the folder.

    Raises:
        ConfigError: the folder holds something else.
    """
    console = console or Console(stderr=True, quiet=True)
    results_folder = _claim(plan, folder)
    tasks = {task.key: task for _, task in plan.rows}
    results = {key: _read(results_folder / f"{key}.json") for key in tasks}
    missing = [task for key, task in tasks.items() if results[key] is None]
    if missing:
        known = len(tasks) - len(missing)
        console.print(_begin_line(plan, len(tasks), known), soft_wrap=True)
        with _progress(console) as progress:
            bar = progress.add_task(plan.study.name, total=len(tasks), completed=known)
            for task, result in execute(functools.partial(compute, results_folder), missing):
                results[task.key] = result
                progress.advance(bar)
    rows = [
        {**row_head(task, found.name, found.kind, found.networks), **(results[task.key] or {})}
        for found, task in plan.rows
    ]
    _write(folder / ROWS_FILE, "".join(f"{json.dumps(row)}\n" for row in rows))
    return rows


def compute(folder: Path, task: Task) -> Result:
    """A task's result, which then also lies in the folder, so that it outlives the command."""
    path = folder / f"{task.key}.json"
    result = _read(path)  # written by a worker that died before it could answer
    if result is None:
        result = study_task(task)
        _write(path, json.dumps(result) + "\n")
    return result


def _read(path: Path) -> Result | None:
    """A result; None where there is none that can be read."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "failure" in found else None


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _claim(plan: StudyPlan, folder: Path) -> Path:
    """Notes in the folder what is studied; the folder of the results.

    Raises:
        ConfigError: the folder holds something else.
    """
    path = folder / STUDY_FILE
    if path.exists():
        try:
            name = json.loads(path.read_text(encoding="utf-8"))["name"]
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: is damaged; remove it to continue the study.") from error
        if name != plan.study.name:
            raise ConfigError(
                f"{folder}: expected the study {plan.study.name!r}, found {name!r}; choose "
                "another --output."
            )
    elif folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: holds something else; choose another --output.")
    results = folder / RESULTS_FOLDER
    content = {**plan.study.model_dump(mode="json"), "provenance": code_version()}
    try:
        results.mkdir(parents=True, exist_ok=True)
        _write(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}.") from error
    return results.resolve()


def _begin_line(plan: StudyPlan, tasks: int, known: int) -> str:
    rows = len(plan.layers) * len(plan.accelerators)
    before = f", {known:,} finished before" if known else ""
    return (
        f"{plan.study.name}: {len(plan.layers):,} layers x {len(plan.accelerators):,} accelerators "
        f"= {rows:,} rows, {tasks:,} distinct{before}"
    )


def _progress(console: Console) -> Progress:
    # Layers differ much in time, so the rate is that of all finished ones.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("layers"),
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=3600.0,
    )
