"""Two mappings of one operation beside each other: costs, where they differ, which decisions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.costs import UNITS
from orchestrator.answers.limits import slowest
from orchestrator.explain.difference import Difference, differences
from orchestrator.explain.read_mapping import ReadMapping, check_same_operation
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import energy_text, latency_text, signed_percent, value_text
from orchestrator.schemas.explained import DiffAnswer, EnergyChangeAnswer


@dataclass(frozen=True)
class EnergyChange:
    """What a tensor costs at a level in both mappings.

    Attributes:
        level: the level; `network` of hops, `MAC` of the multiply-accumulates.
        tensor: the tensor; empty of the multiply-accumulates.
        first_pj: in the first mapping, pJ; 0 where it has no such level.
        second_pj: in the second, pJ.
    """

    level: str
    tensor: str
    first_pj: float
    second_pj: float

    @property
    def change_pj(self) -> float:
        """How much more the second mapping pays, pJ."""
        return self.second_pj - self.first_pj

    def to_dict(self) -> EnergyChangeAnswer:
        """For JSON."""
        return {
            "level": self.level,
            "tensor": self.tensor,
            "first_pj": self.first_pj,
            "second_pj": self.second_pj,
            "change_pj": self.change_pj,
        }


@dataclass(frozen=True, repr=False)
class ComparedMappings(Shown):
    """Two mappings of one operation.

    Attributes:
        first: a mapping.
        second: another one, perhaps on another machine.
        energy: by level and tensor, the largest change first.
        decisions: where they differ.
    """

    first: ReadMapping
    second: ReadMapping
    energy: tuple[EnergyChange, ...]
    decisions: tuple[Difference, ...]

    def to_dict(self) -> DiffAnswer:
        """What `mapspace diff --json` prints."""
        return {
            "workload": self.first.workload.name,
            "accelerators": [self.first.machine.name, self.second.machine.name],
            "first": self.first.costs,
            "second": self.second.costs,
            "change": self._changes,
            "energy": [entry.to_dict() for entry in self.energy],
            "decisions": [entry.to_dict() for entry in self.decisions],
        }

    def heading(self) -> str:
        """What is compared."""
        names = dict.fromkeys((self.first.machine.name, self.second.machine.name))
        return f"{self.first.workload.name} on {' and '.join(names)}: first -> second"

    def facts(self) -> Iterator[Fact]:
        """Costs, where the energy differs, decisions."""
        one, two = self.first, self.second
        for label, text, key in (
            ("energy", energy_of, "energy_pj"),
            ("latency", latency_of, "latency_cycles"),
            ("EDP", edp_of, "edp"),
        ):
            clocked = one.clocked and two.clocked
            key = {"latency_cycles": "latency_s", "edp": "edp_js"}.get(key, key) if clocked else key
            yield label, f"{text(one)} -> {text(two)} ({signed_percent(self._change(key))})"
        yield "limited by", f"{slowest(one.limits).name} -> {slowest(two.limits).name}"
        most = max(one.energy_pj, two.energy_pj)
        for entry in self.energy:
            if abs(entry.change_pj) >= 0.001 * most:
                what = f"{entry.tensor} at {entry.level}" if entry.tensor else entry.level
                sizes = [energy_text(size) for size in (entry.first_pj, entry.second_pj)]
                yield "energy of", f"{what}: {' -> '.join(sizes)}"
        if not self.decisions:
            yield "decisions", "the same"
        for label, decision in zip(
            itertools.chain(["decisions"], itertools.repeat("")), self.decisions, strict=False
        ):
            yield label, str(decision)

    def rows(self) -> Sequence[EnergyChangeAnswer]:
        """One row per level and tensor."""
        return [entry.to_dict() for entry in self.energy]

    @property
    def _changes(self) -> dict[str, float]:
        """Of every cost that both have."""
        one, two = (dict[str, Any](read.costs) for read in (self.first, self.second))
        return {key: _share(one[key], two[key]) for key in one if key in two}

    def _change(self, key: str) -> float:
        return self._changes[key]


def _share(first: float, second: float) -> float:
    return second / first - 1 if first else 0.0


def energy_of(read: ReadMapping) -> str:
    """A mapping's energy for people."""
    return energy_text(read.energy_pj)


def latency_of(read: ReadMapping) -> str:
    """Its latency: cycles, and what they take where that is known."""
    if not read.clocked:
        return f"{read.cycles:,.0f} cycles"
    return latency_text(read.cycles, read.machine.clock_ghz)


def edp_of(read: ReadMapping) -> str:
    """Its energy-delay product."""
    edp = read.energy_pj * read.cycles
    if not read.clocked:
        return f"{edp:.6g} {UNITS['edp']}"
    return value_text("edp", edp, read.machine.clock_ghz)


def compare(first: ReadMapping, second: ReadMapping) -> ComparedMappings:
    """Holds two mappings against each other.

    Raises:
        ConfigError: they are of different operations; says in what.
    """
    check_same_operation(first.workload, second.workload)
    energies = [_energies(read) for read in (first, second)]
    changes = [
        EnergyChange(*key, energies[0].get(key, 0.0), energies[1].get(key, 0.0))
        for key in dict.fromkeys([*energies[0], *energies[1]])
    ]
    changes.sort(key=lambda entry: -abs(entry.change_pj))
    different = differences(first.mapping, second.mapping)
    return ComparedMappings(first, second, tuple(changes), tuple(different))


def _energies(read: ReadMapping) -> dict[tuple[str, str], float]:
    """Energy by level and tensor, pJ."""
    machine, detail = read.space.in_order(read.code)[0].accelerator, read.detail
    found = {
        (level, tensor): float(detail.energy_pj[0, i, t])
        for i, level in enumerate(machine.level_names)
        for t, tensor in enumerate(read.workload.tensor_names)
    }
    for t, tensor in enumerate(read.workload.tensor_names):
        found["network", tensor] = float(detail.network_energy_pj[0, t])
    return {key: value for key, value in found.items() if value} | {
        ("MAC", ""): detail.mac_energy_pj
    }
