"""Why no mapping is feasible: constraints that together leave none, and what would admit one."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from costmodel.explanation.admitting import any_mapping, what_would_admit
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint
from costmodel.map_space.impossible import conflict_text, single_entries, smallest_conflict
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.meant_entries import meant
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from orchestrator.answers.facts import tiling
from orchestrator.report.units import percent

_MOST_SECONDS = 20.0
"""What looking for the smallest conflict may take; large spaces take a few."""
_MOST_ENTRIES = 5
_SAMPLE = 256


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
        found = any_mapping(narrowed)
        unknown = unknown or found is None
        return found is not False

    singles = single_entries(meant(machine.constraints, work), work.dimension_names)
    conflict = smallest_conflict(singles, possible)
    needless = " (some of them perhaps without need)" if unknown else ""
    return f"together these leave no feasible mapping{needless}: {conflict_text(conflict)}"


def admitting_text(space: MapSpace) -> str:
    """What would admit a mapping, as a sentence after a space; empty where nothing is known."""
    changes, single = what_would_admit(space)
    if not changes:
        return ""
    how = "by itself" if single else "together"
    said = f" What would admit one, {how}: {'; '.join(map(str, changes))}."
    return said + _closest(space.workload, changes[0].machine)


def closest_text(space: MapSpace) -> str:
    """The mapping that comes closest, as a sentence after a space; empty where none is known."""
    changes, _ = what_would_admit(space)
    return _closest(space.workload, changes[0].machine) if changes else ""


def _closest(work: Workload, machine: Accelerator) -> str:
    """The best of some mappings that a changed machine admits, as a sentence after a space."""
    space = MapSpace(work, machine)
    try:
        codes = space.sample(np.random.default_rng(0), _SAMPLE, feasible=True)
    except ConfigError:
        return ""
    best = codes[int(LoopNestModel().evaluate(space, codes).edp.argmin())]
    return f" The mapping that comes closest needs just that: {tiling(space.describe(best))}."


def excluded_text(space: MapSpace) -> str:
    """How much of the map space every constraint excludes by itself, as a sentence after a space.

    Counted, infeasible mappings included; those that exclude nothing are left out, as are rules of
    orders: codes of others are read as the nearest that obeys.
    """
    work, machine = space.workload, space.accelerator

    def size(some: Sequence[Constraint]) -> int:
        try:
            return MapSpace(work, machine.model_copy(update={"constraints": tuple(some)})).size()
        except ConfigError:
            return 0

    whole = size(())
    found = [(1 - size([one]) / whole, one) for one in single_entries(
        meant(machine.constraints, work), work.dimension_names
    )]  # fmt: skip
    found = [(share, one) for share, one in found if share > 0]
    found.sort(key=lambda entry: -entry[0])
    parts = [f"{conflict_text([one])} {percent(share)}" for share, one in found[:_MOST_ENTRIES]]
    more = f" and {len(found) - len(parts)} more" if len(found) > len(parts) else ""
    return f" By themselves these exclude, orders aside: {'; '.join(parts)}{more}." if parts else ""
