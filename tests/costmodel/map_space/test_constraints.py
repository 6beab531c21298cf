"""A mapper's constraints: sizes as Timeloop prints them, what they mean, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from whole_spaces import golden, rules_of_record

from costmodel import MapSpace, accelerator, workload
from costmodel.map_space.constraint_reading import read_constraints
from costmodel.map_space.constraints import Constraints, LoopRules, machine_constraints
from mapspace.errors import ConfigError

MACHINE = accelerator(
    {
        "name": "machine",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "L2", "capacity_words": 64, "energy_pj": 6.0, "fanout": 6, "mesh": [3, 2]},
            {"name": "L1", "capacity_words": 8, "energy_pj": 1.0},
        ],
    }
)
SIZES = {"M": 12, "N": 4, "K": 6}
TENSORS = ("A", "B", "Z")


def read(*entries: dict[str, Any]) -> Constraints:
    return read_constraints(list(entries), SIZES, TENSORS, MACHINE)


def test_sizes_of_map_spaces_and_refusals_are_timeloops() -> None:
    refused = 0
    for record in golden("constraints"):
        if record["error"] is not None:
            dimension = re.search(r"bound (\w+)", record["error"])
            assert dimension is not None
            with pytest.raises(ConfigError, match=rf"factors of {dimension[1]} "):
                rules_of_record(record)
            refused += 1
            continue
        rules = rules_of_record(record)
        expected = {part: int(size) for part, size in record["map_space"].items()}
        assert rules.sizes_of_parts() == expected, record["constraints"]
        counts = [len(rules.rows(d)) for d in range(len(rules.sizes))]
        assert counts == [int(count) for count in record["factorizations"].values()]
    assert refused == 142


def test_says_what_is_left_of_a_level() -> None:
    rules = read(
        {"target": "DRAM", "type": "temporal", "factors": "M=0 N<=2", "permutation": "K_M"},
        {"target": "L2", "type": "spatial", "factors": ["K>=2, N1"], "split": 1},
        {"target": "L2", "type": "datatype", "keep": ["A"], "bypass": ["Z"]},
        {"name": "L1", "type": "utilization", "attributes": {"min": 0.5}},
    )
    assert rules.temporal[0] == LoopRules((12, 1, 1), (12, 2, 6), inner=(2,), outer=(0,))
    assert rules.spatial == (None, LoopRules((1, 1, 2), (12, 1, 6), split=1), None)
    # Nothing is kept below the innermost loops, so the problem's order stands for all.
    assert rules.temporal[2].inner == (0, 1, 2)
    assert [rules.keeps(level) for level in range(3)] == [(7,), (1, 3), tuple(range(8))]
    assert rules.parallelism == 0.5


def test_defaults_hold_of_dimensions_without_a_factor() -> None:
    rules = read(
        {"target": "L2", "type": "temporal", "factors": "M<=6 N=100", "default_max_factor": 2}
    )
    # A fixed factor larger than the dimension says nothing.
    assert rules.temporal[1].most == (6, 2, 2)


@pytest.mark.parametrize(
    ("order", "allowed"),
    [
        ((1, 0, 2), True),
        ((0, 1, 2), True),
        ((1, 2, 0), False),
        ((2, 1, 0), False),
    ],
)
def test_an_order_is_allowed_where_named_loops_stand_in_their_places(
    order: tuple[int, ...], allowed: bool
) -> None:
    rules = LoopRules((1, 1, 1), (4, 4, 4), inner=(2,))
    assert rules.allows((2, 2, 2), order) is allowed
    # Loops of one iteration stand nowhere.
    assert rules.allows((2, 2, 1), order)


@pytest.mark.parametrize("outermost", [True, False])
def test_a_machine_keeps_what_it_does_not_leave_open(outermost: bool) -> None:
    """A, B and Z are bits 1, 2 and 4; B is the weight."""
    work = workload("gemm:M=12,N=4,K=6")
    dram, buffer, inner = MACHINE.model_dump()["levels"]
    told = {"name": "machine", "mac_energy_pj": 1.0}
    fixed = accelerator({**told, "levels": [dram, {**buffer, "bypass": ["weight"]}, inner]})
    own = machine_constraints(work, fixed, outermost=outermost)
    assert (own.keep, own.bypass) == ((7, 5, 7), (0, 2, 0))
    level = {**buffer, "bypass": ["weight"], "keep": ["output"]}
    free = accelerator({**told, "bypass": "searched", "levels": [dram, level, inner]})
    own = machine_constraints(work, free, outermost=outermost)
    assert (own.keep, own.bypass) == ((7 if outermost else 0, 4, 0), (0, 2, 0))


def test_what_is_both_kept_and_bypassed_is_refused() -> None:
    work = workload("gemm:M=12,N=4,K=6")
    dram, buffer, inner = MACHINE.model_dump()["levels"]
    levels = [dram, {**buffer, "bypass": ["weight"]}, inner]
    told = {"name": "machine", "mac_energy_pj": 1.0, "bypass": "searched", "levels": levels}
    machine = accelerator(told)
    rules = machine_constraints(work, machine)
    assert MapSpace(work, machine, replace(rules, keep=(7, 1, 0))).constraints is not None
    with pytest.raises(ConfigError, match=r"both kept and bypassed at level 1 \(0 is the"):
        MapSpace(work, machine, replace(rules, keep=(7, 3, 0)))


def test_a_split_counts_dimensions_without_loops() -> None:
    rules = LoopRules((1, 1, 1), (4, 4, 4), inner=(2,), split=2)
    assert rules.allows((2, 2, 2), (0, 1, 2), height=0b001)
    assert rules.allows((2, 2, 2), (1, 0, 2), height=0b010)
    assert rules.allows((2, 1, 1), (0,), height=0b001)
    assert rules.allows((2, 1, 1), (0,), height=0)
    assert not rules.allows((2, 2, 1), (0, 1), height=0)
    assert not rules.allows((1, 1, 2), (2,), height=0b100)


def test_what_is_allowed_is_what_some_order_and_split_make() -> None:
    for inner, outer, split in [((), (), None), ((1,), (0,), 1), ((2, 0), (), None), ((), (1,), 2)]:
        rules = LoopRules((1,) * 4, (2,) * 4, inner, outer, split)
        for factors in [(2, 2, 2, 2), (2, 1, 2, 2), (1, 2, 2, 1)]:
            made = set()
            for order in rules.orders():
                for cut in rules.splits():
                    height = sum(1 << d for d in order[: 4 - cut] if factors[d] > 1)
                    made.add((tuple(d for d in order if factors[d] > 1), height))
            free = LoopRules((1,) * 4, (2,) * 4)
            loops = {tuple(d for d in order if factors[d] > 1) for order in free.orders()}
            found = {
                (tuple(sorted(order, key=lambda d: not (height >> d) & 1)), height)
                for order in loops
                for height in range(16)
                if not height & sum(1 << d for d in range(4) if factors[d] == 1)
                and rules.allows(factors, order, height)
            }
            assert found == made


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"target": "L3", "type": "temporal"}, "constraints[0].target: expected one of DRAM"),
        ({"target": "L1", "type": "loops"}, "constraints[0].type: expected"),
        ({"target": "L1", "type": "temporal", "split": 1}, "split: temporal has no such key"),
        ({"target": "L1", "type": "spatial"}, "constraints[0].type: L1 has one child"),
        ({"target": "L1", "type": "temporal", "factors": "X=2"}, "constraints[0].factors: expec"),
        ({"target": "L1", "type": "temporal", "factors": "M=2 M=3"}, "factors: M: an entry befor"),
        ({"target": "L1", "type": "temporal", "permutation": "MM"}, "permutation: expected each"),
        ({"target": "L1", "type": "bypass", "keep": ["A"], "bypass": ["A"]}, "under keep as well"),
        ({"target": "L1", "type": "bypass", "keep": ["W"]}, "keep: expected one of A, B, Z, got"),
        ({"target": "L2", "type": "parallelism", "min": 1.0}, "expected the innermost level, L1"),
        ({"target": "L1", "type": "parallelism", "min": 2}, "constraints[0].min: expected"),
        (
            {"level": "L2", "type": "temporal", "factors": "K=4"},
            "level: unknown key; the level's name stands under target",
        ),
        (
            {"target": "L2", "type": "spatial", "attributes": {"split": 1}},
            "attributes.split: Timeloop does not read it there",
        ),
        ({"target": "L1", "type": "temporal", "factors": "M=5"}, "factors of M multiply to 5"),
    ],
)
def test_refuses_in_one_line(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(entry)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
