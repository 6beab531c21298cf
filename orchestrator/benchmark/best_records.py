"""The best mapping of every method on every problem of a benchmark, as mapping records."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mapspace.storage import Place, write_atomically
from orchestrator.benchmark.config import Plan
from orchestrator.comparison.results import Run
from orchestrator.comparison.results_files import RECORDS_FILE


def save_best(plan: Plan, runs: Sequence[Run], folder: Place) -> None:
    """Writes a record per method and problem that has a mapping, as JSON lines.

    Nothing is written of a cost model that has no records.
    """
    if plan.cost_model.record is not None:
        text = "".join(f"{json.dumps(record)}\n" for record in best_records(plan, runs))
        write_atomically(folder / RECORDS_FILE, text.encode())


def best_records(plan: Plan, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The best of all seeds, in the order of the runs; of equal ones the first.

    Args:
        plan: the benchmark, whose cost model has records.
        runs: those without a mapping, and those of tuners with spaces of their own, have none.

    Returns:
        Records, each with `searcher`, `layer` (the problem's name in the experiment), `seed`,
        `objective` and `value`, what the benchmark says that it costs.
    """
    write = plan.cost_model.record
    assert write is not None  # whoever asks has looked
    best: dict[tuple[str, str], Run] = {}
    for run in runs:
        key = run.searcher, run.workload
        least = best[key].best_loss if key in best else math.inf
        if run.best_code and run.best_loss < least:
            best[key] = run
    spaces = {name: plan.space(name) for name in {workload for _, workload in best}}
    return [
        {
            "searcher": run.searcher,
            "layer": run.workload,
            "seed": run.seed,
            "objective": plan.benchmark.objective,
            "value": run.best_loss,
            **write(spaces[run.workload], np.array(run.best_code, np.int32), plan.accelerator),
        }
        for run in best.values()
    ]
