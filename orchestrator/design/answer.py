"""A design's answer as `--json` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from orchestrator.design.results import DesignResults
from orchestrator.schemas.runs import DesignFound, FoundMachine


def answer_of(results: DesignResults) -> DesignFound:
    """The machines that were found, what is proven of them, and what binds."""
    design, front = results.certificate.design, results.machines.front.to_dict("records")
    three, best = design.find == "energy-delay-area", results.machines.best
    rows = [best] if design.find == "best" and best is not None else front
    objective = "energy, time and area" if three else str(design.objective)
    return {
        "find": design.find,
        "objective": objective,
        "proven": results.proven,
        "gap": results.gap,
        "machines": [
            _machine(design.grid or {}, row, row["aims"] if three else objective) for row in rows
        ],
        "size": results.size,
        "proofs": results.proofs,
        "problems": results.problems,
        "settled": results.counts(),
        "steps": [
            {
                "key": step.key,
                "value": step.value,
                "further": step.further,
                "change": step.change,
                "allowed": step.allowed,
                "area": step.area,
            }
            for step in results.steps
        ],
        "ends": list(results.ends),
    }


def _machine(grid: Mapping[str, Any], row: Mapping[Any, Any], least_of: str) -> FoundMachine:
    """A row of the table of machines."""
    energy, time = float(row["energy_pj"]), float(row["latency_s"])
    areas = [row.get(f"area_{unit}") for unit in ("bits", "mm2")]
    bits, mm2 = (None if area is None or pd.isna(area) else float(area) for area in areas)
    return {
        "parameters": {key: row[key] for key in grid},
        "energy_pj": energy,
        "latency_s": time,
        "edp_js": 1e-12 * energy * time,
        "power_w": float(row["power_w"]),
        "area_bits": bits,
        "area_mm2": mm2,
        "least_of": least_of,
    }
