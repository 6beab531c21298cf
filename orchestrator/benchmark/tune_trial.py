"""What goes to the workers of Tune by name: they import this file, and none of the driver's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ray import tune

from orchestrator.benchmark.config import Plan
from orchestrator.benchmark.curve_sums import HOPELESS
from orchestrator.benchmark.search_trial import HopelessError, Making, run_trial
from orchestrator.pool.making import cpus_of


def tried_once_if_hopeless(config: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
    """A trial that ends as finished where Tune would only wait for the same failure again."""
    make: Making | None = None
    if arguments["plan"].benchmark.host == "pool":
        from orchestrator.benchmark.pool_trial import pooled_searches

        make = pooled_searches
    try:
        return run_trial(config, **arguments, make=make)
    except HopelessError as error:
        return {"best_loss": math.inf, "share": 0.0, HOPELESS: str(error)}


def processors_of(plan: Plan, config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """What a trial takes of Ray: a processor, and one for every remote runner of its searcher.

    With a pool it takes what the evaluators take: itself it waits for them.
    """
    if plan.benchmark.host == "pool":
        settings = plan.benchmark.measurement
        each = {"CPU": cpus_of(settings), "GPU": float(settings.get("gpus", 0.0))}
        return tune.PlacementGroupFactory([{}, *[each] * (plan.benchmark.workers or 1)])
    entry = plan.entry(config["task"]["searcher"])
    runners = int(entry.parameters.get("runners", 0))
    return tune.PlacementGroupFactory([{"CPU": 1}] * (1 + runners))
