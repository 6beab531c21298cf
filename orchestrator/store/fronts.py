"""Proven energy-latency fronts in the store."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.exact_any.front import FrontPoint
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.problems.affine import Workload
from mapspace.errors import DataError
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.store.address import Question, problem
from orchestrator.store.answers import keep_answers, read_answer
from orchestrator.store.mappings import stored_code
from orchestrator.store.rows import Number, Whole, row_of

if TYPE_CHECKING:
    from costmodel.map_space.map_space import MapSpace
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row

# As in `orchestrator.search.stored`.
ROUNDING = 1e-9


@dataclass(frozen=True)
class StoredFront:
    """A front that was proven before.

    Attributes:
        points: the fastest first.
        where: the store, and when it was found.
    """

    points: list[FrontPoint]
    where: str


class _Point(StrictModel):
    elements: Whole
    latency_cycles: Whole
    energy_pj: Number
    code: tuple[Whole, ...]
    record: dict[str, Any]


class _Payload(StrictModel):
    workload: Workload
    points: tuple[_Point, ...]


def read_front(space: MapSpace, store: Store) -> StoredFront | None:
    """The front of a space that the store has; None where it has none."""

    def front(row: Row) -> StoredFront:
        payload = validate(_Payload, row.content(), f"row {row.name}", DataError)
        points = [
            FrontPoint(
                point.elements,
                point.latency_cycles,
                point.energy_pj,
                stored_code(space, payload.workload, point.record, point.code),
            )
            for point in payload.points
        ]
        if not points:
            raise DataError("expected points, found none.")
        costs = LoopNestModel().evaluate(space, np.stack([point.code for point in points]))
        for point, energy in zip(points, costs.energy_pj.tolist(), strict=True):
            if not math.isclose(point.energy_pj, energy, rel_tol=ROUNDING):
                raise DataError(f"expected {point.energy_pj!r} pJ, the mapping needs {energy!r}.")
        return StoredFront(points, store.where(row))

    return read_answer(store, _question(space), lambda row: row.proven, front)


def keep_front(space: MapSpace, points: Sequence[FrontPoint], seconds: float, store: Store) -> None:
    """Keeps a front that took so many seconds to prove."""
    question = _question(space)
    best = min(points, key=lambda point: point.energy_pj * point.latency_cycles)
    payload = {
        "workload": space.workload.model_dump(mode="json"),
        "points": [
            {
                "elements": int(point.elements),
                "latency_cycles": int(point.latency_cycles),
                "energy_pj": float(point.energy_pj),
                "code": [int(part) for part in point.code],
                "record": mapping_record(space, point.code),
            }
            for point in points
        ],
    }
    row = row_of(
        "front",
        question,
        space.workload,
        space.accelerator,
        LoopNestModel(),
        objective="front",
        method="exact",
        energy_pj=float(best.energy_pj),
        latency_cycles=float(best.latency_cycles),
        proven=True,
        gap=0.0,
        seconds=seconds,
        payload=json.dumps(payload),
    )
    keep_answers(store, [row])


def _question(space: MapSpace) -> Question:
    model = LoopNestModel()
    content = {
        "kind": "front",
        "problem": problem(space.workload, space.accelerator),
        "model": [model.name, model.version],
    }
    return Question(content, {})
