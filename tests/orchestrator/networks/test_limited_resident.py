"""What stays on the chip under a limit, against every choice of it, and through the command."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from fused_walk import every_cascade, every_way
from test_fused import small_pair
from test_jointly import Pairs
from test_resident import chain_of, every_stay, fronts_of, machine_of

import mapspace as ms
from costmodel import accelerator
from costmodel.machines.accelerators import Accelerator
from costmodel.networks.chains import Step
from mapspace.errors import ConfigError
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.layer_lines import begin_all
from orchestrator.networks.limited_resident import LimitedResident
from orchestrator.networks.lines import Limit
from orchestrator.networks.resident import Ways
from orchestrator.networks.time_left import TimeLeft


def undominated(sums: Pairs) -> Pairs:
    """Of energies and cycles those that no other beats."""
    kept: Pairs = []
    for energy, cycles in sorted(set(sums), key=lambda one: (one[1], one[0])):
        if not kept or energy < kept[-1][0]:
            kept.append((energy, cycles))
    return kept


def random_chain(
    rng: np.random.Generator, most: int, fused: bool
) -> tuple[list[Step], Accelerator, Pairs]:
    """A chain, a machine, and what one run of the chain can cost."""
    while True:
        steps, machine = chain_of(rng), accelerator(machine_of(rng))
        fronts = fronts_of(steps, machine, most)
        if fronts is None or not all(fronts[place, (), ()] for place in range(len(steps))):
            continue
        sums = every_stay(steps, fronts)
        if not fused:
            return steps, machine, undominated(sums)
        if any(step.until > place + 1 for place, step in enumerate(steps)):
            continue
        try:
            sums = every_way(steps, fronts, every_cascade(steps, machine, most))
        except OverflowError:
            continue
        return steps, machine, undominated(sums)


def check(seed: int, most: int, *, fused: bool = False) -> tuple[int, int]:
    """Holds optima under limits against all choices; how many are above the lines, and split."""
    rng = np.random.default_rng(seed)
    steps, machine, once = random_chain(rng, most, fused)
    count = int(rng.integers(1, 3))
    steps = [replace(step, count=count) for step in steps]
    some = itertools.combinations_with_replacement(once, count)
    sums = undominated([(sum(e for e, _ in one), sum(c for _, c in one)) for one in some])
    ways = Ways(steps, machine, fused=fused)
    begin_all(ways.layers, TimeLeft(60.0))
    above, split = 0, 0
    for energy, cycles in sums[:: max(1, len(sums) // 3)]:
        most_energy = Fraction(energy * (1 + 1e-9))
        for limit in (Limit(cycles=int(cycles)), Limit(energy=most_energy)):
            proof = LimitedResident(ways, limit)
            found = proof.run()
            if limit.energy is None:
                least = min(e for e, c in sums if c <= cycles)
            else:
                least = min(c for e, c in sums if e <= most_energy)
            where = f"{limit} of seed {seed}"
            assert float(found.value) == pytest.approx(least, rel=1e-9), where
            assert limit.admits(found.energy, found.cycles), where
            assert found.gap == 0, where
            costs = list(zip(proof.steps, found.choice, proof.path, strict=True))
            assert sum(step.count * point.energy for step, point, _ in costs) == found.energy
            assert sum(step.count for step in proof.steps) == count * len(steps)
            above += found.fronts
            split += len(proof.steps) > len(steps)
    fuses = any(isinstance(way.lines, CascadeLines) for way in proof.path)
    return above, split + fuses


def test_equals_every_choice_within_a_limit() -> None:
    found = [check(seed, 300) for seed in range(3)]
    assert sum(above for above, _ in found) > 0
    assert sum(split for _, split in found) > 0


def test_fused_equals_every_choice_within_a_limit() -> None:
    found = [check(seed, 300, fused=True) for seed in range(5)]
    assert sum(above for above, _ in found) > 3
    assert sum(split for _, split in found) > 3


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("fused", [False, True])
def test_more_equal_every_choice_within_a_limit(block: int, fused: bool) -> None:
    for seed in range(100 + 12 * block, 112 + 12 * block):
        check(seed, 400 if fused else 2000, fused=fused)


def bounded_pair(folder: Path) -> tuple[Path, Path]:
    """A network whose tensor stays or not, on a machine whose limits make both of use."""
    network, machine = small_pair(folder, 22)
    said = json.loads(machine.read_text())
    said["levels"][0] |= {"read_bandwidth": 0.5, "write_bandwidth": 0.25}
    said["levels"][1] |= {"read_bandwidth": 1.0, "write_bandwidth": 0.5}
    machine.write_text(json.dumps(said))
    return network, machine


@pytest.mark.parametrize("fused", [False, True])
def test_a_limit_is_certified_and_proven_again(
    fused: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, machine = bounded_pair(tmp_path)
    options: dict[str, Any] = {"jointly": True, "resident": True, "moves": True, "fused": fused}
    least = ms.search_network(str(network), str(machine), objective="energy", **options)
    fewest = ms.search_network(str(network), str(machine), objective="latency", **options)
    assert fewest.costs.latency_cycles < least.costs.latency_cycles
    most = int(least.costs.latency_cycles) - 1
    output = tmp_path / "found.jsonl"
    asked = ("search", "--network", network, "--jointly", "--resident", "--accelerator", machine)
    asked = (*asked, *(("--fused",) if fused else ()), "--objective", "energy", "--moves")
    assert call(*asked, "--max-cycles", most, "--output", output, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["max_cycles"] == most
    assert said["totals"]["latency_cycles"] <= most
    assert said["totals"]["energy_pj"] > least.costs.energy_pj
    assert said["totals"]["proven"]
    assert sum(layer["count"] for layer in said["layers"]) == 6
    assert sum(n["count"] * n["energy_pj"] for n in said["layers"]) == pytest.approx(
        said["totals"]["energy_pj"]
    )
    certificate = tmp_path / "found.certificate.json"
    assert call("verify", certificate) == 0
    capsys.readouterr()
    content = json.loads(certificate.read_text())
    assert content["fronts"]
    if fused:
        return
    tighter: Callable[[dict[str, object]], None] = lambda c: c.update(most_cycles=1)  # noqa: E731
    for change, wrong in (
        (tighter, "they are not within 1 cycles"),
        (lambda c: c.update(fronts=False), "the lines say"),
        (lambda c: c.update(most_cycles=10**9), "the fronts of all ways have one of"),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        certificate.write_text(json.dumps(changed))
        assert call("verify", certificate) == 1
        assert wrong in capsys.readouterr().out
    certificate.write_text(json.dumps({**content, "objective": "edp"}))
    assert call("verify", certificate) == 2
    assert "expected it of the objective energy alone" in capsys.readouterr().err


def test_a_limit_that_only_what_stays_meets(tmp_path: Path) -> None:
    network, machine = bounded_pair(tmp_path)
    options: dict[str, Any] = {"jointly": True, "objective": "latency"}
    alone = ms.search_network(str(network), str(machine), **options)
    stays = ms.search_network(str(network), str(machine), resident=True, **options)
    most = int(stays.costs.latency_cycles)
    assert most < alone.costs.latency_cycles
    options |= {"objective": "energy", "max_cycles": most, "resident": True}
    found = ms.search_network(str(network), str(machine), **options)
    assert found.alone is None
    assert found.worth is None
    assert found.proven
    assert f"nothing is known within {most:,} cycles where nothing stays" in found.picture()
    with pytest.raises(ConfigError, match="no mappings of the network take less than"):
        ms.search_network(str(network), str(machine), **{**options, "max_cycles": 1})
    with pytest.raises(ConfigError, match="expected the objective energy under it, got edp"):
        ms.search_network(str(network), str(machine), **{**options, "objective": "edp"})


def test_operators_under_a_limit_are_counted() -> None:
    layers: list[dict[str, Any]] = [
        {"name": "up", "gemm": {"M": 8, "N": 4, "K": 2}},
        {"name": "down", "gemm": {"M": 8, "N": 6, "K": 4}, "input": "up", "between": "softmax"},
    ]
    options: dict[str, Any] = {"jointly": True, "objective": "energy"}
    network, options = {"name": "counted", "layers": layers}, {**options, "moves": True}
    least = ms.search_network(network, "tiny4", **options)
    found = ms.search_network(
        network, "tiny4", **options, max_cycles=least.certificate.latency_cycles - 1
    )
    assert found.proven
    assert found.certificate.fronts
    assert found.costs.energy_pj > least.costs.energy_pj
