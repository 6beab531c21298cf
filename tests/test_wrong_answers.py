"""Answers that were once wrong, with their right values, at every door that has one.

Values are of programs that share no code with this one (tests/golden/wrong-answers): complete
enumerations, walks by hand, the real Timeloop (version 3.0.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from paths import GOLDEN

import mapspace as ms

CASES = GOLDEN / "wrong-answers"


class Case(NamedTuple):
    """A search, and energy (pJ) and cycles of its best mapping.

    options: of the search alone; a front is of all mappings.
    """

    workload: Any
    machine: Any
    objective: str
    energy: float
    cycles: int
    options: Mapping[str, Any] = MappingProxyType({})


def hops(**changes: Any) -> dict[str, Any]:
    """The machine of fail-07: hops, and tensors that may pass the elements by."""
    mesh = {"name": "L2", "capacity_words": 33, "energy_pj": 7, "fanout": 12, "mesh": [4, 3]}
    levels = [
        {"name": "DRAM", "energy_pj": 200},
        mesh | {"hop_energy_pj": 1.5} | changes,
        {"name": "L1", "capacity_words": 7, "energy_pj": 3.4},
    ]
    return {"name": "f", "mac_energy_pj": 1.0, "bypass": "searched", "levels": levels}


def two_levels(**changes: Any) -> dict[str, Any]:
    """The machine of fail-12: the same with a buffer alone."""
    dram = {"name": "DRAM", "energy_pj": 20, "fanout": 4, "mesh": [2, 2], "hop_energy_pj": 0.5}
    inner = {"name": "L1", "capacity_words": 40, "energy_pj": 2, "read_bandwidth": 1}
    levels = [dram | changes, inner]
    return {"name": "m", "mac_energy_pj": 0.5, "bypass": "searched", "levels": levels}


def leaking(**changes: Any) -> dict[str, Any]:
    """The machine of fail-13: three units that leak, of which two are used."""
    inner = {"name": "L1", "capacity_words": 100, "energy_pj": 1, "fanout": 3}
    levels = [{"name": "DRAM", "energy_pj": 1}, inner | changes]
    return {"name": "m", "mac_energy_pj": 1, "mac_leakage_pj": 100, "levels": levels}


ALIKE = {"read": 7, "fill": 7, "update": 7}
WINDOWS = {"W": ["R"], "I": ["P + 2*R"], "O": ["P"]}
ROWS = {"name": "w", "dimensions": {"P": 6, "R": 4}, "tensors": WINDOWS, "output": "O"}
SEARCHES = {
    "fail-01": Case(
        "gemm:M=6,N=4,K=8", str(CASES / "fail-01" / "m.yaml"), "edp", 12992, 64,
        {"keep": {"L2": ("Z",)}},
    ),
    "fail-04": Case("gemm:M=6,N=4,K=2", str(CASES / "fail-04" / "m.yaml"), "energy", 5050, 6),
    "fail-04c": Case("gemm:M=6,N=4,K=2", str(CASES / "fail-04" / "mc.yaml"), "energy", 5050, 6),
    "fail-05": Case("gemm:M=6,N=1,K=9", str(CASES / "fail-05" / "m.yaml"), "latency", 7512, 3),
    "fail-07": Case("gemm:M=6,N=1,K=6", hops(), "edp", 10068, 4),
    "fail-07 by action": Case("gemm:M=6,N=1,K=6", hops(energy_pj=ALIKE), "edp", 10068, 4),
    "fail-12": Case(ROWS, two_levels(), "ed2p", 942.5, 6),
    "fail-12 loose": Case(ROWS, two_levels(bandwidth=1e7), "ed2p", 942.5, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_every_door_says_the_same(name: str, tmp_path: Path) -> None:
    case = SEARCHES[name]
    asked = {"objective": case.objective, **case.options}
    right: Any = (pytest.approx(case.energy, rel=1e-12), case.cycles)
    stored = tmp_path / "store"
    answers = [
        ms.search(case.workload, case.machine, store=store, **asked)
        for store in (False, stored, stored)
    ]
    assert [one.from_store for one in answers] == [False, False, True]
    for found in answers:
        assert (found.costs.energy_pj, found.costs.latency_cycles) == right
        # Of what some levels are told to keep it is the best alone.
        assert (found.restricted or found.overall).proven
        assert found.proven is (not case.options)
        (scored,) = ms.evaluate([found.record], store=False)
        assert (scored["result"]["energy_pj"], scored["result"]["cycles"]) == right
        assert ms.verify(found).holds
    if name != "fail-04c":  # the second program counts no constraints
        assert ms.verify(answers[0], independent=True, seconds=0.3).holds
    front = ms.pareto(case.workload, case.machine, store=False)
    costs = [(point.costs.energy_pj, point.costs.latency_cycles) for point in front.points]
    assert (right in costs) is (not case.options)
    assert ms.verify(front).holds


@pytest.mark.parametrize(
    ("machine", "energy"), [(leaking(), 215.0), (leaking(leakage_pj=0.001), 215.001)]
)
def test_units_that_are_used_leak_whatever_is_written(machine: Any, energy: float) -> None:
    mapping = [{"level": "DRAM"}, {"level": "L1", "spatial": [["M", 2]]}]
    record = {"workload": "gemm:M=2,N=1,K=1", "accelerator": machine, "mapping": mapping}
    (scored,) = ms.evaluate([record], store=False)
    assert scored["result"]["energy_pj"] == pytest.approx(energy, rel=1e-12)
    found = ms.search("gemm:M=2,N=1,K=1", machine, objective="edp", store=False)
    assert found.costs.energy_pj == pytest.approx(energy, rel=1e-12)
    assert ms.verify(found, independent=True).holds
