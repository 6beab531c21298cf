"""Searches of a benchmark that were made before: read from the store, and kept there.

A run is taken for the very same search alone: workload as it was written, method with every
hyperparameter and its version, seed, budget. What is measured in seconds belongs to a processor.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from mapspace.bounded_reading import read_json
from mapspace.errors import DataError, MapspaceError
from mapspace.storage import Place, file_sizes, write_atomically
from mapspace.strict_yaml import StrictModel, validate
from mapspace.version import __version__
from orchestrator.benchmark.warm_starts import WARM_FILE
from orchestrator.comparison.results import ROUNDING, Bounds, Run
from orchestrator.store.address import Question, problem, surrogate_digest
from orchestrator.store.answers import keep_answers
from orchestrator.store.canonical import digest_of, json_text
from orchestrator.store.rows import Number, Row, Whole, finite, row_of

if TYPE_CHECKING:
    from orchestrator.benchmark.config import Plan, SearcherEntry
    from orchestrator.store.folder import Store

# What a run has read at its beginning.
KNOWN_FILE = "known.json"

# Stands for the seed where a question is written without one.
NO_SEED = -1

Search = tuple[str, str, int]
"""Label of the searcher, name of the workload, seed."""


class _Payload(StrictModel):
    """What a row of a run holds; an infinite loss is null."""

    best_code: tuple[Whole, ...]
    true_queries: Whole
    surrogate_queries: Whole
    evaluation: tuple[Whole, ...]
    time: tuple[Number, ...]
    loss: tuple[Number | None, ...]
    counted: tuple[Whole, ...]
    # Rows of before they were taken hold neither.
    processor_seconds: Number | None = None
    wall_seconds: Number | None = None


class _Noted(StrictModel):
    """What a run has read at its beginning."""

    rows: tuple[tuple[Search, Row], ...]


class Questions:
    """What the searches of a benchmark ask of the store."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._iterations: dict[tuple[str, str], int | None] = {}
        self._problems = {
            name: problem(found, plan.accelerator) for name, found in plan.workloads.items()
        }
        self._spaces = {name: plan.space(name) for name in plan.workloads}
        self._methods: dict[tuple[str, str], dict[str, Any]] = {}
        self._texts: dict[tuple[str, str], tuple[str, str, str]] = {}
        model = plan.model()
        self.model = model
        benchmark = plan.benchmark
        package = _package("model", benchmark.model)
        self._common: dict[str, Any] = {
            "kind": "run",
            "objective": benchmark.objective,
            "model": [model.name, model.version, package, dict(benchmark.measurement)],
            "query_latency": benchmark.query_latency,
            # Seconds are those of a processor.
            "processor": processor()
            if benchmark.seconds is not None or plan.cost_model.measured
            else None,
        }
        if benchmark.clock == "processor":
            # By the wall they are those of before there was a choice.
            self._common["clock"] = benchmark.clock
        if benchmark.host == "pool":
            # Answers come in the order in which so many are ready.
            self._common |= {"workers": benchmark.workers, "query_seconds": benchmark.query_seconds}

    def of(self, search: Search) -> Question:
        """The question of a search."""
        label, workload, seed = search
        if (label, workload) not in self._methods:
            entry = self.plan.entry(label)
            method = _method(self.plan, entry, workload)
            begins = self.plan.begins_of(entry, workload)
            if begins:
                method["begins"] = [list(code) for code in begins]
            self._methods[label, workload] = method
            self._iterations[label, workload] = self.plan.benchmark.iterations_in(
                self._spaces[workload], entry
            )
        content = {
            **self._common,
            "problem": self._problems[workload],
            "method": self._methods[label, workload],
            "seed": seed,
        }
        limits = {
            "iterations": self._iterations[label, workload],
            "seconds": self.plan.benchmark.seconds,
        }
        return Question(content, limits)

    def keys_of(self, search: Search) -> tuple[str, str]:
        """The question and the address of a search, as `of` has them.

        Of thousands of seeds nothing but the seed differs, and all of it is written once.
        """
        label, workload, seed = search
        if (label, workload) not in self._texts:
            question = self.of((label, workload, NO_SEED))
            before, _, after = json_text(question.content).partition(f'"seed":{NO_SEED}')
            self._texts[label, workload] = f'{before}"seed":', after, json_text(question.limits)
        before, after, limits = self._texts[label, workload]
        content = f"{before}{seed}{after}"
        return digest_of(content)[:32], digest_of(f"[{content},{limits}]")[:32]


def searches_of(plan: Plan) -> Iterator[Search]:
    """All searches of a benchmark."""
    for workload in plan.workloads:
        for entry in plan.benchmark.searchers:
            for seed in plan.benchmark.seeds_of(entry):
                yield entry.label, workload, seed


def known_runs(plan: Plan, states: Place, store: Store | None) -> list[Run]:
    """The runs of a benchmark that the store had when it began.

    Args:
        plan: the benchmark.
        states: the folder where its searches stand; what was read at the beginning is noted there,
            so that a run that is continued has the same searches left.
        store: where answers are; None: nowhere.

    Raises:
        DataError: what was noted is damaged.
    """
    file = states / KNOWN_FILE
    if file.exists():
        noted = read_json(file, DataError)
        rows = validate(_Noted, noted, str(file), DataError).rows
        return [_run(search, row) for search, row in rows]
    if store is None or file_sizes(states).keys() - {WARM_FILE}:
        return []
    found: list[tuple[Search, Row]] = []
    runs = []
    with _no_collection():
        for search, row in _rows(plan, store):
            try:
                runs.append(_run(search, row))
                found.append((search, row))
            except MapspaceError as error:
                store.tell(f"{error} It is searched anew.")
        if found:
            # As `_Noted` would write them, which makes all of them models once more.
            noted = (f"[{json.dumps(search)}, {row.model_dump_json()}]" for search, row in found)
            write_atomically(file, f'{{"rows": [{", ".join(noted)}]}}'.encode())
    return runs


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for rubbish meanwhile: it would go through all that is made, again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _rows(plan: Plan, store: Store) -> Iterator[tuple[Search, Row]]:
    """The rows that answer searches of a benchmark."""
    questions = Questions(plan)
    asked = {search: questions.keys_of(search) for search in searches_of(plan)}
    rows: dict[str, list[Row]] = {}
    for row in store.rows({question for question, _ in asked.values()}):
        rows.setdefault(row.address, []).append(row)
    written = {name: workload.hash for name, workload in plan.workloads.items()}
    for search, (_, address) in asked.items():
        fit = [row for row in rows.get(address, ()) if row.workload_hash == written[search[1]]]
        if fit:
            # Of several equal searches the first that was made.
            yield search, min(fit, key=lambda row: (row.stored, row.id))


def keep_runs(
    plan: Plan, runs: Sequence[Run], store: Store, bounds: Mapping[str, Bounds] | None = None
) -> None:
    """Keeps runs that did not fail.

    Args:
        plan: the benchmark.
        runs: of it.
        store: where to.
        bounds: what is known of the least value, by workload.
    """
    questions, known = Questions(plan), bounds or {}
    rows = [_row(questions, run, known.get(run.workload)) for run in runs if not run.failure]
    keep_answers(store, rows)


def _run(search: Search, row: Row) -> Run:
    try:
        # A third of the time that reading the text and then what it says takes.
        payload = _Payload.model_validate_json(row.payload)
    except ValidationError:
        payload = validate(_Payload, row.content(), f"row {row.name}", DataError)
    label, workload, seed = search
    return Run(
        searcher=label,
        workload=workload,
        seed=seed,
        best_loss=math.inf if row.value is None else row.value,
        best_code=payload.best_code,
        iterations=row.iterations,
        true_queries=payload.true_queries,
        surrogate_queries=payload.surrogate_queries,
        seconds=row.seconds,
        evaluation=np.array(payload.evaluation, np.int64),
        time=np.array(payload.time),
        loss=np.array([math.inf if loss is None else loss for loss in payload.loss]),
        counted=np.array(payload.counted, np.int64),
        processor_seconds=payload.processor_seconds,
        wall_seconds=payload.wall_seconds,
    )


def _row(questions: Questions, run: Run, bounds: Bounds | None) -> Row:
    plan = questions.plan
    least = bounds.reference if bounds is not None and bounds.reference > 0 else math.nan
    gap = run.best_loss / least - 1
    if abs(gap) <= ROUNDING:
        gap = 0.0
    question = questions.of((run.searcher, run.workload, run.seed))
    assert run.counted is not None  # runs of old files alone have none
    payload = {
        "best_code": [int(part) for part in run.best_code],
        "true_queries": run.true_queries,
        "surrogate_queries": run.surrogate_queries,
        "evaluation": run.evaluation.tolist(),
        "time": run.time.tolist(),
        "loss": [finite(loss) for loss in run.loss.tolist()],
        "counted": run.counted.tolist(),
        "processor_seconds": run.processor_seconds,
        "wall_seconds": run.wall_seconds,
    }
    method = question.content["method"]
    return row_of(
        "run",
        question,
        plan.workloads[run.workload],
        plan.accelerator,
        questions.model,
        objective=plan.benchmark.objective,
        method=method["name"],
        parameters=json.dumps(method["parameters"], sort_keys=True),
        seed=run.seed,
        budget_seconds=question.limits["seconds"],
        budget_iterations=question.limits["iterations"],
        value=finite(run.best_loss),
        proven=bounds is not None and bounds.proven and gap == 0,
        lower_bound=finite(least),
        gap=finite(gap),
        iterations=run.iterations,
        seconds=run.seconds,
        payload=json.dumps(payload),
    )


def _method(plan: Plan, entry: SearcherEntry, workload: str) -> dict[str, Any]:
    """A method with all that it was told, as JSON types."""
    import searchers

    chosen = searchers.searcher_class(entry.name).OPTIONS.read(
        entry.name, entry.preset, entry.parameters
    )
    family = plan.workloads[workload].family
    method: dict[str, Any] = {
        "name": entry.name,
        "parameters": chosen.resolved(),
        # Says nothing any more; rows of before have it, and are still read.
        "objective_of_preset": None,
        "family": family,
        "package": _package("searcher", entry.name),
    }
    if "predictor" in searchers.searcher_class(entry.name).USES:
        method["surrogate"] = _surrogate(plan.surrogates.get(family))
    return method


def _package(what: str, name: str) -> str:
    """What a searcher or a cost model came with, and its version."""
    import searchers
    from costmodel.models import COST_MODELS

    table: Any = searchers.SEARCHERS if what == "searcher" else COST_MODELS
    return table.package(name) or f"mapspace {__version__}"


_surrogate = cache(surrogate_digest)


@cache
def processor() -> str:
    """16 hexadecimal digits that tell one kind of processor from another, without naming it."""
    name = platform.processor()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = described.read_text(errors="replace").splitlines()
        name += next((line for line in lines if line.startswith("model name")), "")
    return hashlib.sha256(f"{platform.machine()} {name}".encode()).hexdigest()[:16]
