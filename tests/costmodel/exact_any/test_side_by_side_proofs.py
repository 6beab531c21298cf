"""Proofs over every order of buffers side by side: enumeration, broken rules, certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken
from small_hierarchies import random_machine
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact.certificate import ORDERS_FORMAT, Certificate, certify, read_certificate
from costmodel.exact.verification import verify
from costmodel.exact_any import side_by_side, tilings
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.prover import AnyProver
from mapspace.errors import ConfigError

MACHINE: dict[str, Any] = {
    "name": "spads",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "GLB", "capacity_words": 64, "energy_pj": 6.0, "fanout": 4},
        {"name": "in", "capacity_words": 2, "energy_pj": 1.0, "keep": ["input"], "beside": "pe"},
        {"name": "w", "capacity_words": 8, "energy_pj": 1.0, "keep": ["weight"], "beside": "pe"},
        {"name": "sum", "capacity_words": 4, "energy_pj": 1.0, "keep": ["output"], "beside": "pe"},
    ],
}
for _level, _others in zip(
    MACHINE["levels"][2:],
    (["weight", "output"], ["input", "output"], ["input", "weight"]),
    strict=True,
):
    _level["bypass"] = _others


def random_group(rng: np.random.Generator, most: int) -> tuple[MapSpace, Any]:
    """A random machine of which two or three levels lie side by side, and all its mappings."""
    while True:
        count = int(rng.integers(2, 4))
        data = {**random_machine(rng), "levels": _levels(rng, count)}
        work, _ = random_parts(rng)
        try:
            space = MapSpace(workload(_small(rng, work)), accelerator(data))
        except ConfigError:
            continue
        if space.orders is None or space.size() > 1e12:
            continue
        found = []
        for one in space.orders.spaces:
            codes = every_mapping(one, most)
            if codes is None:
                break
            found.append(codes)
        if len(found) == len(space.orders.spaces) and any(map(len, found)):
            return space, found


def _levels(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """DRAM, perhaps a buffer, the group, perhaps a register."""
    outer, inner = int(rng.integers(2)), int(rng.random() < 0.2)
    names = ["DRAM", *["GLB"] * outer, *[f"S{i}" for i in range(count)], *["REG"] * inner]
    levels: list[dict[str, Any]] = []
    for name in names:
        level: dict[str, Any] = {"name": name, "energy_pj": float(rng.choice([6.0, 2.5, 0.3]))}
        if rng.random() < 0.3:
            level["energy_pj"] = {"read": 1.0, "fill": float(rng.choice([0.5, 4.0])), "update": 2.0}
        if name == "DRAM":
            level["energy_pj"] = 200.0
        else:
            level["capacity_words"] = int(rng.choice([1, 2, 3, 4, 6, 12, 24]))
        if name.startswith("S"):
            level["beside"] = "pe"
        if rng.random() < 0.15:
            level["leakage_pj"] = 0.5
        if rng.random() < 0.15:
            level["block_words"] = 2
        if rng.random() < 0.15:
            level["bandwidth"] = float(rng.choice([0.5, 2.0]))
        levels.append(level)
    for place in (outer, outer + count):
        if rng.random() < 0.5:
            levels[place]["fanout"] = int(rng.choice([2, 4]))
            if rng.random() < 0.3:
                levels[place]["hop_energy_pj"] = 0.5
    # Mostly one tensor each, as in machines that were built.
    if rng.random() < 0.75:
        roles = rng.permutation(["input", "weight", "output"]).tolist()
        for level, role in zip(levels[1 + outer : 1 + outer + count], roles, strict=False):
            level["bypass"] = [other for other in roles if other != role]
    return levels


def _small(rng: np.random.Generator, work: dict[str, Any]) -> dict[str, Any]:
    most = int(rng.choice([2, 3, 4, 6]))
    (key, sizes), *_ = work.items()
    if key != "dimensions":
        fixed = {"stride", "dilation"}
        return {key: {d: v if d in fixed else min(v, most) for d, v in sizes.items()}}
    return {**work, "dimensions": {d: min(v, most) for d, v in sizes.items()}}


def check(seed: int, most: int) -> None:
    """Holds the proof over every order against all mappings of every order."""
    rng = np.random.default_rng(seed)
    space, found = random_group(rng, most)
    objective = OBJECTIVES[int(rng.integers(len(OBJECTIVES)))]
    assert space.orders is not None
    least, limit = np.inf, (np.inf, np.inf)
    for one, codes in zip(space.orders.spaces, found, strict=True):
        if not len(codes):
            continue
        costs = LoopNestModel().evaluate(one, codes)
        values = costs.objective(objective)
        best = int(values.argmin())
        if values[best] < least:
            least = float(values[best])
            energy = float(costs.energy_pj[best])
            limit = energy * (1 + 1e-9) + 1e-9, float(costs.latency_cycles[best])
    prover = AnyProver(space, objective=objective)
    prover.run()
    winner = LoopNestModel().evaluate(space, prover.codes())
    where = f"{objective} on {space.accelerator.model_dump()} of {space.workload}"
    assert float(winner.objective(objective)[0]) <= least * (1 + 2e-12), where
    assert AnyProver(space, objective=objective).finds_below(limit), f"a bound is too high: {where}"


@pytest.mark.parametrize(
    "block", [*range(3), *(pytest.param(block, marks=pytest.mark.slow) for block in range(3, 6))]
)
def test_equals_enumeration_of_every_order(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        check(seed, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_more_equal_enumeration_of_every_order(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check(seed, 20_000)


def _bubbled(space: MapSpace, code: Codes) -> str:
    """A tiling, with buffers sorted by name where no loop stands between them."""
    assert space.orders is not None
    levels = space.describe(code).levels
    loops = [(level.temporal, level.spatial) for level in levels]
    held = [(level.name, sorted(level.keep)) for level in levels]
    for _ in levels:
        for group in space.orders.groups:
            for at in range(group.first, group.stop - 1):
                if all(trips == 1 for trips in loops[at][0].values()):
                    held[at : at + 2] = sorted(held[at : at + 2])
    return str((held, loops))


@pytest.mark.parametrize("block", range(2))
def test_the_best_tilings_equal_those_of_every_order(block: int) -> None:
    for seed in range(2000 + 10 * block, 2010 + 10 * block):
        rng = np.random.default_rng(seed)
        space, found = random_group(rng, 1000)
        assert space.orders is not None
        least: dict[str, float] = {}
        for number, codes in enumerate(found):
            codes = space.orders.codes(number, codes)
            values = LoopNestModel().evaluate(space, codes).edp
            for code, value in zip(codes, values.tolist(), strict=True):
                key = _bubbled(space, code)
                least[key] = min(value, least.get(key, np.inf))
        top = int(rng.choice([2, 5, 20]))
        prover = AnyProver(space, top=top)
        prover.run()
        reached = LoopNestModel().evaluate(space, prover.codes()).edp
        np.testing.assert_allclose(reached, sorted(least.values())[:top], rtol=5e-12)


def _group_machine(outer: list[dict[str, Any]], inner: dict[str, Any]) -> dict[str, Any]:
    """Buffers side by side of one word's energy each above a register."""
    levels = [{"energy_pj": 1.0, "beside": "pe", **level} for level in outer[1:]]
    dram = {"name": "DRAM", "energy_pj": 10.0}
    register = {"name": "R", "energy_pj": 0.2, **inner}
    return {"name": "g", "mac_energy_pj": 0.0, "levels": [dram, outer[0], *levels, register]}


# What a guard of `descents` says, what it would be without it, and a problem where that matters.
GUARDS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    # Loops that leave X alone may not be moved outside X across spatial loops over their dimension:
    # the children would no longer hold what lies next to each other, and windows meet less often.
    "loops that cross": (
        "level == group.first",
        "False",
        {
            "dimensions": {"A": 6, "B": 2, "C": 2, "D": 2},
            "tensors": {"X": ["A + B"], "Y": ["A + C"], "Z": ["D"]},
            "output": "Z",
        },
        _group_machine(
            [
                {"name": "GLB", "energy_pj": 20.0, "capacity_words": 16, "fanout": 4},
                {"name": "S0", "capacity_words": 4, "bypass": ["weight", "output"]},
                {"name": "S1", "capacity_words": 2, "bypass": ["input", "output"]},
            ],
            {"capacity_words": 8, "bypass": ["weight", "output"]},
        ),
    ),
    # Loops that leave Y alone may not be moved inside Y where Y has windows: only without them do
    # such loops lengthen a run and change nothing else.
    "tensors that slide": (
        "not _any(sliding, inner)",
        "True",
        {
            "dimensions": {"A": 4, "B": 6, "C": 2, "D": 2},
            "tensors": {"X": ["A + B", "D"], "Y": ["A + B", "D"], "Z": ["B", "C"]},
            "output": "Z",
        },
        _group_machine(
            [
                {
                    "name": "GLB", "energy_pj": 100.0, "capacity_words": 200, "fanout": 4,
                    "bypass": ["output"],
                },
                {"name": "S0", "capacity_words": 2, "bypass": ["input", "weight"]},
                {"name": "S1", "capacity_words": 2, "bypass": ["weight", "output"]},
            ],
            {"capacity_words": 4},
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_keeps_mappings_that_no_other_order_has(
    guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of every order by itself is found, and would be lost without the guard."""
    says, without, work, machine = GUARDS[guard]
    operation = workload(work)
    space = MapSpace(operation, accelerator(machine))
    assert space.orders is not None
    alone = []
    for one in space.orders.spaces:
        prover = AnyProver(one)
        prover.run()
        alone.append(LoopNestModel().evaluate(one, prover.codes(1)).edp[0])

    def best() -> float:
        prover = AnyProver(space)
        prover.run()
        return float(LoopNestModel().evaluate(space, prover.codes(1)).edp[0])

    assert best() == pytest.approx(min(alone), rel=1e-12)
    source = Path(side_by_side.__file__).read_text()
    names = {"__name__": "broken"}
    exec(compile(broken(source, "descents", says, without), "broken", "exec"), names)
    monkeypatch.setattr(tilings, "descents", names["descents"])
    assert best() > min(alone) * 1.01


def test_a_certificate_is_of_every_order(tmp_path: Path) -> None:
    space = MapSpace(workload("gemm:M=8,N=4,K=8"), accelerator(MACHINE))
    prover = make_prover(space)
    prover.run()
    path = tmp_path / "best.json"
    path.write_text(certify(prover, 1.0).text())
    found = read_certificate(path)
    assert found.format == ORDERS_FORMAT
    verdict = verify(found, make_prover)
    assert verdict.holds, verdict.findings
    assert not any("another order" in line for line in verdict.not_verified)
    swapped = {**found.record["arch"], "levels": found.record["arch"]["levels"][::-1]}
    wrong = found.model_copy(update={"record": {**found.record, "arch": swapped}})
    assert not verify(wrong, make_prover).holds


def test_certificates_hold_whichever_order_is_the_best() -> None:
    others = 0
    for seed in range(8):
        space, _ = random_group(np.random.default_rng(seed), 300)
        prover = make_prover(space)
        prover.run()
        if prover.best_outcome is None:
            continue
        found = certify(prover, 1.0)
        verdict = verify(Certificate.model_validate_json(found.text()), make_prover)
        assert verdict.holds, (seed, verdict.findings)
        names = [level["name"] for level in found.record["arch"]["levels"]]
        others += names != list(space.accelerator.level_names)
    assert others > 0


def test_a_certificate_of_before_is_of_the_order_in_the_file() -> None:
    asked = accelerator("eyeriss")
    held = accelerator({"name": "eyeriss", "extends": "eyeriss", "orders": "searched"})
    assert asked.hash == "8e6362c43f9f6f20"  # as before there was a choice
    assert held.hash != asked.hash
    fixed = make_prover(MapSpace(workload("gemm-1024"), asked))
    fixed.run()
    new = certify(fixed, 1.0)
    assert new.format == "mapspace-certificate-3"
    assert verify(new, make_prover).holds
    # Before, a file did not say which orders count.
    old = Certificate.model_validate(new.model_copy(update={"accelerator": held}).model_dump())
    verdict = verify(old, make_prover)
    assert verdict.holds, verdict.findings
    assert "another order" in verdict.not_verified[1]
    # With the weights outermost there is a better one.
    every = MapSpace(workload("gemm-1024"), held)
    better = make_prover(every)
    better.run()
    best = certify(better, 1.0)
    assert best.format == ORDERS_FORMAT
    assert best.value < 0.995 * old.value
