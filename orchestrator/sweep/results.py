"""What a sweep has found: a row per point, totals per architecture, the Pareto front.

A point is an architecture and a workload. Totals add energies and cycles over the workloads, each
as often as it occurs; the EDP of an architecture is that of these sums. Architectures may have
different clocks and word widths, so they are compared in joules, seconds and bits.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.costs import Objective
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.machine_units import idle_leakage_w
from mapspace.arguments import checked
from mapspace.storage import Place, place, write_atomically
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import millijoules, physical
from orchestrator.sweep.config import Limits
from orchestrator.sweep.plan import Architecture, SweepPlan
from orchestrator.sweep.proofs import Problem, Proof

if TYPE_CHECKING:
    import pandas as pd

RESULTS_FILE = "results.parquet"
ARCHITECTURES_FILE = "architectures.csv"

# What architectures are compared by.
OBJECTIVE_COLUMNS: Mapping[Objective, str] = {
    "edp": "edp_js",
    "energy": "energy_pj",
    "latency": "latency_s",
    "ed2p": "ed2p_js2",
}

# Columns that are empty where a point has no mapping.
POINT_TYPES = {
    "energy_pj": "float64",
    "latency_cycles": "Int64",
    "edp": "float64",
    "latency_s": "float64",
    "edp_js": "float64",
    "power_w": "float64",
    "lower_bound": "float64",
    "gap": "float64",
    "area_mm2": "float64",
    "idle_leakage_w": "float64",
}


@dataclass(frozen=True, repr=False)
class SweepResults(Shown):
    """A whole sweep.

    Attributes:
        plan: what was swept.
        points: a row per point, in the plan's order: architecture, then workload.
        architectures: a row per architecture: `points` proofs asked for, `proven`, `infeasible`
            and `unsolved` ones, totals (nan where a point has no mapping), `area_bits`, `area_mm2`,
            `within_limits`, `front`: rank by area on the Pareto front of those within the limits,
            from 1, 0 off it.
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

    @property
    def best(self) -> dict[str, Any] | None:
        """The best architecture within the limits, the last of the front; None without any."""
        rows = self.front.to_dict("records")
        return {str(key): value for key, value in rows[-1].items()} if rows else None

    @property
    def frame(self) -> pd.DataFrame:
        """The same as `points`."""
        return self.points

    def heading(self) -> str:
        """The sweep's name and size."""
        counts = f"{len(self.architectures):,} accelerators x {len(self.plan.layers):,} workloads"
        return f"{self.plan.sweep.name}: {counts}, {int(self.points['proven'].sum()):,} proven"

    def facts(self) -> Iterable[Fact]:
        """The front, and its last architecture."""
        yield "front", f"{len(self.front):,} architectures"
        if (best := self.best) is not None:
            column = self.objective_column
            value = in_shown_unit(column, best[column])
            yield "best", f"{best['architecture']}: {column_text(column)} {value:.6g}"

    def _repr_html_(self) -> str:
        columns = ["architecture", self.plan.sweep.area_column, self.objective_column]
        table: str = self.front[columns].to_html(index=False)
        return f"{super()._repr_html_()}\n{table}"

    @checked
    def save(self, folder: str | Path | Place) -> None:
        """Writes `results.parquet` and `architectures.csv`, each whole or not at all."""
        folder = place(folder)
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
        _totals(architecture, rows, plan.sweep.limits)
        for architecture, (_, rows) in zip(
            plan.architectures, points.groupby("architecture", sort=False), strict=True
        )
    )
    objective = architectures[OBJECTIVE_COLUMNS[plan.sweep.objective]].to_numpy(dtype=np.float64)
    within = architectures["within_limits"].to_numpy(dtype=bool)
    area = architectures[plan.sweep.area_column].to_numpy(dtype=np.float64)
    # Of two as good in latency the one of less energy is better; of others, the faster one.
    tie = "energy_pj" if plan.sweep.objective == "latency" else "latency_s"
    ties = architectures[tie].to_numpy(dtype=np.float64)
    ranks = front_ranks(area, np.where(within, objective, np.nan), ties)
    return SweepResults(plan, points, architectures.assign(front=ranks))


def front_ranks(
    area: np.ndarray, objective: np.ndarray, ties: np.ndarray | None = None
) -> list[int]:
    """Ranks on the Pareto front of least area and least objective, from 1; 0 off it.

    Args:
        area: `[A]`.
        objective: `[A]`, nan where there is none.
        ties: `[A]` what is less for the better one of two that are equal in both; None: nothing. Of
            two that are equal in all the first counts.
    """
    ranks = [0] * len(area)
    best, rank = np.inf, 0
    for index in np.lexsort(((area if ties is None else ties), objective, area)):
        # A nan is never below.
        if objective[index] < best:
            best, rank = objective[index], rank + 1
            ranks[index] = rank
    return ranks


def parameters_of(machine: Accelerator) -> dict[str, Any]:
    """An accelerator as flat columns, such as `L1.capacity_words`; only what is given."""
    content = _columns("", machine.model_dump(exclude={"name", "levels"}))
    content["processing_elements"] = machine.processing_elements
    for level in machine.levels:
        found = _columns(f"{level.name}.", level.model_dump(exclude={"name"}))
        content |= {key: _flat(value) for key, value in found.items() if value is not None}
    return content


def _columns(prefix: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and values, those of a mapping each by itself."""
    found: dict[str, Any] = {}
    for key, value in entry.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        found |= {f"{prefix}{key}" + (f".{part}" if part else ""): one for part, one in parts}
    return found


def _flat(value: Any) -> Any:
    """A cell: `14x12` of a mesh, `input,output` of names."""
    if not isinstance(value, tuple):
        return value
    return ("," if any(isinstance(v, str) for v in value) else "x").join(map(str, value))


def _point_rows(plan: SweepPlan, proofs: Mapping[str, Proof]) -> list[dict[str, Any]]:
    problems = iter(problems_of(plan))
    rows: list[dict[str, Any]] = []
    for architecture in plan.architectures:
        parameters = parameters_of(architecture.accelerator)
        for layer in plan.layers:
            problem = next(problems)
            proof = proofs[problem.key]
            edp: float | None = None
            si: dict[str, float | None] = dict.fromkeys(("latency_s", "edp_js", "power_w"))
            if proof.energy_pj is not None and proof.latency_cycles is not None:
                edp = proof.energy_pj * proof.latency_cycles
                clock = architecture.accelerator.clock_ghz
                si |= physical(proof.energy_pj, proof.latency_cycles, clock)
            rows.append(
                {
                    "point": len(rows),
                    "architecture": architecture.name,
                    "workload": layer.workload.name,
                    "count": layer.count,
                    **parameters,
                    "area_bits": architecture.area_bits,
                    "area_mm2": architecture.area_mm2,
                    "status": proof.status,
                    "proven": proof.status == "proven",
                    "energy_pj": proof.energy_pj,
                    "latency_cycles": proof.latency_cycles,
                    "edp": edp,
                    **si,
                    "lower_bound": proof.lower_bound,
                    "gap": proof.gap,
                    "seconds": proof.seconds,
                    "limit_seconds": proof.limit_seconds,
                    "reason": proof.reason,
                    "workload_hash": layer.workload.hash,
                    "accelerator_hash": architecture.accelerator.hash,
                    "idle_leakage_w": None
                    if proof.record is None
                    else idle_leakage_w(architecture.accelerator, proof.record),
                    "record": None if proof.record is None else json.dumps(proof.record),
                }
            )
    return rows


def _totals(architecture: Architecture, rows: pd.DataFrame, limits: Limits) -> dict[str, Any]:
    """The row of an architecture; a total over points of which one has no mapping is nan."""
    machine = architecture.accelerator
    energy, cycles = (
        float(np.sum(rows[name].to_numpy(np.float64, na_value=np.nan) * rows["count"].to_numpy()))
        for name in ("energy_pj", "latency_cycles")
    )
    infeasible = int((rows["status"] == "infeasible").sum())
    proven = int(rows["proven"].sum())
    gaps = rows["gap"].dropna()
    si = physical(energy, cycles, machine.clock_ghz)
    # Each workload's idle instances leak for as long as it runs.
    shares = rows["latency_cycles"].to_numpy(np.float64, na_value=np.nan) * rows["count"].to_numpy()
    idle = float(np.sum(rows["idle_leakage_w"].to_numpy(np.float64) * shares)) / cycles
    spent = {
        "area_bits": architecture.area_bits,
        "area_mm2": np.nan if architecture.area_mm2 is None else architecture.area_mm2,
        "power_w": si["power_w"],
        "chip_power_w": si["power_w"] + idle,
        "energy_mj": millijoules(energy),
        "latency_ms": 1e3 * si["latency_s"],
    }
    return {
        "architecture": architecture.name,
        **architecture.parameters,
        "processing_elements": machine.processing_elements,
        "clock_ghz": machine.clock_ghz,
        "word_bits": machine.word_bits,
        "area_bits": architecture.area_bits,
        "area_mm2": spent["area_mm2"],
        "points": len(rows),
        "proven": proven,
        "infeasible": infeasible,
        "unsolved": len(rows) - proven - infeasible,
        "largest_gap": float(gaps.max()) if len(gaps) else np.nan,
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": energy * cycles,
        "ed2p": energy * cycles * cycles,
        **si,
        "chip_power_w": spent["chip_power_w"],
        "ed2p_js2": si["edp_js"] * si["latency_s"],
        "within_limits": all(
            spent[key] <= most for key, most in limits.model_dump(exclude_none=True).items()
        ),
    }


def axis_names(results: SweepResults) -> list[str]:
    """Columns of `architectures` that tell them apart: the grid's axes of several values."""
    grid = results.plan.sweep.grid or {}
    return [name for name, values in grid.items() if len(values) > 1] or ["architecture"]


def front_records(results: SweepResults) -> list[dict[str, Any]]:
    """The mapping records of the front's architectures, each with its place in the sweep."""
    points = results.points[results.points["architecture"].isin(results.front["architecture"])]
    return [
        {
            "architecture": row["architecture"],
            "layer": row["workload"],
            "count": row["count"],
            **json.loads(row["record"]),
        }
        for row in points.to_dict("records")
    ]


def column_text(column: str) -> str:
    """An objective's column for people."""
    return {
        "edp_js": "EDP, J s",
        "ed2p_js2": "ED2P, J s^2",
        "energy_pj": "energy, mJ",
        "latency_s": "time, ms",
    }[column]


def in_shown_unit(column: str, values: Any) -> Any:
    """A column's values, one or many, in the unit that `column_text` names."""
    if column == "energy_pj":
        return millijoules(values)
    return 1e3 * values if column == "latency_s" else values
