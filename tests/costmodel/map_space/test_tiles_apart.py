"""Tensors of one memory at loops of their own: counted by hand, refused in a line, at the doors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator
from costmodel.exact.certificate import certify
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.independent.check import Claim, look_again
from costmodel.loop_nest.records import mapping_record
from costmodel.map_space.space_rules import space_rules
from mapspace.errors import ConfigError

PRODUCT = {
    "dimensions": {"M": 4, "N": 4},
    "tensors": {"A": ["M"], "B": ["N"], "Z": ["M", "N"]},
    "output": "Z",
}


def machine(capacity: int = 6, **said: Any) -> dict[str, Any]:
    """DRAM at 10 pJ and a buffer at 1 pJ; keys of the buffer go there, others to the machine."""
    buffer = {"name": "L", "capacity_words": capacity, "energy_pj": 1.0}
    of_machine = {"overflow", "factors", "constraints", "bypass", "tiles", "axes", "orders"}
    buffer |= {key: value for key, value in said.items() if key not in of_machine}
    whole = {key: value for key, value in said.items() if key in of_machine}
    return {
        "name": "two", "mac_energy_pj": 0.0,
        "levels": [{"name": "DRAM", "energy_pj": 10.0}, buffer], **whole,
    }  # fmt: skip


@pytest.mark.parametrize(("tiles", "energy"), [("together", 340), ("apart", 296)])
def test_an_outer_product_counted_by_hand(tiles: str, energy: float) -> None:
    """All of A, a word of B and one of Z fit 6 words where each has its own place.

    Then DRAM moves every word once, 4 + 4 + 16; with 2 x 1 tiles at one place B goes twice. The
    buffer is filled with what DRAM reads, read 16 times for each input, and updated 16 times.
    """
    found = ms.search(PRODUCT, machine(tiles=tiles), objective="energy", store=False)
    assert found.proven
    assert found.costs.energy_pj == energy
    asked = ms.search(PRODUCT, machine(), objective="energy", tiles=tiles, store=False)
    assert asked.costs.energy_pj == energy
    (scored,) = ms.evaluate([found.record])
    assert scored["result"]["energy_pj"] == energy


def test_one_room_and_one_set_of_ports() -> None:
    apart = MapSpace(PRODUCT, machine(tiles="apart", bandwidth=1.0, leakage_pj=0.5))
    assert [level.shares for level in apart.accelerator.levels] == [None, "L", "L", "L"]
    prover = AnyProver(apart, objective="energy")
    prover.run()
    costs = LoopNestModel().evaluate(apart, prover.codes(), detail=True)
    assert costs.detail is not None
    words = costs.detail.reads + costs.detail.fills + costs.detail.updates
    moved = int(words[0, 1:].sum())
    assert moved == 56
    assert costs.latency_cycles[0] == moved
    assert costs.energy_pj[0] == 296 + 0.5 * moved
    room = [tile[1:].sum() for tile in costs.detail.tile]
    assert max(room) <= 6


def test_a_record_whose_tiles_do_not_fit_together_says_so() -> None:
    space = MapSpace(PRODUCT, machine(tiles="apart"))
    wide = MapSpace(PRODUCT, machine(7, tiles="apart"))
    rng = np.random.default_rng(0)
    codes = wide.sample(rng, 2000, feasible=True)
    codes = codes[~space.feasible(codes)]
    assert len(codes)
    record = mapping_record(wide, codes[0])
    for level in record["arch"]["levels"][1:]:
        level["size_words"] = 6
    (scored,) = ms.evaluate([record])
    assert scored["result"]["valid"] is False
    assert "together: mapped tile size 7 exceeds buffer capacity 6" in scored["result"]["why"]


def test_what_a_room_must_hold_at_least_its_tiles_hold_together() -> None:
    space = MapSpace(PRODUCT, machine(12, tiles="apart", min_utilisation=0.75))
    codes = space.sample(np.random.default_rng(0), 4000)
    detail = LoopNestModel().evaluate(space, codes, detail=True).detail
    assert detail is not None
    held = detail.tile[:, 1:].sum(axis=(1, 2))
    feasible = space.feasible(codes)
    assert feasible.any()
    assert (held[feasible] >= 9).all()
    assert (held[feasible] <= 12).all()
    prover = AnyProver(space, objective="energy")
    prover.run()
    found = LoopNestModel().evaluate(space, prover.codes())
    best = LoopNestModel().evaluate(space, codes).energy_pj.min()
    assert found.energy_pj[0] <= best


@pytest.mark.parametrize("searcher", ["random", "annealing", "genetic", "structured"])
def test_searchers_find_it(searcher: str) -> None:
    found = ms.search(
        PRODUCT, machine(tiles="apart"), objective="energy", searcher=searcher, iterations=3000,
        store=False,
    )  # fmt: skip
    assert 296 <= found.costs.energy_pj < 340


def test_certificates_hold_and_are_settled_without_the_prover() -> None:
    space = MapSpace(PRODUCT, machine(tiles="apart"))
    prover = AnyProver(space, objective="energy")
    prover.run()
    certificate = certify(prover, seconds=1.0)
    assert verify(certificate, make_prover).holds
    one, code = space.in_order(prover.codes()[0])
    claim = Claim(
        one.workload, one.accelerator, None, "energy", one.describe(code),
        *_exact(prover),
    )  # fmt: skip
    look = look_again(claim)
    assert look.holds
    assert look.complete


def _exact(prover: AnyProver) -> tuple[Any, Any]:
    assert prover.best_outcome is not None
    energy, cycles = prover.best_outcome
    cost = energy * prover.unit_pj, cycles
    return cost, cost


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"banks": 3}, "tiles: apart has no banks yet, got 3"),
        ({"overflow": "bypass"}, "tiles: apart needs overflow: invalid, got bypass"),
        ({"factors": "imperfect"}, "tiles: apart needs factors: perfect, got imperfect"),
        (
            {"constraints": [{"target": "L", "type": "temporal", "factors": "M=1"}]},
            "constraints[0].target: L has tiles: apart",
        ),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MapSpace(PRODUCT, machine(tiles="apart", **said))
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_parts_that_are_called_like_a_level_or_are_too_many_are_refused() -> None:
    twice = machine(tiles="apart")
    twice["levels"].append({"name": "L-A", "capacity_words": 3, "energy_pj": 1.0})
    with pytest.raises(ConfigError, match=r"levels\[L-A\].name: a part of a level"):
        MapSpace(PRODUCT, {**twice, "tiles": "together", "levels": _apart(twice["levels"], 1)})
    many = machine(tiles="apart")
    many["levels"] += [
        {"name": f"R{index}", "capacity_words": 3, "energy_pj": 1.0} for index in range(5)
    ]
    with pytest.raises(ConfigError, match="makes 19 levels of 7, a part for each tensor"):
        MapSpace(PRODUCT, many)


def _apart(levels: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    return [level | ({"tiles": "apart"} if k == index else {}) for k, level in enumerate(levels)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"capacity_words": 7}, "L0 and L1 share one room; expected the same of both, got 6 and 7"),
        ({"shares": None}, None),
        ({"banks": 2}, "share one room; expected the same of both"),
    ],
)
def test_rooms_are_shared_by_alike_levels(changes: dict[str, Any], why: str | None) -> None:
    part = {"capacity_words": 6, "energy_pj": 1.0, "beside": "L", "shares": "L"}
    levels = [{"name": "DRAM", "energy_pj": 10.0}, {"name": "L0", **part}, {"name": "L1", **part}]
    levels[2].update(changes)
    said = {"name": "m", "mac_energy_pj": 1.0, "levels": levels}
    if why is None:
        accelerator(said)
        return
    with pytest.raises(ConfigError) as refused:
        accelerator(said)
    assert why in str(refused.value)


def test_two_writings_are_one_machine_and_what_says_nothing_changes_nothing() -> None:
    whole, one = accelerator(machine(tiles="apart")), machine()
    one["levels"][1]["tiles"] = "apart"
    assert accelerator(one).hash == whole.hash
    assert accelerator(machine(tiles="together")).hash == accelerator(machine()).hash != whole.hash
    # One tensor has one place in any case.
    lone = MapSpace(PRODUCT, machine(tiles="apart", bypass="none", keep=["A"]))
    assert len(lone.accelerator.levels) == 4
    level = {"name": "L", "capacity_words": 6, "energy_pj": 1.0, "keep": ["A"], "tiles": "apart"}
    said = machine() | {"levels": [machine()["levels"][0], {**level, "bypass": ["B", "Z"]}]}
    assert MapSpace(PRODUCT, said).accelerator.level_names == ("DRAM", "L")


def test_what_is_kept_is_said_by_level_or_by_constraint() -> None:
    free = machine(tiles="apart", bypass="searched")
    asked = ms.search(PRODUCT, free, objective="energy", keep={"L": ["A", "Z"]}, store=False)
    kept = {
        level["level"]: level["keep"]
        for level in asked.record["mapping"]
        if level["level"] != "DRAM"
    }
    assert kept == {"L-A": ["A"], "L-B": [], "L-Z": ["Z"]}
    entry = {"target": "L", "type": "bypass", "keep": ["A", "Z"], "bypass": ["B"]}
    told = ms.search(PRODUCT, {**free, "constraints": [entry]}, objective="energy", store=False)
    assert told.costs.energy_pj == asked.costs.energy_pj
    with pytest.raises(ConfigError, match="unknown level 'X'"):
        ms.search(PRODUCT, free, keep={"X": ["A"]}, store=False)


def test_the_rules_name_the_levels() -> None:
    rules = space_rules(accelerator(machine(tiles="apart")))
    assert "; tiles of L at loops of their own; all tiles of another level at one place" in rules
    found = ms.search(PRODUCT, machine(tiles="apart"), objective="energy", store=False)
    assert "tiles of L at loops of their own" in json.loads(json.dumps(found.to_dict()))["space"]


def test_timeloop_has_no_place_for_them() -> None:
    found = ms.search(PRODUCT, machine(tiles="apart"), objective="energy", store=False)
    with pytest.raises(ConfigError, match=r"L-A\.shares"):
        ms.to_timeloop(found.record)
    with pytest.raises(ConfigError, match=r"two\.L\.tiles: apart"):
        ms.to_timeloop(PRODUCT, machine(tiles="apart"))
