"""What is known of a machine by mappings that were found for others, counted by the cost model."""

from __future__ import annotations

from typing import Any

import pytest

import mapspace as ms
from costmodel import accelerator, workload
from orchestrator.design.aims import Aim
from orchestrator.design.reached import NOWHERE, Point, Reached
from orchestrator.sweep.plan import Layer

WORK = "gemm:M=8,N=4,K=4"
AIMS = (Aim("energy"), Aim("latency"))
SMALL: dict[str, Any] = {"extends": "tiny3", "name": "own"}


def reached_by(*objectives: Any) -> tuple[Reached, list[ms.SearchResult]]:
    """The best mappings of one machine for these, and what a search says of each."""
    reached = Reached([Layer(workload(WORK), 1)], AIMS)
    machine = accelerator(SMALL)
    found = [ms.search(WORK, machine, objective=one, store=False) for one in objectives]
    for one in found:
        reached.add(0, machine, one.record)
    return reached, found


def point_of(result: ms.SearchResult, aim: Aim, clock: float = 1.0) -> Point:
    energy, time = result.costs.energy_pj, result.costs.latency_cycles / clock
    return Point(aim.value(energy, time, 1.0), energy, time)


def test_the_best_known_mapping_for_each_aim() -> None:
    reached, (least, fastest) = reached_by("energy", "latency")
    machine = accelerator(SMALL)
    assert reached.least(0, machine) == point_of(least, AIMS[0])
    assert reached.least(0, machine, 1).value == point_of(fastest, AIMS[1]).value
    # Times are ns: at half the clock twice as long.
    slow = accelerator({**SMALL, "clock_ghz": machine.clock_ghz / 2})
    assert reached.least(0, slow, 1).time == 2 * reached.least(0, machine, 1).time


def test_mappings_that_come_later_count_too() -> None:
    reached, (fastest,) = reached_by("latency")
    machine = accelerator(SMALL)
    assert reached.least(0, machine) == point_of(fastest, AIMS[0])
    better = ms.search(WORK, machine, objective="energy", store=False)
    reached.add(0, machine, better.record)
    assert reached.least(0, machine).value == better.costs.energy_pj <= fastest.costs.energy_pj
    reached.add(0, machine, None)
    assert reached.least(0, machine).value == better.costs.energy_pj


def test_codes_of_other_machines_are_read_where_they_mean_the_same() -> None:
    reached, (least,) = reached_by("energy")
    dearer = accelerator({**SMALL, "mac_energy_pj": accelerator(SMALL).mac_energy_pj + 1})
    assert reached.least(0, dearer).energy == pytest.approx(least.costs.energy_pj + 8 * 4 * 4)
    assert Reached([Layer(workload(WORK), 1)], AIMS).least(0, dearer) == NOWHERE
    constrained = {"constraints": [{"target": "L1", "type": "temporal", "factors": "M<=2"}]}
    apart = {"tiles": "apart"}
    for changes in (constrained, apart, {"bypass": "none"}):
        other = accelerator({**SMALL, **changes})
        assert reached.least(0, other) == NOWHERE
        # Nor are theirs taken.
        reached.add(0, other, ms.search(WORK, other, store=False).record)
        assert reached.least(0, accelerator(SMALL)) == point_of(least, AIMS[0])
