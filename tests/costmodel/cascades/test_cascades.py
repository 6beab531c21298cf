"""Shared loops of random cascades, against a walk pass by pass; and by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from fused_walk import Choices
from random_cascades import attention_of, cascade_of, gated_of

from costmodel import accelerator, workload
from costmodel.cascades.cascade import Cascade
from costmodel.cascades.plans import plans
from costmodel.machines.accelerators import Accelerator
from costmodel.networks.chains import load_chain

Key = tuple[tuple[int, ...], tuple[frozenset[str], ...], tuple[int, ...]]


def machine_of(rng: np.random.Generator) -> Accelerator:
    """Two to four levels, the shared buffer next to the outermost."""
    dram: dict[str, Any] = {"name": "DRAM", "energy_pj": 50.0, "block_words": rng.integers(1, 3)}
    shared = {"name": "L2", "energy_pj": {"read": 3.0, "fill": 4.0, "update": 5.0}}
    shared |= {"capacity_words": int(rng.integers(8, 150)), "address_pj": 0.25}
    if rng.random() < 0.5:
        dram |= {"read_bandwidth": 2.0, "write_bandwidth": 0.5, "leakage_pj": 0.5}
        shared |= {"bandwidth": 3.0, "leakage_pj": 0.25}
    dram["block_words"] = int(dram["block_words"])
    inner = [
        {"name": f"L{place}", "energy_pj": 1.0, "capacity_words": 8}
        for place in range(int(rng.integers(0, 3)))
    ]
    levels = [dram, shared, *inner]
    return accelerator({"name": "small", "mac_energy_pj": 1.0, "levels": levels})


def check(
    seed: int, made: Callable[[np.random.Generator], Cascade] = cascade_of
) -> tuple[int, bool, bool]:
    """Holds a cascade to a walk; how many plans, whether rows overlap, whether softmax is cut."""
    rng = np.random.default_rng(seed)
    cascade, machine = made(rng), machine_of(rng)
    choices = Choices(cascade, machine, 0)
    moves: dict[Key, list[tuple[Fraction, int]]] = {}
    for factors, order in choices.loops():
        for kept in choices.choices():
            found = choices.walked(factors, order, kept)
            if found is not None:
                roles = tuple(
                    frozenset(part.roles[part.tensors[t].name] for s, t in kept if s == side)
                    for side, part in enumerate(found.parts)
                )
                key = (factors, roles, tuple(found.words))
                moves.setdefault(key, []).append((found.energy, found.cycles))
                assert found.parts == cascade.parts(factors)
    mine: dict[Key, list[tuple[Fraction, int]]] = {}
    for plan in plans(cascade, machine):
        key = (plan.factors, tuple(map(frozenset, plan.kept)), plan.words)
        mine.setdefault(key, []).append((plan.moves.energy, plan.moves.cycles))
    assert mine.keys() == moves.keys()
    for key, several in mine.items():
        for weight in (0, 1, 1000):
            assert min(e + weight * c for e, c in several) == min(
                e + weight * c for e, c in moves[key]
            ), key
    overlaps = any(
        factor > 1 and axis.overlaps
        for key in mine
        for factor, axis in zip(key[0], cascade.shared, strict=True)
    )
    rows = any(
        factor > 1 and axis.of_rows
        for key in mine
        for factor, axis in zip(key[0], cascade.shared, strict=True)
    )
    return len(mine), overlaps, rows


def test_a_window_by_hand() -> None:
    """Eight rows of two channels, of which each row behind reads three: four rows for two.

    Two rows of the second operator read four of the first's. Three passes compute twelve rows of
    eight. The second sums over the channels, so the first cannot leave them out.
    """
    first = workload(
        {
            "name": "narrow",
            "dimensions": {"K": 2, "C": 3, "P": 8},
            "tensors": {"W": ["K", "C"], "I": ["C", "P"], "O": ["K", "P"]},
            "output": "O",
            "roles": {"W": "weight"},
        }
    )
    then = workload(
        {
            "name": "window",
            "dimensions": {"K": 5, "C": 2, "P": 6, "R": 3},
            "tensors": {"W": ["K", "C", "R"], "I": ["C", "P + R"], "O": ["K", "P"]},
            "output": "O",
            "roles": {"W": "weight"},
        }
    )
    levels = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 64},
    ]
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": levels})
    cascade = Cascade.of(first, then)
    assert cascade.axes == (("K", "C"), ("P", "P"))
    parts = cascade.parts((1, 3))
    assert [part.dimensions["P"] for part in parts] == [4, 2]
    rows = next(p for p in plans(cascade, machine) if p.factors == (1, 3) and not any(p.kept))
    assert rows.words == (2 * 4, 2 * 4)
    weights = (("weight",), ("weight",))
    plan = next(p for p in plans(cascade, machine) if p.factors == (1, 3) and p.kept == weights)
    assert plan.words == (8 + 6 + 30, 8 + 6 + 30)
    assert plan.moves == ((6 + 30) * (100 + 2), 0)  # once: no pass brings others


def test_blocks_of_published_networks() -> None:
    """A bottleneck's channels go through, the last sum excepted; a residual block's rows do."""
    for name, place, axes in (
        ("mobilenetv2", 6, (("K", "G", "C"), ("P", "P", "P"))),
        ("resnet50", 5, (("P", "P", "P"),)),
    ):
        _, steps = load_chain(name)
        block = Cascade.of(*(step.workload for step in steps[place : place + 3]))
        assert block.axes == axes, name
        assert block.shared[-1].tiles(28) == (4, 2, 2), name
        assert block.shared[-1].overlaps, name


def test_what_is_summed_over_closes_before_the_next() -> None:
    """Columns of a product are summed over by the next, which may be cut where that is the last."""
    chain = [workload({"name": f"p{n}", "gemm": {"M": 4, "N": 6, "K": 6}}) for n in range(3)]
    assert Cascade.of(*chain[:2]).axes == (("M", "M"), ("N", "K"))
    assert Cascade.of(*chain).axes == (("M", "M", "M"),)
    assert Cascade.of(*chain, between=["softmax", "softmax"]).axes == (("M", "M", "M"),)
    softmax = Cascade.of(*chain[:2], between=["softmax"])
    assert softmax.axes == (("M", "M"), ("N", "K"))
    assert [axis.of_rows for axis in softmax.shared] == [False, True]
    assert Cascade.of(*chain[:2], between=["normalisation"]).axes == (("M", "M"),)


def test_every_plan_and_its_moves_are_those_of_a_walk() -> None:
    found = [check(seed) for seed in range(8)]
    assert sum(overlaps for _, overlaps, _ in found) > 1
    assert sum(count for count, _, _ in found) > 60


def test_heads_are_told_apart_as_in_a_walk() -> None:
    found = [check(seed, attention_of) for seed in range(8)]
    assert sum(count for count, _, _ in found) > 40
    assert sum(rows for _, _, rows in found) > 0


def test_gates_are_beside_what_they_gate_as_in_a_walk() -> None:
    assert sum(check(seed, gated_of)[0] for seed in range(12)) > 60


def test_a_gated_block_by_hand() -> None:
    """A gate beside every column; the activation writes half of the words that it reads."""
    _, steps = load_chain("llama3-8b")
    up, down = steps[5:7]
    assert (up.workload.name, up.count, up.workload.dimensions["N"]) == (
        "llama3-8b-gate-up", 32, 2 * 14336,
    )  # fmt: skip
    assert (down.source, down.operator) == (5, "activation")
    block = Cascade.of(up.workload, down.workload, between=["activation"], counted=True)
    assert [axis.sizes for axis in block.shared] == [(2048, 2048), (28672, 14336)]
    parts = block.parts((64, 7))
    assert [part.dimensions["M"] for part in parts] == [32, 32]
    assert (parts[0].dimensions["N"], parts[1].dimensions["K"]) == (4096, 2048)
    levels = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": {"read": 1.0, "fill": 1.0, "update": 10.0},
         "capacity_words": 10**6},
    ]  # fmt: skip
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": levels})
    plan = next(p for p in plans(block, machine) if p.factors == (64, 1) and not any(p.kept))
    assert plan.moves == (2048 * 28672 * 1 + 2048 * 14336 * 10, 0)


def test_attention_of_published_networks() -> None:
    """Keys are shared by four heads, whose rows of a token follow each other."""
    for name, sizes in (
        ("bert-base:sequence=128", ((128,) * 4, (768, 12, 12, 768))),
        ("llama3-8b", ((2048, 8192, 8192, 2048), (4096, 8, 8, 4096))),
    ):
        _, steps = load_chain(name)
        block = Cascade.of(*(step.workload for step in steps[1:5]), between=[None, "softmax"])
        assert tuple(axis.sizes for axis in block.shared) == sizes
    parts = block.parts((4, 2))
    assert [part.dimensions["M"] for part in parts] == [512, 2048, 2048, 512]
    assert [parts[0].dimensions["N"], parts[1].dimensions["H"]] == [2048, 4]
    _, steps = load_chain("llama3-8b:phase=decode,batch=4")
    assert [step.source for step in steps[:5]] == [None, None, None, 2, None]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_plans_are_those_of_a_walk(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check(seed)
        check(seed, attention_of)
        check(seed, gated_of)
