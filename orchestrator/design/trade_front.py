"""The front of energy, delay and area: points of machines, each the least of its aim.

A point is a machine with a mapping of every layer. It is the least of its aim (the energy, the
time, or the energy and the time at a rate) of all machines of the grid that are no larger and of
all mappings, so that nothing of the grid is better in one of the three without being worse in
another; of the two ends only what is least is certain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.costs import FloatArray
from orchestrator.design.aims import Aim
from orchestrator.report.shown import Fact
from orchestrator.report.units import millijoules
from orchestrator.sweep.results import SweepResults

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, repr=False)
class TradeFront(SweepResults):
    """Machines that were proven, for each aim.

    Attributes:
        points: as of a sweep's, with the `aim` of each.
        architectures: as of a sweep's, with the `aim` of each; `front`: place on the front by
            rising area and energy, from 1, 0 off it, and `aims`: all that it is the least of, no
            larger one being so; of equal points the first is on the front.
    """

    @property
    def best(self) -> dict[str, Any] | None:
        """The point of the least EDP."""
        rows = self.front.to_dict("records")
        if not rows:
            return None
        return {str(key): value for key, value in min(rows, key=lambda row: row["edp_js"]).items()}

    def heading(self) -> str:
        """The design's name and how many points there are."""
        return f"{self.plan.sweep.name}: {len(self.front):,} points of energy, time and area"

    def facts(self) -> Iterable[Fact]:
        """The ends of the front."""
        front = self.front
        yield "front", f"{len(front):,} points"
        for name, column in (("energy", "energy_pj"), ("time", "latency_s"), ("EDP", "edp_js")):
            row = front.sort_values(column, kind="stable").to_dict("records")[0]
            told = (
                f"{millijoules(row['energy_pj']):.6g} mJ, {1e3 * row['latency_s']:.6g} ms, "
                f"{row[self.plan.sweep.area_column]:.6g} {self.plan.sweep.area_column[5:]}"
            )
            yield f"least {name}", f"{row['architecture']}: {told}"

    def records(self) -> list[dict[str, Any]]:
        """The mapping records of the front's points."""
        found = []
        for place in self.front.to_dict("records"):
            same = self.points["architecture"] == place["architecture"]
            rows = self.points[same & (self.points["aim"] == place["aim"])]
            found += [
                {
                    "point": place["front"],
                    "architecture": row["architecture"],
                    "layer": row["workload"],
                    "count": row["count"],
                    **json.loads(row["record"]),
                }
                for row in rows.to_dict("records")
            ]
        return found


def trade_front(
    aims: Sequence[Aim],
    proven: Sequence[SweepResults],
    fronts: Sequence[Sequence[Mapping[str, Any]]],
) -> TradeFront:
    """The front of what was proven for each aim.

    Args:
        aims: of the design.
        proven: machines that were proven for each of them.
        fronts: for each aim the values of the machines that nothing no larger is better than.
    """
    import pandas as pd

    points = pd.concat(
        [one.points.assign(aim=str(aim)) for aim, one in zip(aims, proven, strict=True)],
        ignore_index=True,
    )
    tables = []
    for aim, one, front in zip(aims, proven, fronts, strict=True):
        on_front = [
            any(all(row[key] == value for key, value in place.items()) for place in front)
            for row in one.architectures.to_dict("records")
        ]
        tables.append(one.architectures.assign(aim=str(aim), front=on_front))
    table = pd.concat(tables, ignore_index=True)
    plan = proven[0].plan
    columns = [plan.sweep.area_column, "energy_pj", "latency_s"]
    chosen = np.flatnonzero(table["front"].to_numpy(dtype=bool))
    values = table[columns].to_numpy(dtype=np.float64)
    told = ["" for _ in range(len(table))]
    for place in chosen:
        same = chosen[(values[chosen] == values[place]).all(axis=1)]
        told[place] = ", ".join(dict.fromkeys(table["aim"].iloc[same]))
    chosen = chosen[undominated(values[chosen])]
    order = chosen[np.lexsort(values[chosen].T[::-1])]
    ranks = np.zeros(len(table), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return TradeFront(plan, points, table.assign(front=ranks, aims=told))


def undominated(values: FloatArray) -> list[int]:
    """The rows that no other row is as good as in all columns; of equal rows the first.

    Args:
        values: `[N, columns]`, less is better.
    """
    kept = []
    for place, row in enumerate(values):
        as_good = (values <= row).all(axis=1)
        equal = (values == row).all(axis=1)
        if not (as_good & ~equal).any() and not equal[:place].any():
            kept.append(place)
    return kept
