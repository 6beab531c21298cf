"""Parts that several answers share. Energies are pJ, latencies cycles, EDP pJ x cycles."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from costmodel.costs import Objective as Objective

JsonRecord = dict[str, Any]
"""A mapping record, which has a schema of its own: `mapspace schema record`."""
Kept = dict[str, tuple[str, ...]]


class _InCycles(TypedDict):
    energy_pj: float
    latency_cycles: float
    edp: float


class Costs(_InCycles):
    """What a mapping, or several one after another, cost.

    Attributes:
        energy_pj: energy, pJ.
        latency_cycles: cycles.
        edp: energy-delay product, pJ x cycles.
        latency_s: time at the machine's clock, s.
        edp_js: energy-delay product, J s.
        power_w: mean power, W.
    """

    latency_s: float
    edp_js: float
    power_w: float


class CostsOfRecord(_InCycles):
    """What a mapping of a record costs; in seconds only where the machine's clock is known."""

    latency_s: NotRequired[float]
    edp_js: NotRequired[float]
    power_w: NotRequired[float]


class LimitAnswer(TypedDict):
    """One bound of the machine, and how near a mapping comes to it.

    Attributes:
        name: `compute`, a level and what crosses it such as `DRAM reads`, or a level.
        amount: units at work, words per cycle and instance, words held, or cycles of a latency,
            an array, start-ups or waiting.
        most: units that there are, the bandwidth, the capacity, or the mapping's cycles.
        kind: which of these.
        cycles: what the mapping would take if nothing else held it up; 0 of a capacity.
        share: how much of the bound is used; 1 where it binds.
    """

    name: str
    amount: float
    most: float
    kind: Literal["compute", "array", "startup", "waiting", "bandwidth", "latency", "capacity"]
    cycles: float
    share: float


class DecisionAnswer(TypedDict):
    """A decision in which two mappings differ.

    Attributes:
        level: the level; empty where it is about all of them.
        what: what is decided, such as `order`.
        first: how the first mapping decides.
        second: how the second does.
    """

    level: str
    what: str
    first: str
    second: str
