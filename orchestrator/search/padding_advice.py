"""Looks at padding of its own accord, where a result leaves most of an array idle."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from orchestrator.answers.padding import Padding, awkward
from orchestrator.search.padding_trials import find_padding, until

if TYPE_CHECKING:
    from orchestrator.answers.request import Request
    from orchestrator.answers.results import SearchResult

# Below this share of busy elements the sizes of a result are looked at, for so long.
LOW_UTILISATION = 0.5
ADVICE_SECONDS = 2.0


def advice(request: Request, result: SearchResult, interrupted: threading.Event) -> Padding | None:
    """What padding would give where few elements work; None where the sizes are not to blame.

    Args:
        request: what was asked; the trial of sizes ends with its budget, too.
        result: the answer to it.
        interrupted: ends the trial of sizes when it is set.
    """
    workload, dimensions = result.workload, awkward(result.workload)
    if result.utilisation >= LOW_UTILISATION or not dimensions:
        return None
    left = (request.seconds or math.inf) - result.wall_seconds
    stop = until(time.monotonic() + min(ADVICE_SECONDS, left), interrupted)
    # What was not proven is found again as the padded ones are, so that only sizes differ.
    reached = result.costs.objective(request.objective) if result.searched.proven else None
    found = find_padding(request, workload, result.accelerator, dimensions, stop, reached)
    return None if found.complete and not found.better else found
