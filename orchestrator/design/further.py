"""What holds the best machine back: one step further along each axis, proven.

A limit or the end of the grid binds where a step further would bring something; which of them, and
how much, is said of every axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.design.branching import Found
from orchestrator.design.machine_grid import MachineGrid


@dataclass(frozen=True)
class Step:
    """The best machine with the next better value of one key.

    Attributes:
        key: such as `L2.capacity_words`.
        value: what the best machine has.
        further: the next value of the grid.
        change: of the objective, a share of the best machine's; -0.1: a tenth less. None: some
            layer has no mapping, or was not proven in its time.
        allowed: whether the machine is within the limits.
        area: of the machine, in the unit that the design is drawn over.
    """

    key: str
    value: Any
    further: Any
    change: float | None
    allowed: bool
    area: float

    @property
    def told(self) -> str:
        """What it changes, in words."""
        if self.change is None:
            return "not proven"
        word = "less" if self.change < 0 else "more"
        return f"{abs(self.change):.2%} {word}" if self.change else "changes nothing"

    @property
    def row(self) -> tuple[str, str, str, str, str, float]:
        """A row of a table: key, here, further, what it changes, whether it is allowed, area."""
        limits = "within" if self.allowed else "beyond"
        return self.key, str(self.value), str(self.further), self.told, limits, self.area

    def __str__(self) -> str:
        """A line."""
        beyond = "" if self.allowed or self.change is None else ", beyond the limits"
        step = f"{self.key} {self.value} -> {self.further}"
        return f"{step}: {self.told}{beyond} (area {self.area:.6g})"


def places_further(grid: MachineGrid, places: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The machines with the next better value of one key, where there is an order and a next one.

    Args:
        grid: of it.
        places: the machine, a place per axis.
    """
    for number, axis in enumerate(grid.axes):
        if axis.ordered and places[number] + 1 < len(axis.values):
            yield (*places[:number], places[number] + 1, *places[number + 1 :])


def step_to(grid: MachineGrid, best: Found, found: Found, *, proven: bool) -> Step:
    """What one step further brings.

    Args:
        grid: of it.
        best: the machine from which the step goes.
        found: where it leads, one axis away.
        proven: whether all of its layers are.
    """
    number = next(
        axis
        for axis, (here, there) in enumerate(zip(best.places, found.places, strict=True))
        if here != there
    )
    axis = grid.axes[number]
    return Step(
        axis.key,
        axis.values[best.places[number]],
        axis.values[found.places[number]],
        found.value / best.value - 1 if proven else None,
        found.eligible,
        found.area,
    )


def ends_of_grid(grid: MachineGrid, best: Found) -> Iterator[str]:
    """The keys of which the best machine has the best value of the grid."""
    for axis, place in zip(grid.axes, best.places, strict=True):
        if axis.ordered and place + 1 == len(axis.values):
            yield axis.key


def step_lines(steps: Sequence[Step], ends: Sequence[str]) -> Iterator[str]:
    """What binds, in words: a line per axis."""
    if steps or ends:
        yield "One step further from the best machine, all else the same, proven:"
    yield from (f"  {step}" for step in steps)
    yield from (f"  {key}: the grid ends here" for key in ends)
