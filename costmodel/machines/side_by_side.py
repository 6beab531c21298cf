"""Buffers side by side: the machines that a machine is with its groups in every order.

Levels that share a name under `beside` are no hierarchy: none of them feeds another. Which of them
a nest passes first is a choice of the mapping, and every choice is a machine of its own, in which
the last of the group fans out as the last one in the file does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint
from costmodel.machines.levels import NETWORK_KEYS, Level
from mapspace.errors import ConfigError

MOST_ORDERS = 720
"""Every order is a map space with tables of its own."""


class Group(NamedTuple):
    """Levels `first` to `stop` - 1 of a machine, which lie side by side under one name."""

    name: str
    first: int
    stop: int

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """Every order of the group's levels, by position in the file, lexicographic."""
        return list(itertools.permutations(range(self.first, self.stop)))


def groups(machine: Accelerator) -> tuple[Group, ...]:
    """The groups of several levels, outermost first."""
    found = []
    named = itertools.groupby(enumerate(machine.levels), key=lambda entry: entry[1].beside)
    for name, members in named:
        places = [position for position, _ in members]
        if name is not None and len(places) > 1:
            found.append(Group(name, places[0], places[-1] + 1))
    return tuple(found)


def free_groups(machine: Accelerator, entries: Iterable[Constraint] = ()) -> tuple[Group, ...]:
    """The groups whose order is a choice of the mapping.

    Constraints on the loops of a level speak of the order in the file, which is then kept.

    Args:
        machine: the machine.
        entries: constraints beside its own.

    Raises:
        ConfigError: the groups have more orders than can be laid out.
    """
    if machine.orders == "file":
        return ()
    named = {entry.target for entry in (*machine.constraints, *entries) if entry.kind != "bypass"}
    found = tuple(
        group
        for group in groups(machine)
        if not named & {level.name for level in machine.levels[group.first : group.stop]}
    )
    number = math.prod(math.factorial(group.stop - group.first) for group in found)
    if number > MOST_ORDERS:
        raise ConfigError(
            f"accelerator.levels: the buffers of {machine.name} that lie side by side have "
            f"{number:,} orders; expected at most {MOST_ORDERS} (beside, or tiles: apart, of "
            "fewer levels)."
        )
    return found


def in_order(machine: Accelerator, order: Iterable[int]) -> Accelerator:
    """A machine with its levels in an order and none side by side.

    Args:
        machine: the machine.
        order: every level's position in the file, of which only groups are rearranged.
    """
    levels: list[Level] = []
    for position, chosen in enumerate(order):
        place, level = machine.levels[position], machine.levels[chosen]
        network = {key: getattr(place, key) for key in NETWORK_KEYS}
        levels.append(level.model_copy(update={**network, "beside": None}))
    return machine.model_copy(update={"levels": tuple(levels)})


def all_orders(machine: Accelerator, free: tuple[Group, ...]) -> list[tuple[int, ...]]:
    """Every order of a machine's levels, the file's first and the last group's fastest."""
    found = []
    for chosen in itertools.product(*(group.orders for group in free)):
        order = list(range(len(machine.levels)))
        for group, members in zip(free, chosen, strict=True):
            order[group.first : group.stop] = members
        found.append(tuple(order))
    return found
