"""What a sweep has found: a row per point, totals per architecture, the Pareto front.

A point is an architecture and a workload. Totals add energies and cycles over the workloads, each
as often as it occurs; the EDP of an architecture is that of these sums.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.accelerator import Accelerator, Level
from costmodel.costs import Objective
from orchestrator.sweep_plan import Architecture, SweepPlan
from orchestrator.sweep_proofs import Problem, Proof
from surrogate.storage import Place, write_atomically

if TYPE_CHECKING:
    import pandas as pd

RESULTS_FILE = "results.parquet"
ARCHITECTURES_FILE = "architectures.csv"

OBJECTIVE_COLUMNS: Mapping[Objective, str] = {
    "edp": "edp",
    "energy": "energy_pj",
    "latency": "latency_cycles",
    "ed2p": "ed2p",
}

# Columns that are empty where a point has no mapping.
POINT_TYPES = {
    "energy_pj": "float64",
    "latency_cycles": "Int64",
    "edp": "float64",
    "lower_bound": "float64",
    "gap": "float64",
}


@dataclass(frozen=True)
class SweepResults:
    """A whole sweep.

    Attributes:
        plan: what was swept.
        points: a row per point, in the plan's order: architecture, then workload.
        architectures: a row per architecture: `points` proofs asked for, `proven`, `infeasible`
            and `unsolved` ones, totals (nan where a point has no mapping), `area`, `front`: rank by
            area on the Pareto front from 1, 0 off it.
    """

    plan: SweepPlan
    points: pd.DataFrame
    architectures: pd.DataFrame

    @property
    def objective_column(self) -> str:
        """The column of `architectures` that is drawn and compared."""
        return OBJECTIVE_COLUMNS[self.plan.sweep.objective]

    @property
    def front(self) -> pd.DataFrame:
        """The Pareto-optimal architectures by rising area."""
        chosen = self.architectures[self.architectures["front"] > 0]
        return chosen.sort_values("front")

    def save(self, folder: Place) -> None:
        """Writes `results.parquet` and `architectures.csv`, each whole or not at all."""
        points = io.BytesIO()
        self.points.to_parquet(points, compression="zstd", index=False)
        write_atomically(folder / RESULTS_FILE, points.getvalue())
        table = self.architectures.to_csv(index=False)
        write_atomically(folder / ARCHITECTURES_FILE, table.encode())


def problems_of(plan: SweepPlan) -> list[Problem]:
    """The problem of every point: architecture, then workload."""
    return [
        Problem(layer.workload, architecture.accelerator, plan.sweep.objective)
        for architecture in plan.architectures
        for layer in plan.layers
    ]


def collect(plan: SweepPlan, proofs: Mapping[str, Proof]) -> SweepResults:
    """Lays out the proofs, by key, as the results of a plan."""
    import pandas as pd

    points = pd.DataFrame(_point_rows(plan, proofs)).astype(POINT_TYPES)
    architectures = pd.DataFrame(
        _totals(architecture, rows)
        for architecture, (_, rows) in zip(
            plan.architectures, points.groupby("architecture", sort=False), strict=True
        )
    )
    objective = architectures[OBJECTIVE_COLUMNS[plan.sweep.objective]].to_numpy(dtype=np.float64)
    ranks = front_ranks(architectures["area"].to_numpy(dtype=np.float64), objective)
    return SweepResults(plan, points, architectures.assign(front=ranks))


def front_ranks(area: np.ndarray, objective: np.ndarray) -> list[int]:
    """Ranks on the Pareto front of least area and least objective, from 1; 0 off it.

    Args:
        area: `[A]`.
        objective: `[A]`, nan where there is none. Of two equal architectures the first counts.
    """
    ranks = [0] * len(area)
    best, rank = np.inf, 0
    for index in np.lexsort((objective, area)):
        # A nan is never below.
        if objective[index] < best:
            best, rank = objective[index], rank + 1
            ranks[index] = rank
    return ranks


def parameters_of(machine: Accelerator) -> dict[str, Any]:
    """An accelerator as flat columns, such as `L1.capacity_words`; only what is given."""
    content = machine.model_dump(exclude={"name", "levels"})
    content["processing_elements"] = machine.processing_elements
    for level in machine.levels:
        for key in Level.model_fields:
            value = getattr(level, key)
            if key != "name" and value is not None:
                text = isinstance(value, tuple)
                content[f"{level.name}.{key}"] = "x".join(map(str, value)) if text else value
    return content


def _point_rows(plan: SweepPlan, proofs: Mapping[str, Proof]) -> list[dict[str, Any]]:
    problems = iter(problems_of(plan))
    rows: list[dict[str, Any]] = []
    for architecture in plan.architectures:
        parameters = parameters_of(architecture.accelerator)
        for layer in plan.layers:
            problem = next(problems)
            proof = proofs[problem.key]
            edp = None
            if proof.energy_pj is not None and proof.latency_cycles is not None:
                edp = proof.energy_pj * proof.latency_cycles
            rows.append(
                {
                    "point": len(rows),
                    "architecture": architecture.name,
                    "workload": layer.workload.name,
                    "count": layer.count,
                    **parameters,
                    "area": architecture.area,
                    "status": proof.status,
                    "proven": proof.status == "proven",
                    "energy_pj": proof.energy_pj,
                    "latency_cycles": proof.latency_cycles,
                    "edp": edp,
                    "lower_bound": proof.lower_bound,
                    "gap": proof.gap,
                    "seconds": proof.seconds,
                    "limit_seconds": proof.limit_seconds,
                    "reason": proof.reason,
                    "workload_hash": layer.workload.hash,
                    "accelerator_hash": architecture.accelerator.hash,
                    "record": None if proof.record is None else json.dumps(proof.record),
                }
            )
    return rows


def _totals(architecture: Architecture, rows: pd.DataFrame) -> dict[str, Any]:
    """The row of an architecture; a total over points of which one has no mapping is nan."""
    energy, cycles = (
        float(np.sum(rows[name].to_numpy(np.float64, na_value=np.nan) * rows["count"].to_numpy()))
        for name in ("energy_pj", "latency_cycles")
    )
    infeasible = int((rows["status"] == "infeasible").sum())
    proven = int(rows["proven"].sum())
    gaps = rows["gap"].dropna()
    return {
        "architecture": architecture.name,
        **architecture.parameters,
        "processing_elements": architecture.accelerator.processing_elements,
        "area": architecture.area,
        "points": len(rows),
        "proven": proven,
        "infeasible": infeasible,
        "unsolved": len(rows) - proven - infeasible,
        "largest_gap": float(gaps.max()) if len(gaps) else np.nan,
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": energy * cycles,
        "ed2p": energy * cycles * cycles,
    }


def axis_names(results: SweepResults) -> list[str]:
    """Columns of `architectures` that tell them apart: the grid's axes of several values."""
    grid = results.plan.sweep.grid or {}
    return [name for name, values in grid.items() if len(values) > 1] or ["architecture"]


def column_text(column: str) -> str:
    """An objective's column for people."""
    return {
        "edp": "EDP, pJ x cycles",
        "ed2p": "ED2P, pJ x cycles^2",
        "energy_pj": "energy, pJ",
        "latency_cycles": "cycles",
    }[column]
