"""Where no mapping is feasible: what would admit one, against trying every amount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from costmodel.explanation.admitting import what_would_admit
from costmodel.loop_nest.enumeration import whole_space
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from orchestrator.search.nothing_left import admitting_text, excluded_text

WORK = workload("gemm:M=8,N=8,K=8")


def machine(glb: int, pe: int, *, fanout: int = 4, **more: Any) -> dict[str, Any]:
    full = more.pop("full", 0.0)
    return {
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "GLB", "energy_pj": 6.0, "capacity_words": glb, "fanout": fanout},
            {"name": "PE", "energy_pj": 1.0, "capacity_words": pe, "min_utilisation": full},
        ],
        "mac_energy_pj": 1.0,
        **more,
    }


def constraint(target: str, kind: str, *factors: str) -> dict[str, Any]:
    return {"target": target, "type": kind, "factors": list(factors)}


def feasible(content: dict[str, Any]) -> bool:
    try:
        whole = whole_space(MapSpace(WORK, accelerator(content)))
    except ConfigError:
        return False
    assert whole is not None
    return whole.any_valid()


def least(amounts: Sequence[int], **changed: Any) -> int:
    return next(amount for amount in amounts if feasible(_machine(amount, changed)))


def _machine(amount: int, changed: dict[str, Any]) -> dict[str, Any]:
    sizes = {"glb": 400, "pe": 16, **changed}
    return machine(**{key: amount if value == "?" else value for key, value in sizes.items()})


def test_one_capacity() -> None:
    rules = [constraint("PE", "temporal", "M=8")]
    space = MapSpace(WORK, accelerator(machine(400, 16, constraints=rules)))
    (change,), single = what_would_admit(space)
    wanted = least(range(16, 100), pe="?", constraints=rules)
    assert (change.what, change.needed, change.least, single) == ("PE capacity", wanted, True, True)
    # One column of A, one of Z, and a word of B.
    assert wanted == 8 + 8 + 1
    said, _, closest = admitting_text(space).partition(" The mapping that comes closest")
    assert said.endswith("PE capacity of at least 17 words (16 now).")
    loops = closest.removeprefix(" needs just that: ").rstrip(".").split(" | ")
    assert loops[-1] == "PE M8"


def test_how_much_each_constraint_excludes() -> None:
    rules = [
        constraint("PE", "temporal", "M=8", "N<=8"),
        {"target": "GLB", "type": "temporal", "permutation": "MNK"},
    ]
    space = MapSpace(WORK, accelerator(machine(400, 16, constraints=rules)))
    # 8 = 2^3 over three loops in time and one across: one of 20 ways has it all at PE.
    assert excluded_text(space) == (
        " By themselves these exclude, orders aside: PE temporal factors M=8 95.00 %."
    )
    assert excluded_text(MapSpace(WORK, accelerator(machine(400, 16)))) == ""


def test_instances() -> None:
    rules = [constraint("GLB", "spatial", "M=8")]
    (change,), single = what_would_admit(
        MapSpace(WORK, accelerator(machine(400, 16, constraints=rules)))
    )
    wanted = least(range(4, 33), fanout="?", constraints=rules)
    assert (change.what, change.needed, single) == ("GLB width", wanted, True)


def test_capacities_that_only_help_together() -> None:
    rules = [constraint("PE", "temporal", "M=8", "N=4")]
    changes, single = what_would_admit(
        MapSpace(WORK, accelerator(machine(20, 16, constraints=rules)))
    )
    assert not single
    needed = {change.what: int(change.needed) for change in changes}
    assert needed == {"GLB capacity": 44, "PE capacity": 44}
    sizes = {"glb": 44, "pe": 44, "constraints": rules}
    assert feasible(machine(**sizes))
    for key in ("glb", "pe"):
        assert not feasible(machine(**{**sizes, key: 43}))


def test_a_least_utilisation() -> None:
    space = MapSpace(WORK, accelerator(machine(220, 19, full=1.0)))
    changes, single = what_would_admit(space)
    found = {change.what: change.needed for change in changes}
    assert single
    assert found == {"PE capacity": 20, "PE min_utilisation": pytest.approx(17 / 19)}
    assert feasible(machine(220, 20, full=1.0))
    assert feasible(machine(220, 19, full=17 / 19))
    assert not feasible(machine(220, 19, full=17.5 / 19))
