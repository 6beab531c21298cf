"""A mapping that was found: its loop nest, its record and its costs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.costs import Objective, objective_of
from mapspace.arguments import explained, is_number, wrong_type
from mapspace.storage import Place, writing
from orchestrator.report.units import physical
from orchestrator.runs.locations import local_file
from orchestrator.schemas.costs import Costs

if TYPE_CHECKING:
    from costmodel.map_space.mapping import Mapping


_COSTS = {
    "energy_pj": "a number, 0 or more",
    "latency_cycles": "a number, 0 or more",
    "clock_ghz": "a number above 0",
}


@explained
@dataclass(frozen=True)
class MappingCosts:
    """What one mapping, or several one after another, cost.

    Attributes:
        energy_pj: energy, pJ.
        latency_cycles: cycles.
        clock_ghz: the accelerator's clock, GHz.
    """

    energy_pj: float
    latency_cycles: float
    clock_ghz: float

    def __post_init__(self) -> None:
        """Refuses what are no costs.

        Raises:
            ArgumentError: one of another type, below 0, or no clock.
        """
        for name, words in _COSTS.items():
            value = getattr(self, name)
            if not is_number(value) or not value >= 0 or (name == "clock_ghz" and not value):
                raise wrong_type(name, words, value)

    @property
    def edp(self) -> float:
        """Energy-delay product, pJ x cycles."""
        return self.energy_pj * self.latency_cycles

    @property
    def latency_s(self) -> float:
        """Time, s."""
        return self._physical["latency_s"]

    @property
    def edp_js(self) -> float:
        """Energy-delay product, J s."""
        return self._physical["edp_js"]

    @property
    def power_w(self) -> float:
        """Mean power, W."""
        return self._physical["power_w"]

    @property
    def _physical(self) -> dict[str, float]:
        return physical(self.energy_pj, self.latency_cycles, self.clock_ghz)

    def objective(self, name: Objective) -> float:
        """The value to minimise, in the unit of `costmodel.costs.UNITS`."""
        return objective_of(name, self.energy_pj, self.latency_cycles)

    def to_dict(self) -> Costs:
        """The costs in every unit that JSON has."""
        return {
            "energy_pj": self.energy_pj,
            "latency_cycles": self.latency_cycles,
            "edp": self.edp,
            "latency_s": self.latency_s,
            "edp_js": self.edp_js,
            "power_w": self.power_w,
        }


@dataclass(frozen=True)
class FoundMapping:
    """A mapping and what it costs.

    Attributes:
        mapping: the loop nest.
        record: it as a mapping record.
        costs: what it costs.
    """

    mapping: Mapping
    record: dict[str, Any]
    costs: MappingCosts


def save_records(records: Iterable[dict[str, Any]], path: Place) -> None:
    """Writes mapping records as JSON lines."""
    with writing(path), local_file(path) as file:
        file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
