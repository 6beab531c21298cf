"""Why no mapping is feasible: which constraints together leave none."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from costmodel.constraint_entries import Constraint
from costmodel.map_space.impossible import conflict_text, single_entries, smallest_conflict
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, NoMappingError
from orchestrator.search.enumerated import whole_space

_MOST_SECONDS = 20.0
"""What looking for the smallest conflict may take; counting a large space takes a few."""


def why_nothing(space: MapSpace) -> str:
    """The constraints that together leave no feasible mapping, none of which could be left out.

    Args:
        space: of which no mapping is feasible.
    """
    work, machine = space.workload, space.accelerator
    until = time.monotonic() + _MOST_SECONDS
    unknown = False

    def possible(some: Sequence[Constraint]) -> bool:
        nonlocal unknown
        if time.monotonic() > until:
            unknown = True
            return True
        try:
            narrowed = MapSpace(work, machine.model_copy(update={"constraints": tuple(some)}))
        except ConfigError:
            return False
        whole = whole_space(narrowed)
        if whole is not None:
            return whole.any_valid()
        try:
            narrowed.sample(np.random.default_rng(0), 1, feasible=True)
        except NoMappingError:
            return False
        except ConfigError:
            unknown = True  # hardly any, or none
        return True

    singles = single_entries(machine.constraints, work.dimension_names)
    conflict = smallest_conflict(singles, possible)
    needless = " (some of them perhaps without need)" if unknown else ""
    return f"together these leave no feasible mapping{needless}: {conflict_text(conflict)}"
