"""A benchmark as Python users see it: its results, a row per search, and its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapspace.storage import Place
from orchestrator.comparison.page import text_table, write_report
from orchestrator.comparison.results import Results
from orchestrator.report.shown import Fact, Shown


@dataclass(frozen=True, repr=False)
class BenchmarkResult(Shown):
    """A finished benchmark.

    Attributes:
        results: its runs, their curves and bounds, and statistics over them.
        folder: where they lie.
    """

    results: Results
    folder: Place

    def report(self) -> Path:
        """Draws the page with curves and tables; returns it."""
        return write_report(self.folder)

    def heading(self) -> str:
        """The experiment's name, and what it compares."""
        results = self.results
        counts = f"{len(results.searchers)} searchers on {len(results.workloads)} workloads"
        return f"{results.experiment['name']}: {counts}, {len(results.runs):,} searches"

    def facts(self) -> Iterable[Fact]:
        """What results are compared with, and where they lie."""
        yield "compared with", self.results.reference_name
        yield "folder", str(self.folder)

    def rows(self) -> Sequence[dict[str, Any]]:
        """A row per search.

        `best` is in the objective's unit, `above` its share above `reference`, which is the
        workload's optimum where `proven`, else a lower bound.
        """
        return [
            {
                "searcher": run.searcher,
                "workload": run.workload,
                "seed": run.seed,
                "best": run.best_loss,
                "reference": (bounds := self.results.bounds[run.workload]).reference,
                "above": run.best_loss / bounds.reference - 1,
                "proven": bounds.proven,
                "iterations": run.iterations,
                "true_queries": run.true_queries,
                "surrogate_queries": run.surrogate_queries,
                "seconds": run.seconds,
                "failure": run.failure,
            }
            for run in self.results.runs
        ]

    def picture(self) -> str:
        """The table of searchers and workloads."""
        return text_table(self.results)
