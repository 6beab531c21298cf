"""The best mapping of a small map space, found by evaluating every mapping."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.loop_nest.enumeration import WholeSpace
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_problems import whole_mapping
from costmodel.map_space.map_space import MapSpace
from orchestrator.answers.request import ENUMERATION
from orchestrator.answers.results import SearchResult
from orchestrator.answers.standing import Standing
from orchestrator.search.assess import assess
from searchers import TrialResult

if TYPE_CHECKING:
    from orchestrator.answers.request import Request


@dataclass(frozen=True)
class _Enumeration:
    """What `assess` asks of a searcher."""

    conclusion: str
    failure: str | None = None


def enumerate_space(request: Request, space: MapSpace, whole: WholeSpace) -> SearchResult | None:
    """The best of all mappings, which is proven by that; None where none is feasible."""
    started = time.monotonic()
    found = whole.search(request.objective)
    if found.best is None:
        return None
    code = space.code(whole_mapping(space.workload, space.accelerator, found.best))
    costs = LoopNestModel().evaluate(space, code[None])
    loss = float(costs.objective(request.objective)[0])
    seconds = time.monotonic() - started
    trial = TrialResult(
        best_code=code,
        best_loss=loss,
        iterations=found.evaluated,
        true_queries=found.evaluated,
        surrogate_queries=0,
        seconds=seconds,
        curve_iteration=np.array([found.evaluated]),
        curve_seconds=np.array([seconds]),
        curve_loss=np.array([loss]),
        curve_counted=np.array([found.evaluated]),
    )
    says = _Enumeration(
        f"proven: all {found.evaluated:,} different mappings that are feasible were evaluated"
    )
    result = assess(request, ENUMERATION, says, space, trial, None)
    standing = Standing(proven=True, tie_proven=True, lower_bound=loss, gap=0.0)
    return replace(result, overall=standing, wall_seconds=time.monotonic() - started)
