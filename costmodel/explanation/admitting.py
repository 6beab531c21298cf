"""What would admit a mapping where none is feasible: the smallest changes of the machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from costmodel.explanation.neighbours import Resource, amounts, enough, resources
from costmodel.loop_nest.enumeration import whole_space
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError, NoMappingError

_MOST_SECONDS = 20.0
"""What looking for changes may take; large spaces take a few."""
_MOST_CHANGES = 3


class Change(NamedTuple):
    """A change of a machine that admits a mapping.

    Attributes:
        what: such as `PE capacity`.
        now: how much there is.
        needed: how much admits a mapping.
        unit: of both.
        least: whether less is known not to suffice.
        machine: with it; of several that only help together, with those before it, too.
    """

    what: str
    now: float
    needed: float
    unit: str
    least: bool
    machine: Accelerator

    def __str__(self) -> str:
        least = "at least " if self.least else ""
        needed = f"{self.needed:,.6g} {self.unit}".strip()
        return f"{self.what} of {least}{needed} ({self.now:,.6g} now)"


def what_would_admit(space: MapSpace) -> tuple[list[Change], bool]:
    """Changes of the machine that admit a mapping.

    Args:
        space: of which no mapping is feasible.

    Returns:
        Single ones, the smallest first, and True; or several that only do together, and False.
    """
    until = time.monotonic() + _MOST_SECONDS

    def late() -> bool:
        return time.monotonic() > until

    found = [change for change in _changes(space, late) if change is not None]
    if not found:
        return _together(space, late), False
    found.sort(key=lambda change: abs(math.log(change.needed / change.now)))
    return found[:_MOST_CHANGES], True


def _changes(space: MapSpace, late: Callable[[], bool]) -> Iterator[Change | None]:
    machine = space.accelerator
    for resource in resources(machine):
        if resource.kind != "bandwidth" and not late():
            yield _least(space, resource, late)
    for index, level in enumerate(machine.levels):
        if level.min_utilisation > 0 and level.capacity_words and not late():
            words = level.capacity_words
            held = range(int(level.min_utilisation * words), -1, -1)
            place = _first(
                len(held), partial(_admits_share, space, index, [k / words for k in held]), late
            )
            if place is not None and (share := held[place[0]] / words) > 0:
                name = f"{level.name} min_utilisation"
                grown = _filled(space, index, share).accelerator
                yield Change(name, level.min_utilisation, share, "", False, grown)


def _admits_share(space: MapSpace, index: int, shares: Sequence[float], place: int) -> bool | None:
    return any_mapping(_filled(space, index, shares[place]))


def _filled(space: MapSpace, index: int, share: float) -> MapSpace:
    """The space with another least utilisation of a level."""
    levels = list(space.accelerator.levels)
    levels[index] = levels[index].model_copy(update={"min_utilisation": share})
    machine = space.accelerator.model_copy(update={"levels": tuple(levels)})
    return MapSpace(space.workload, machine)


def _least(space: MapSpace, resource: Resource, late: Callable[[], bool]) -> Change | None:
    """The smallest amount of a resource that admits a mapping; None: none is known."""
    machine, work = space.accelerator, space.workload
    grid = amounts(resource, work, int(enough(resource, machine, work)))
    at = _first(len(grid), partial(_grown_admits, work, machine, resource, grid), late)
    if at is None:
        return None
    place, least = at
    return Change(
        resource.name, resource.amount, grid[place], resource.unit, least and resource.only_helps,
        resource.grown(machine, grid[place]),
    )  # fmt: skip


def _together(space: MapSpace, late: Callable[[], bool]) -> list[Change]:
    """Changes that admit a mapping together, none of which could be smaller; none: unknown."""
    work, machine = space.workload, space.accelerator
    several = [resource for resource in resources(machine) if resource.kind != "bandwidth"]
    most = {one.name: int(enough(one, machine, work)) for one in several}
    for one in several:
        machine = one.grown(machine, max(most[one.name], one.amount))
    if _admits(work, machine) is not True:
        return []
    found = []
    for one in several:
        grid = [int(one.amount), *amounts(one, work, most[one.name])]
        at = _first(len(grid), partial(_grown_admits, work, machine, one, grid), late)
        needed = grid[at[0]] if at is not None else grid[-1]
        machine = one.grown(machine, needed)
        if needed > one.amount:
            found.append(Change(one.name, one.amount, needed, one.unit, False, machine))
    # Only now every other resource is as small as it can be.
    return [change._replace(machine=machine) for change in found]


def _grown_admits(
    work: Workload, machine: Accelerator, resource: Resource, grid: Sequence[int], place: int
) -> bool | None:
    return _admits(work, resource.grown(machine, grid[place]))


def _admits(work: Workload, machine: Accelerator) -> bool | None:
    """Whether a machine has a feasible mapping; None: not known."""
    try:
        return any_mapping(MapSpace(work, machine))
    except ConfigError:
        return False


def _first(
    number: int, admits: Callable[[int], bool | None], late: Callable[[], bool]
) -> tuple[int, bool] | None:
    """The first of a row of ever larger changes that admits a mapping.

    Args:
        number: how many there are.
        admits: of a place in the row; None: not known.
        late: whether there is no time left.

    Returns:
        Its place, and whether the one before is known to admit none; None: not even the last does.
    """
    if number == 0 or admits(number - 1) is not True:
        return None
    low, high, least = -1, number - 1, True
    step = 1
    while high - low > 1 and not late():
        middle = min(low + step, (low + high) // 2) if low + step < high else (low + high) // 2
        middle = max(middle, low + 1)
        answer = admits(middle)
        if answer:
            high, step = middle, 1
        else:
            least = least and answer is False
            low, step = middle, 2 * step
    return high, least and high - low == 1


def any_mapping(space: MapSpace) -> bool | None:
    """Whether a mapping is feasible; None: hardly any, or none."""
    try:
        space.sample(np.random.default_rng(0), 1, feasible=True)
    except NoMappingError:
        return False
    except ConfigError:
        whole = whole_space(space)
        return None if whole is None else whole.any_valid()
    return True
