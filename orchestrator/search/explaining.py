"""Explains why a proven mapping is the best one, by proofs of its neighbours."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from mapspace.errors import ArgumentError, ConfigError
from orchestrator.answers.explained import ExplainedOptimum
from orchestrator.report.units import percent
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live

if TYPE_CHECKING:
    from orchestrator.answers.results import SearchResult


def explain_result(
    result: SearchResult, *, seconds: float, stream: TextIO | None = None
) -> ExplainedOptimum:
    """Explains a proven result.

    Args:
        result: a search's result.
        seconds: the most that it may take.
        stream: takes the progress; None: standard error.

    Raises:
        ConfigError: nothing is proven of it, or a wrong time.
    """
    from costmodel.exact_any.choice import load_prover, why_not_proven
    from costmodel.exact_any.prover import load_compiled
    from costmodel.explanation.explanation import Optimum, explain
    from costmodel.map_space.map_space import MapSpace

    if not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    if not result.searched.proven:
        raise ConfigError(
            f"{result.heading()}: expected a proven optimum to explain, got one certainly within "
            f"{percent(result.searched.gap, up=True)} of it."
        )
    space = MapSpace(result.workload, result.accelerator)
    why = why_not_proven(space)
    if why is not None:
        raise ConfigError(f"{result.heading()}: nothing beside it can be proven: {why}")
    live = Live(stream or sys.stderr)
    with live.preparing("loading the exact search"):
        load_prover(space)
        load_compiled()
    optimum = Optimum(space, result.mapping, result.objective, result.keep)
    with interruptible() as stop:
        found = explain(
            optimum, seconds=seconds, stop=stop, say=lambda text: live.update(lambda: f"  {text}")
        )
    live.end()
    return ExplainedOptimum(result.heading(), found)
