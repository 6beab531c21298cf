"""Operations tiled together, against every choice in a plain walk, and by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from fused_walk import Choices, every_cascade, every_way
from random_cascades import attention_of, cascade_of, gated_of
from test_resident import fronts_of

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from costmodel.cascades.cascade import Cascade
from costmodel.cascades.plans import _moves_of, _Piece, _Prices, plans
from costmodel.costs import Objective
from costmodel.exact_any.weighted import least_sum
from costmodel.machines.accelerators import Accelerator
from costmodel.networks.chains import Step
from costmodel.networks.moves import Moved
from costmodel.problems.affine import Workload
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.layer_lines import begin_all
from orchestrator.networks.resident import NO_MOVES, Resident, Ways
from orchestrator.networks.resident_certificate import certify_resident, parse_resident
from orchestrator.networks.time_left import TimeLeft
from orchestrator.networks.walk_again import walk_again

Key = tuple[tuple[int, ...], frozenset[str], frozenset[str], int]

Made = Callable[[np.random.Generator], tuple[Cascade, Accelerator]]

OBJECTIVES: tuple[Objective, ...] = ("energy", "latency", "edp", "ed2p")
POWERS = {"energy": (1, 0), "latency": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}


def machine_of(rng: np.random.Generator) -> dict[str, Any]:
    """Three levels, where the room of the buffer matters."""
    read, buffer, element = [(200.0, 2.0, 1.0), (20.0, 6.0, 1.0), (8.0, 7.0, 0.5)][rng.integers(3)]
    dram: dict[str, Any] = {"name": "DRAM", "energy_pj": read}
    shared = {"name": "L2", "energy_pj": buffer, "capacity_words": int(rng.integers(4, 40))}
    if rng.random() < 0.4:
        dram |= {"read_bandwidth": 1.0, "write_bandwidth": 0.5}
        shared |= {"read_bandwidth": 3.0, "write_bandwidth": 2.0}
    if rng.random() < 0.3:
        dram["leakage_pj"], shared["leakage_pj"] = 0.5, 0.25
    elements = {"name": "L1", "energy_pj": element, "capacity_words": int(rng.integers(3, 9))}
    fanout = {"fanout": int(rng.choice([1, 2, 4]))}
    return {"name": "small", "mac_energy_pj": 1.0, "levels": [dram, shared | fanout, elements]}


def products(name: str, sizes: dict[str, int]) -> Workload:
    """A product of matrices per head."""
    tensors = {"A": ["H", "M", "K"], "B": ["H", "K", "N"], "Z": ["H", "M", "N"]}
    said = {"name": name, "dimensions": sizes, "tensors": tensors, "output": "Z"}
    return workload({**said, "roles": {"B": "weight"}})


def pair_of(rng: np.random.Generator) -> tuple[Workload, Workload]:
    """Two products, with or without heads, or a convolution and one of a single tap."""
    h, m, n, k, last = (int(rng.choice([1, 2, 3, 4])) for _ in range(5))
    kind = rng.choice(["gemm", "heads", "conv"])
    if kind == "gemm":
        first = workload({"name": "up", "gemm": {"M": m, "N": n, "K": k}})
        return first, workload({"name": "down", "gemm": {"M": m, "N": last, "K": n}})
    if kind == "heads":
        first = products("up", {"H": min(h, 2), "M": m, "N": n, "K": min(k, 2)})
        return first, products("down", {"H": min(h, 2), "M": m, "N": min(last, 2), "K": n})
    taps = {"R": int(rng.choice([1, 2])), "S": 1}
    image = {"N": 1, "P": min(m, 3), "Q": min(h, 2)}
    first = workload({"name": "up", "cnn": {**image, "K": min(n, 2), "C": min(k, 2), **taps}})
    then = {**image, "K": min(last, 2), "C": min(n, 2), "R": 1, "S": 1}
    return first, workload({"name": "down", "cnn": then})


WEIGHTS = (Fraction(0), Fraction(7, 2), Fraction(60), None)


def random_pair(rng: np.random.Generator) -> tuple[Cascade, Accelerator]:
    """Two operations, perhaps with a softmax between, and a machine."""
    pair, machine = pair_of(rng), accelerator(machine_of(rng))
    return Cascade.of(*pair, between=["softmax" if rng.random() < 0.3 else None]), machine


def drawn(
    seed: int, most: int, made: Made = random_pair
) -> tuple[CascadeLines, list[tuple[float, int]]]:
    """A random cascade and its machine, and energy and cycles of every choice, at least one."""
    rng = np.random.default_rng(seed)
    while True:
        cascade, machine = made(rng)
        try:
            sums = list(Choices(cascade, machine, most).sums())
        except OverflowError:
            continue
        if sums:
            return CascadeLines(cascade, machine), sums


def check(
    seed: int,
    most: int,
    weights: Sequence[Fraction | None] = WEIGHTS,
    made: Made = random_pair,
) -> bool:
    """Holds what is found of a cascade against all choices; whether it is cut at the best."""
    lines, sums = drawn(seed, most, made)
    energies, cycles = zip(*sums, strict=True)
    assert 0 < lines.floor.energy <= min(energies)
    assert lines.floor.cycles <= min(cycles)
    for weight in weights:
        line = lines.prove(weight, 60.0)
        least = min(c if weight is None else e + float(weight) * c for e, c in sums)
        where = f"weight {weight} of seed {seed}"
        assert line.proven, where
        assert line.point is not None
        assert float(line.bound) == pytest.approx(least, rel=1e-9), where
        assert float(line.sum_of(line.point)) == pytest.approx(least, rel=1e-9), where
    return any(plan.times > 1 for plan in [lines.unpacked(one)[0] for one in lines.points])


def test_equals_every_choice() -> None:
    found = [check(seed, 60, WEIGHTS[seed % 4 :][:1]) for seed in range(20)]
    assert sum(found) > 2


def longer(rng: np.random.Generator) -> tuple[Cascade, Accelerator]:
    """Three or four tiny operators that share an axis."""
    while True:
        found = cascade_of(rng, 4)
        if len(found.operators) > 2 and found.shared and max(o.macs for o in found.operators) < 60:
            return found, accelerator(machine_of(rng))


def test_longer_cascades_equal_every_choice() -> None:
    assert sum([check(seed, 60, WEIGHTS[seed % 4 :][:1], longer) for seed in range(6)]) > 1


def transformed(rng: np.random.Generator) -> tuple[Cascade, Accelerator]:
    """Tiny heads or gates, and what comes before and behind."""
    while True:
        found = (attention_of if rng.random() < 0.6 else gated_of)(rng)
        if found.shared and max(operator.macs for operator in found.operators) < 60:
            return found, accelerator(machine_of(rng))


def test_parts_of_transformers_equal_every_choice() -> None:
    assert sum([check(seed, 60, WEIGHTS[seed % 4 :][:1], transformed) for seed in range(6)]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_longer_cascades_equal_every_choice(block: int) -> None:
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        check(seed, 400, made=longer)
        check(seed, 100, made=transformed)


def front_of(sums: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """What nothing else is better than in energy and cycles."""
    found: list[tuple[float, int]] = []
    for energy, cycles in sorted(sums):
        if not found or cycles < found[-1][1]:
            found.append((energy, cycles))
    return found


@pytest.mark.parametrize("seed", [3014])
def test_fronts_of_all_plans(seed: int) -> None:
    """All that is on the front of every choice; or that is so far above a line at most."""
    lines, sums = drawn(seed, 40)
    weight, least = Fraction(7, 2), min(e + 3.5 * c for e, c in sums)
    for slack in (Fraction(0), Fraction(int(least) // 4)):
        near, _ = drawn(seed, 40)
        assert near.prove(weight, 60.0).proven
        near.add_fronts(weight, slack, lambda said: None, math.inf)
        known = {(float(point.energy), point.cycles) for point in near.points}
        for energy, cycles in front_of(sums):
            assert (energy, cycles) in known or energy + 3.5 * cycles > least + slack
    paused: list[str] = []
    lines.add_fronts(Fraction(0), None, paused.append, math.inf)
    found = front_of((float(point.energy), point.cycles) for point in lines.points)
    assert found == front_of(sums)
    assert len(found) > 1
    assert paused


def test_what_moves_between_iterations_takes_its_cycles() -> None:
    """A pair whose fastest plan waits for words that DRAM gives and takes."""
    check(3025, 40, [None])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_every_choice(block: int) -> None:
    found = [check(seed, 2500) for seed in range(1000 + 20 * block, 1020 + 20 * block)]
    assert any(found)


def test_addresses_of_partial_sums_by_hand() -> None:
    """Three words of sums, of two places, visited eight times: six times they come back.

    An address is found where words are written; what is read back to be added to has it already.
    """
    levels = [
        {"name": "DRAM", "energy_pj": 100.0, "address_pj": 10.0},
        {"name": "L2", "energy_pj": 2.0, "address_pj": 5.0, "capacity_words": 64},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ]
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": levels})
    piece = _Piece(1, "output", 3, (True, False))
    written, back, added = 8 * (100 + 10), 6 * (100 + 2 + 5), 6 * 2
    expected = Moved(Fraction(3 * (written + back + added)), 0)
    assert _moves_of(piece, _Prices(machine), (2, 4), (1, 0)) == expected


def test_attention_by_hand() -> None:
    # Two heads, two queries, two keys, two deep; a buffer that holds what is asked for and no more.
    levels = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 64},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ]
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": levels})
    sizes = {"H": 2, "M": 2, "N": 2, "K": 2}
    two = products("scores", sizes), products("context", sizes)
    pair = Cascade.of(*two, between=["softmax"], counted=True)
    assert pair.axes == (("H", "H"), ("M", "M"), ("N", "K"))
    found = {
        (plan.factors, plan.kept): plan
        for plan in plans(pair, machine)
        if plan.factors in ((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2))
    }
    nothing: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    # Eight scores are read and written in the buffer by the softmax, however they are cut.
    assert {found[factors, nothing].moves for factors in ((1, 1, 1), (2, 1, 1), (2, 2, 1))} == {
        Moved(Fraction(32), 0)
    }
    assert found[(2, 2, 1), nothing].words == (2, 2)  # one row
    # Keys of a head, four words, stay while its queries come: fetched twice, at 102 pJ a word.
    keys = found[(2, 2, 1), (("weight",), ())]
    assert keys.words == (2 + 4, 2 + 4)
    assert keys.order == (0, 1)
    assert keys.moves == Moved(Fraction(32 + 2 * 4 * 102), 0)
    # Rows cut in two: a score, two words of its row, two of context. A row's maximum and sum are
    # set four times and renewed as often; of context that is added to then, each word is scaled.
    parts = found[(2, 2, 2), ((), ("output",))]
    assert parts.words == (1 + 2 + 2, 1 + 2 + 2)
    statistics = 4 * 2 * 2 + 4 * (2 * 2 + 2 * 2)
    assert parts.moves == Moved(Fraction(32 + statistics + 4 * 2 * 100 + 4 * 2 * 2), 4 * 2)
    lines = CascadeLines(pair, machine)
    line = lines.prove(Fraction(0), 60.0)
    assert line.proven
    assert line.point is not None
    # Once each: queries, keys and values in, context out. The rest is on the chip: both operations
    # alone, in a buffer that holds all, less the scores' way out and back.
    alone = [least_sum(MapSpace(work, machine), Fraction(0)) for work in pair.operators]
    there_and_back = 8 * 100 + 8 * (100 + 2)
    assert line.bound == sum(one.bound for one in alone) - there_and_back + 32


def chain_check(seed: int, most: int, objectives: Sequence[Objective] = OBJECTIVES) -> bool:
    """Holds a random chain of three products against all choices; whether two are fused."""
    rng = np.random.default_rng(seed)
    while True:
        sizes = [int(rng.choice([1, 2, 3])) for _ in range(5)]
        steps = []
        for place in range(3):
            shape = {"M": sizes[0], "N": sizes[place + 2], "K": sizes[place + 1]}
            work = workload({"name": f"p{place}", "gemm": shape})
            steps.append(Step(work, 1, place - 1 if place else None, min(place + 1, 2)))
        machine = accelerator(machine_of(rng))
        fronts = fronts_of(steps, machine, most)
        if fronts is None or not all(fronts[place, (), ()] for place in range(3)):
            continue
        try:
            sums = every_way(steps, fronts, every_cascade(steps, machine, most))
        except OverflowError:
            continue
        break
    fuses = False
    for objective in objectives:
        a, b = POWERS[objective]
        ways = Ways(steps, machine, fused=True)
        begin_all(ways.layers, TimeLeft(60.0))
        proof = Resident(ways, objective)
        found = proof.run()
        least = min(energy**a * cycles**b for energy, cycles in sums)
        where = f"{objective} of seed {seed}"
        assert float(found.value) == pytest.approx(least, rel=1e-9), where
        assert found.gap <= 1e-6, where
        said = certify_resident(
            "chain", machine, (steps, proof.path, found), fused=True, moves=False, fixed=NO_MOVES
        )
        assert walk_again(said).holds, where
        fuses |= any(isinstance(way.lines, CascadeLines) for way in proof.path)
    return fuses


PAIR = {
    "name": "pair",
    "layers": [
        {"name": "up", "gemm": {"M": 4, "N": 4, "K": 2}, "count": 3},
        {"name": "down", "gemm": {"M": 4, "N": 2, "K": 4}, "count": 3, "input": "up"},
    ],
}


def small_pair(folder: Path, capacity: int) -> tuple[Path, Path]:
    """Files of a network of two layers and of a machine with so many words in its buffer."""
    levels = [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": capacity, "fanout": 3},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 5},
    ]
    network, machine = folder / "pair.yaml", folder / "machine.yaml"
    network.write_text(json.dumps(PAIR))
    machine.write_text(json.dumps({"mac_energy_pj": 1.0, "levels": levels}))
    return network, machine


def test_a_command_says_what_fusing_is_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, machine = small_pair(tmp_path, 14)
    asked = ("search", "--network", network, "--jointly", "--resident", "--fused")
    asked = (*asked, "--accelerator", machine, "--objective", "energy")
    assert call(*asked, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    (pair,) = said["cascades"]
    assert pair["layers"] == ["up", "down"]
    assert pair["chosen"]
    assert said["totals"]["proven"]
    assert said["totals"]["energy_pj"] == pytest.approx(3 * pair["fused"]["energy_pj"])
    assert said["totals"]["staying"] == pytest.approx(3 * pair["staying"]["energy_pj"])
    assert said["totals"]["alone"] == pytest.approx(3 * pair["alone"]["energy_pj"])
    assert pair["fused"]["energy_pj"] < pair["staying"]["energy_pj"] <= pair["alone"]["energy_pj"]
    page = tmp_path / "pair.html"
    assert call(*asked, "--html", page) == 0
    assert "What lies in L2 while each layer runs" in page.read_text()
    found = ms.search_network(str(network), str(machine), fused=True, objective="energy")
    assert found.costs.energy_pj == said["totals"]["energy_pj"]
    assert call("search", "--network", network, "--fused", "--accelerator", machine) == 0
    assert "2 of 2 layers, up to 2 in one" in capsys.readouterr().out
    assert call("search", "gemm:M=2,N=2,K=2", "--fused") == 2
    assert "--fused is for --network" in capsys.readouterr().err


def tampered(certificate: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A certificate with one claim changed, and what is said of it."""
    first = certificate["steps"][0]
    cheaper = {**first, "energy_pj": str(Fraction(first["energy_pj"]) - 1)}
    yield "takes", {**certificate, "steps": [cheaper, *certificate["steps"][1:]]}
    other = {**first, "fused": None, "stays": not first["stays"] and first["fused"] is None}
    yield "WRONG", {**certificate, "steps": [other, *certificate["steps"][1:]]}
    cut = {**certificate["cuts"][0], "bound": certificate["cuts"][0]["bound"].split("/")[0] + "9"}
    yield "WRONG", {**certificate, "cuts": [cut], "lower_bound": certificate["lower_bound"]}
    yield "not 9", {**certificate, "lower_bound": "9" + certificate["lower_bound"].split("/")[0]}
    yield "in all", {**certificate, "latency_cycles": certificate["latency_cycles"] + 1}
    yield "hash", {**certificate, "accelerator_hash": "0"}
    last = {**certificate["steps"][-1], "until": 9}
    yield "expected a step", {**certificate, "steps": [*certificate["steps"][:-1], last]}


@pytest.mark.parametrize("fused", [False, True])
def test_a_certificate_is_proven_again(
    fused: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, machine = small_pair(tmp_path, 14 if fused else 40)
    output = tmp_path / "found.jsonl"
    asked = ("search", "--network", network, "--jointly", "--resident", "--accelerator", machine)
    asked = (*asked, *(("--fused",) if fused else ()), "--objective", "energy", "--moves")
    assert call(*asked, "--output", output) == 0
    file = tmp_path / "found.certificate.json"
    assert call("verify", file, "--independent") == 0
    several = "1 cascade" if fused else "0 cascades"
    ran = f"2 mappings counted, {several} run pass by pass: the same"
    assert ran in " ".join(capsys.readouterr().out.split())
    certificate = json.loads(file.read_text())
    more = str(Fraction(certificate["energy_pj"]) + 1)
    wrong = parse_resident({**certificate, "energy_pj": more}, "it")
    assert not walk_again(wrong).holds
    assert (certificate["steps"][0]["fused"] is not None) == fused
    capsys.readouterr()
    for said, changed in tampered(certificate):
        file.write_text(json.dumps(changed))
        assert call("verify", file) in (1, 2), said
        captured = capsys.readouterr()
        assert said in captured.out + captured.err, said


def test_a_chain_equals_every_choice() -> None:
    assert sum([chain_check(seed, 60, ["edp"]) for seed in range(2)]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_more_chains_equal_every_choice(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        chain_check(seed, 800)
