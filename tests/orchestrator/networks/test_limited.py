"""A network's optimum under a limit against every choice of mappings, and through the command."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from commands import call
from test_jointly import TINY, Pairs, front, some_layers

import mapspace as ms
from mapspace.errors import ConfigError
from orchestrator.networks.layer_lines import LayerLines
from orchestrator.networks.limited import Limited
from orchestrator.networks.lines import Cut, Limit, under_limit


def every_sum(fronts: list[tuple[Pairs, int]]) -> Pairs:
    """Energies and cycles of all choices; equal layers may be mapped differently."""
    ways = [
        {tuple(map(sum, zip(*some, strict=True))) for some in itertools.product(pairs, repeat=n)}
        for pairs, n in fronts
    ]
    return [
        (sum(e for e, _ in choice), sum(c for _, c in choice))
        for choice in itertools.product(*ways)
    ]


def check(seed: int, most: int, *, deep: bool = False) -> int:
    """Holds optima under limits against all choices; returns how many were above the lines."""
    layers = some_layers(seed, most, deep=deep)
    sums = every_sum([(front(space, codes), n) for space, n, codes in layers])
    above = 0
    for place, (energy, cycles) in enumerate(sorted(set(sums))[:: max(1, len(set(sums)) // 4)]):
        most_energy = Fraction(energy * (1 + 1e-9))
        for limit in (Limit(cycles=int(cycles)), Limit(energy=most_energy)):
            lines = [LayerLines(space, n) for space, n, _ in layers]
            for one in lines:
                one.begin()
            found = Limited(lines, limit).run()
            if limit.energy is None:
                least = min(e for e, c in sums if c <= cycles)
            else:
                least = min(c for e, c in sums if e <= most_energy)
            where = f"{limit}, the {place}th of seed {seed}"
            assert float(found.value) == pytest.approx(least, rel=1e-9), where
            assert limit.admits(found.energy, found.cycles), where
            assert found.gap == 0, where
            assert sum(one.count for one in found.layers) == sum(n for _, n, _ in layers), where
            above += found.fronts
    return above


@pytest.mark.parametrize("deep", [False, True])
def test_equals_every_choice_within_a_limit(deep: bool) -> None:
    assert sum(check(seed, 600, deep=deep) for seed in (1,)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("deep", [False, True])
def test_more_equal_every_choice_within_a_limit(block: int, deep: bool) -> None:
    for seed in range(100 + 20 * block, 120 + 20 * block):
        check(seed, 4000, deep=deep)


def test_a_bound_under_a_limit_by_hand() -> None:
    # E >= 10, E + T >= 20, T >= 4: within 8 cycles E >= 12, within 15 pJ T >= 5.
    cuts = [Cut(Fraction(0), Fraction(10)), Cut(Fraction(1), Fraction(20)), Cut(None, Fraction(4))]
    assert under_limit(Limit(cycles=8), cuts)[0] == 12
    assert under_limit(Limit(energy=Fraction(15)), cuts)[0] == 5
    assert under_limit(Limit(energy=Fraction(99)), cuts)[0] == 4


def test_a_limit_is_certified_and_proven_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = tmp_path / "tiny.yaml"
    network.write_text(json.dumps(TINY))
    least = ms.search_network(TINY, "tiny4", jointly=True, objective="energy").costs
    fewest = ms.search_network(TINY, "tiny4", jointly=True, objective="latency").costs
    assert fewest.latency_cycles < least.latency_cycles
    asked = ("--network", network, "--jointly", "--accelerator", "tiny4", "--objective", "energy")
    output = tmp_path / "found.jsonl"
    most = int(least.latency_cycles) - 1
    assert call("search", *asked, "--max-cycles", most, "--output", output, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["max_cycles"] == most
    assert said["totals"]["latency_cycles"] <= most
    assert said["totals"]["energy_pj"] > least.energy_pj
    assert said["totals"]["proven"]
    certificate = tmp_path / "found.certificate.json"
    assert call("verify", certificate) == 0
    capsys.readouterr()
    content = json.loads(certificate.read_text())
    assert content["fronts"]
    tighter: Callable[[dict[str, object]], None] = lambda c: c.update(most_cycles=1)  # noqa: E731
    for change, wrong in (
        (tighter, "they are not within 1 cycles"),
        (lambda c: c.update(fronts=False), "the lines say"),
        (lambda c: c.update(most_cycles=10**9), "the layers' fronts have one of"),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        certificate.write_text(json.dumps(changed))
        assert call("verify", certificate) == 1
        assert wrong in capsys.readouterr().out
    certificate.write_text(json.dumps({**content, "objective": "edp"}))
    assert call("verify", certificate) == 2
    assert "expected it of the objective energy alone" in capsys.readouterr().err


def test_a_text_says_whether_there_was_a_limit() -> None:
    asked = {"jointly": True, "objective": "energy", "store": False}
    without = ms.search_network(TINY, "tiny4", **asked)
    within = ms.search_network(
        TINY, "tiny4", **asked, max_cycles=int(without.costs.latency_cycles) - 1
    )
    for found, said in ((without, ""), (within, " within the limit")):
        assert found.proven
        assert f"no mappings have a lower energy in all{said}\n" in found.picture()
        unproven = replace(
            found, certificate=found.certificate.model_copy(update={"proven": False})
        )
        assert f"of the network's optimum{said}: none is below" in unproven.picture()


def test_what_no_limit_can_be_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="no mappings of the network take less than"):
        ms.search_network(TINY, "tiny4", jointly=True, objective="energy", max_cycles=1)
    with pytest.raises(ConfigError, match="expected the objective latency under it, got edp"):
        ms.search_network(TINY, "tiny4", jointly=True, max_energy_pj=1.0)
    with pytest.raises(ConfigError, match="expected one limit"):
        ms.search_network(TINY, "tiny4", jointly=True, max_energy_pj=1.0, max_cycles=1)
    with pytest.raises(ConfigError, match="more than 0"):
        ms.search_network(TINY, "tiny4", jointly=True, objective="energy", max_cycles=0)
    with pytest.raises(ConfigError, match="expected jointly=True"):
        ms.search_network(TINY, "tiny4", max_cycles=7)
    assert call("search", "--network", "alexnet", "--max-cycles", 7) == 2
    assert "is for --network --jointly" in capsys.readouterr().err
