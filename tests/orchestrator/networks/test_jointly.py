"""The network's own optimum against every choice of mappings, by hand, and through the command."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from commands import answer, call
from paths import GOLDEN
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

import mapspace as ms
from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact_any.choice import why_not_proven
from costmodel.exact_any.weighted import Line
from costmodel.networks.moves import Moved
from costmodel.networks.network import load_network
from mapspace.errors import ConfigError
from orchestrator.networks import jointly, layer_lines
from orchestrator.networks.jointly import ROUNDING, Jointly, Optimum
from orchestrator.networks.layer_lines import LayerLines
from orchestrator.networks.limited import Limited
from orchestrator.networks.lines import Cut, Limit, corners, lower_bound
from orchestrator.networks.network_certificate import certify_network

Pairs = list[tuple[float, float]]
TINY = {
    "name": "tiny",
    "layers": [
        "gemm:M=8,N=4,K=2",
        {"gemm": {"M": 4, "N": 6, "K": 4}, "name": "square", "count": 2},
    ],
}


def some_layers(seed: int, most: int, *, deep: bool) -> list[tuple[MapSpace, int, Codes]]:
    """Two or three layers of at most so many mappings on one machine, with all their mappings."""
    rng = np.random.default_rng(seed)
    while True:
        machine = random_machine(rng) if deep else random_parts(rng)[1]
        found: list[tuple[MapSpace, int, Codes]] = []
        for _ in range(30):
            work = random_parts(rng)[0]
            operation = workload(smaller(rng, work) if deep else work)
            try:
                space = MapSpace(operation, accelerator(machine))
            except ConfigError:  # it names roles that the operation has not
                continue
            codes = every_mapping(space, most)
            if codes is None or not len(codes) or why_not_proven(space) is not None:
                continue
            found.append((space, int(rng.integers(1, 4)), codes))
            if len(found) == 3:
                return found
        if len(found) > 1:
            return found


def front(space: MapSpace, codes: Codes) -> Pairs:
    """Energies and cycles that no mapping beats in both."""
    costs = LoopNestModel().evaluate(space, codes)
    pairs = sorted(set(zip(costs.latency_cycles.tolist(), costs.energy_pj.tolist(), strict=True)))
    kept: Pairs = []
    for cycles, energy in pairs:
        if not kept or energy < kept[-1][0]:
            kept.append((energy, cycles))
    return kept


POWERS = {"energy": (1, 0), "latency": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}


def check(
    seed: int, most: int, *, deep: bool = False, objectives: Sequence[str] = tuple(POWERS)
) -> int:
    """Holds the optimum of a random network against all choices; returns how many there are."""
    layers = some_layers(seed, most, deep=deep)
    fronts = [front(space, codes) for space, _, codes in layers]
    choices = list(itertools.product(*fronts))
    sums = [
        tuple(
            sum(count * pair[i] for (_, count, _), pair in zip(layers, choice, strict=True))
            for i in range(2)
        )
        for choice in choices
    ]
    for objective in objectives:
        a, b = POWERS[objective]
        least = min(energy**a * cycles**b for energy, cycles in sums)
        lines = [LayerLines(space, count) for space, count, _ in layers]
        for one in lines:
            one.begin()
        found = Jointly(lines, objective).run()
        where = f"{objective} of seed {seed}"
        assert float(found.value) == pytest.approx(least, rel=1e-9), where
        assert found.gap <= 1e-6, where
        assert float(found.bound) <= least * (1 + 1e-9), where
        if objective in ("energy", "latency"):
            check_tie(found, sums, where)
            check_edge(lines, found, where)
    return len(choices)


def check_tie(found: Optimum, sums: Pairs, where: str) -> None:
    """Of equal choices the one that takes less energy, or fewer cycles, is found."""
    if found.objective == "latency":
        least = min(energy for energy, cycles in sums if cycles == found.cycles)
        assert float(found.energy) == pytest.approx(least, rel=1e-9), where
    else:
        most = float(found.energy) * (1 + 1e-11)
        assert found.cycles == min(cycles for energy, cycles in sums if energy <= most), where


def check_edge(lines: list[LayerLines], found: Optimum, where: str) -> None:
    """What the least takes of the other is a limit that is met, and so is the least itself."""
    other = Limit(cycles=found.cycles) if found.objective == "energy" else None
    other = other or Limit(energy=Fraction(float(found.energy)))
    again = Limited(
        [LayerLines(one.space, one.count, points=[*one.points]) for one in lines], other
    )
    assert again.run().value == pytest.approx(found.value, rel=1e-12), where
    own = Limit(cycles=found.cycles) if found.objective == "latency" else None
    own = own or Limit(energy=Fraction(float(found.energy)))
    fresh = [LayerLines(one.space, one.count) for one in lines]
    for one in fresh:
        one.begin()
    met = Limited(fresh, own).run()
    assert (met.cycles, float(met.energy)) == (
        found.cycles, pytest.approx(float(found.energy), rel=1e-11),
    ), where  # fmt: skip


@pytest.mark.parametrize("deep", [False, True])
def test_equals_every_choice_of_mappings(deep: bool) -> None:
    choices = [check(seed, 600, deep=deep) for seed in range(4)]
    assert max(choices) > 4


def test_ties_are_broken_however_little_is_proven_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layer_lines, "SLICE", 1e-9)
    for seed in (2, 3):
        check(seed, 300, objectives=("latency", "energy"))


@pytest.mark.parametrize("objective", ["edp", "ed2p"])
def test_proofs_that_have_only_begun_are_bounded_by_the_work(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of large layers in short slices, whose tables are not there yet.

    Every multiply-accumulate takes its energy, and an element's cycle. Where it takes no energy
    nothing is certain.
    """
    nothing = Line(None, Fraction(0), None, False)
    monkeypatch.setattr(layer_lines.LeastSum, "run", lambda self, seconds: nothing)
    monkeypatch.setattr(jointly, "GLANCE", 0.01)
    layers = [LayerLines(space, count) for space, count, _ in some_layers(0, 300, deep=False)]
    for one in layers:
        one.begin()
    found = Jointly(layers, objective, seconds=1.0).run()
    energy, cycles = (sum(one.count * one.floor[side] for one in layers) for side in range(2))
    work = sum(one.count * one.space.workload.macs for one in layers)
    assert energy >= work * Fraction(layers[0].space.accelerator.mac_energy_pj) * (1 - ROUNDING)
    assert cycles * layers[0].space.accelerator.processing_elements >= work / 2
    assert found.bound >= energy * cycles ** (2 if objective == "ed2p" else 1)
    assert found.bound <= found.value
    for one in layers:
        one.floor = Moved(Fraction(0), 0)
        one.lines.clear()
    found = Jointly(layers, objective, seconds=1.0).run()
    assert (found.bound, found.gap) == (0, float("inf"))


def test_the_ends_of_a_front_are_glanced_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """So long per layer; the first line takes a third of the time at most."""
    layers = [LayerLines(space, count) for space, count, _ in some_layers(0, 300, deep=False)]
    for one in layers:
        one.begin()
    given: list[tuple[object, float]] = []
    cut = Jointly._cut

    def noted(self: Jointly, weight: Fraction | None, *share: float, **options: float) -> None:
        given.append((weight, options.get("seconds", share[-1] if share[1:] else math.inf)))
        cut(self, weight, *share, **options)

    monkeypatch.setattr(Jointly, "_cut", noted)
    Jointly(layers, "edp", seconds=60.0).run()
    assert 19 < given[0][1] <= 20
    assert given[1:3] == [(Fraction(0), 0.1 * len(layers)), (None, 0.1 * len(layers))]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("deep", [False, True])
def test_more_equal_every_choice_of_mappings(block: int, deep: bool) -> None:
    for seed in range(100 + 20 * block, 120 + 20 * block):
        check(seed, 4000, deep=deep)


def test_corners_by_hand() -> None:
    # E >= 10, E + T >= 20, T >= 4: corners (10, 10) and (16, 4); the flat line 2 E + T adds none.
    cuts = [Cut(Fraction(0), Fraction(10)), Cut(Fraction(1), Fraction(20)), Cut(None, Fraction(4))]
    assert [corner[:2] for corner in corners(cuts)] == [(10, 10), (16, 4)]
    assert lower_bound("edp", cuts)[0] == 64
    assert lower_bound("ed2p", cuts)[0] == 256
    further = [*cuts, Cut(Fraction(1, 2), Fraction(15))]
    assert lower_bound("edp", further)[0] == 64
    # Fewer cycles than 12 need more than the least energy: the corner at T = 4 rises to 20.
    assert lower_bound("edp", [*cuts, Cut(Fraction(2), Fraction(28))])[0] == 80


def test_a_network_is_certified_and_proven_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = tmp_path / "tiny.yaml"
    network.write_text(json.dumps(TINY))
    output = tmp_path / "found.jsonl"
    page = tmp_path / "found.html"
    asked = ("--network", network, "--jointly", "--accelerator", "tiny4")
    assert call("search", *asked, "--output", output, "--html", page, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["totals"]["proven"]
    assert said["totals"]["gap"] == 0
    assert "square" in page.read_text()
    # A bar per layer, and a nest of each, as there are few.
    assert page.read_text().count("<img ") == 3
    assert page.read_text().count("% of the energy</h2>") == 2
    assert len(output.read_text().splitlines()) == 2
    certificate = tmp_path / "found.certificate.json"
    assert call("verify", certificate) == 0
    assert "the certificate holds" in capsys.readouterr().out
    content = json.loads(certificate.read_text())
    assert call("search", *asked, "--output", output) == 0, "its own files are written again"
    certificate.write_text('{"format": "x", "record": {}}')
    assert call("search", *asked, "--output", output) == 2
    assert "one of a network's certificate" in capsys.readouterr().err
    for change, wrong in (
        (lambda c: c.update(lower_bound=str(2 * Fraction(c["lower_bound"]))), "the lines say"),
        (lambda c: c.update(latency_cycles=c["latency_cycles"] - 1), "in all they take"),
        (lambda c: c["layers"][1].update(count=3), "in all they take"),
        (lambda c: c["cuts"][1].update(bounds=["9" * 12] * 2), "least sum is"),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        certificate.write_text(json.dumps(changed))
        assert call("verify", certificate) == 1
        assert wrong in capsys.readouterr().out
    certificate.write_text(json.dumps({**content, "cuts": []}))
    assert call("verify", certificate) == 2
    assert "cuts" in capsys.readouterr().err


def test_a_bound_of_many_digits_is_rounded_down() -> None:
    machine = accelerator("tiny4")
    layers = [LayerLines(MapSpace(work, machine), count) for work, count in load_network(TINY)[1]]
    for layer in layers:
        layer.begin()
    found = Jointly(layers, "edp").run()
    exact = Fraction(10**75 + 7, 10**64 + 3)
    kept = certify_network("tiny", replace(found, bound=exact)).lower_bound
    assert exact * (1 - Fraction(1, 2**99)) < Fraction(kept) < exact
    assert certify_network("tiny", found).lower_bound == str(found.bound)


def test_the_budget_is_the_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    begin = LayerLines.begin

    def slow_begin(self: LayerLines, seconds: float | None = None) -> None:
        assert seconds is not None
        given.append(seconds)
        time.sleep(0.2)
        begin(self, seconds)

    monkeypatch.setattr(LayerLines, "begin", slow_begin)
    ms.search_network(TINY, "tiny4", jointly=True, seconds=30.0)
    assert given[0] <= 30.0
    assert given[1] <= given[0] - 0.2


def test_python_answers_as_the_command_does() -> None:
    result = ms.search_network(TINY, "tiny4", jointly=True, objective="ed2p")
    assert result.proven
    assert ms.verify(result).holds
    alone = ms.search_network(TINY, "tiny4", objective="ed2p").totals
    assert result.costs.objective("ed2p") <= alone.costs.objective("ed2p")


def test_what_cannot_be_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="searcher: layers are chosen together"):
        ms.search_network(TINY, "tiny4", jointly=True, searcher="genetic")
    narrow = {
        "name": "narrow",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0},
            {"name": "L2", "energy_pj": 1.0, "capacity_words": 2, "fanout": 2},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
        ],
    }
    with pytest.raises(ConfigError, match="A capacity of 3 words would admit one"):
        ms.search_network(TINY, narrow, jointly=True)
    assert call("search", "gemm:M=4,N=4,K=4", "--jointly") == 2
    assert "--jointly is for --network" in capsys.readouterr().err


def test_a_limit_equal_to_the_least_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    case = GOLDEN / "wrong-answers" / "fail-08" / "net.yaml"
    told = ("search", "--network", case, "--accelerator", "mm256", "--jointly")
    least = answer(capsys, *told, "--objective", "energy")["totals"]
    assert least["energy_pj"] == pytest.approx(18384.8, rel=1e-12)
    limit = ("--objective", "latency", "--max-energy-pj", 18384.8)
    found = answer(capsys, *told, *limit)["totals"]
    assert found["energy_pj"] == pytest.approx(18384.8, rel=1e-12)
    assert found["latency_cycles"] == least["latency_cycles"]
    assert found["proven"]
    assert call(*told, "--objective", "latency", "--max-energy-pj", 18384.7) == 2
    assert "no mappings of the network take less than 18384.8 pJ" in capsys.readouterr().err


def test_ties_of_totals_are_broken_as_those_of_layers(capsys: pytest.CaptureFixture[str]) -> None:
    case = GOLDEN / "wrong-answers" / "fail-10"
    told = ("search", "--network", case / "net.yaml", "--accelerator", case / "m.yaml")
    for objective in ("latency", "energy"):
        alone, together = (
            answer(capsys, *told, "--objective", objective, *how)["totals"]
            for how in ((), ("--jointly",))
        )
        for figure in ("energy_pj", "latency_cycles"):
            assert together[figure] == alone[figure]
