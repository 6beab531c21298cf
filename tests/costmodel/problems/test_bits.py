"""Tensors whose values have bits: accesses, room and bandwidth by definition, and proofs."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call, printed
from small_hierarchies import check_front_of, check_proof, random_hierarchy

import mapspace as ms
from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import STATUS_OK, explain_status
from costmodel.independent.counting import Counter, tiling_of, why_not_counted
from costmodel.problems.bits import read_bits, with_bits
from mapspace.errors import ConfigError

MACHINE: dict[str, Any] = {
    "name": "two",
    "word_bits": 16,
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0, "block_words": 2},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
    ],
}
GEMM = "gemm:M=2,N=2,K=2"


def of_bits(machine: dict[str, Any], **bits: int) -> MapSpace:
    return MapSpace(with_bits(workload(GEMM), bits), accelerator(machine))


def by_definition(space: MapSpace, code: Codes) -> float:
    """Energy of a mapping, pJ, from its counts of values; networks and leakage cost nothing."""
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    detail, machine = costs.detail, space.accelerator
    assert detail is not None
    energy = space.workload.macs * machine.mac_energy_pj
    for index, level in enumerate(machine.levels):
        access = level.block_words * (level.word_bits or machine.word_bits)
        for t, tensor in enumerate(space.workload.tensors):
            counts = (detail.reads, detail.fills, detail.updates)
            for price, counted in zip(level.energies, counts, strict=True):
                values = int(counted[0, index, t])
                if tensor.bits is None:
                    accesses = math.ceil(Fraction(values, level.block_words))
                elif (level.packing or machine.packing) == "word":
                    words = access // level.block_words
                    held = Fraction(words // tensor.bits) or 1 / Fraction(-(-tensor.bits // words))
                    accesses = math.ceil(values / held / level.block_words)
                elif (level.packing or machine.packing) == "dense":
                    accesses = math.ceil(Fraction(values * tensor.bits, access))
                elif tensor.bits <= access:
                    accesses = math.ceil(Fraction(values, access // tensor.bits))
                else:
                    accesses = values * math.ceil(Fraction(tensor.bits, access))
                energy += accesses * price * float(detail.instances[0, index])
    return energy


def test_counted_by_hand() -> None:
    """All of a 2 x 2 x 2 product fits L1: every word enters once.

    An access of DRAM has 32 bits. A of 4 bits: 4 values, one access; B of 12: two values an access,
    two of them; Z of 40: two accesses a value, written once: 8. L1 fills 4 and 4, reads 8 and 8
    operands, updates 8 sums, of which 4 are read again: in accesses of 16 bits A has 4 values an
    access, B one, Z takes 3.
    """
    machine = {**MACHINE, "levels": [MACHINE["levels"][0], {**MACHINE["levels"][1]}]}
    machine["levels"][1]["capacity_words"] = 14  # 4 * 4 + 4 * 12 + 4 * 40 = 224 bits
    space = of_bits(machine, A=4, B=12, Z=40)
    found = ms.search(space.workload, space.accelerator, objective="energy", store=False)
    assert found.proven
    dram = 100.0 * (1 + 2 + 8)
    assert found.costs.energy_pj == 8 * 1.0 + dram + 1.0 * (1 + 4 + 2 + 8 + 3 * (4 + 8))


def test_dense_values_lie_across_accesses() -> None:
    """Of 12 bits, three values of 4 x 2 fill 32 bits as 36 do: 48 bits are two accesses, not 2."""
    whole, dense = (
        of_bits({**MACHINE, "packing": packing}, A=12, B=12, Z=12) for packing in ("whole", "dense")
    )
    assert (whole.tables.machine.parts[0] == 1).all()
    assert (whole.tables.machine.block[0] == 2).all()
    assert (dense.tables.machine.parts[0] == 3).all()
    assert (dense.tables.machine.block[0] == 8).all()


def test_words_hold_whole_values() -> None:
    """Of 8 bits: two of 3 bits, one of 5, and one of 12 in two words; three and a half is full."""
    levels = [{**MACHINE["levels"][0], "block_words": 4}, {**MACHINE["levels"][1]}]
    machine = {**MACHINE, "packing": "word", "word_bits": 8, "levels": levels}
    levels[1]["capacity_words"] = 4
    space = of_bits(machine, A=3, B=5, Z=12)
    assert space.tables.machine.parts.tolist() == [[1, 1, 2], [1, 1, 2]]
    assert space.tables.machine.block.tolist() == [[8, 4, 4], [2, 1, 1]]
    found = ms.search(space.workload, machine, store=False)
    assert found.proven
    levels[1]["capacity_words"] = 3
    with pytest.raises(ConfigError, match="A capacity of 4 words would admit one"):
        ms.search(space.workload, machine, store=False)


def test_a_capacity_is_met_to_the_bit() -> None:
    """One value of each tensor: 4 + 12 + 16 bits fill two words; a bit more does not fit."""
    machine = {**MACHINE, "levels": [MACHINE["levels"][0], {**MACHINE["levels"][1]}]}
    machine["levels"][1]["capacity_words"] = 2
    assert ms.search(of_bits(machine, A=4, B=12, Z=16).workload, machine, store=False).proven
    with pytest.raises(ConfigError, match="A capacity of 3 words would admit one"):
        ms.search(of_bits(machine, A=5, B=12, Z=16).workload, machine, store=False)


@pytest.mark.parametrize(("words", "buffering"), [(2, 1.0), (3, 1.5), (4, 2.0)])
def test_the_least_share_in_use_is_met_to_the_bit(words: int, buffering: float) -> None:
    """Two words are full of 4 + 12 + 16 bits, a value of each tensor; of a bit less they never are.

    With a second value of any of them more than two words would be needed. Tiles that are held
    several times have so much of the level less.
    """
    machine = {**MACHINE, "levels": [MACHINE["levels"][0], {**MACHINE["levels"][1]}]}
    machine["levels"][1] |= {"capacity_words": words, "min_utilisation": 1.0}
    machine["levels"][1]["multiple_buffering"] = buffering
    for bits, full in ((4, True), (3, False)):
        space = of_bits(machine, A=bits, B=12, Z=16)
        fits = space.feasible(space.sample(np.random.default_rng(0), 400))
        assert fits.any() == full


def test_what_is_exceeded_is_said_in_bits() -> None:
    """All of both inputs and the output: 4 x (4 + 12 + 16) bits, where L1 has 128 - 16."""
    machine = {**MACHINE, "levels": [MACHINE["levels"][0], {**MACHINE["levels"][1]}]}
    machine["levels"][1]["capacity_words"] = 7
    space = of_bits(machine, A=4, B=12, Z=16)
    status, excess = space.status(space.sample(np.random.default_rng(0), 400))
    assert excess.max() == 16
    worst = int(excess.argmax())
    said = explain_status(
        int(status[worst]), int(excess[worst]), ("DRAM", "L1"), space.workload.room_unit
    )
    assert said == "capacity of L1 exceeded by 16 bits"


@pytest.mark.parametrize("block", range(3))
def test_proofs_equal_enumeration(block: int) -> None:
    """Proofs, fronts and costs of 30 random machines whose levels pack as they like."""
    for seed in range(10 * block, 10 * block + 10):
        check(seed, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_more_proofs_equal_enumeration(block: int) -> None:
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        check(seed, 20_000)


def check(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most, bits=True)
    check_proof(space, codes, objective)
    if seed % 5 == 0:
        check_front_of(space, codes)
    where = f"{space.accelerator.model_dump()} of {space.workload}"
    machine, some = space.accelerator, codes[rng.integers(len(codes), size=5)]
    costs = LoopNestModel().evaluate(space, some)
    assert (costs.status == STATUS_OK).all()
    further = ("leakage_pj", "address_pj", "hop_energy_pj", "router_pj", "ingress_pj")
    own = not any(getattr(level, key) for level in machine.levels for key in further)
    for code, energy in zip(some, costs.energy_pj, strict=True):
        if own:
            assert by_definition(space, code) == pytest.approx(float(energy), rel=1e-11), where
    if why_not_counted(space.workload, machine) is not None:
        return
    counter = Counter(space.workload, machine)
    tried = space.sample(rng, 60)
    status = LoopNestModel().evaluate(space, tried).status
    for code, fits in zip(tried, status == STATUS_OK, strict=True):
        tiling, orders = tiling_of(space.describe(code), space.workload)
        assert (counter.why_not(tiling) is None) == fits, where
        if fits:
            energy, cycles = counter.cost(tiling, orders, {})
            again = LoopNestModel().evaluate(space, code[None])
            assert float(energy) == pytest.approx(float(again.energy_pj[0]), rel=1e-11), where
            assert cycles == again.latency_cycles[0], where


@pytest.mark.parametrize("packing", ["whole", "dense", "word"])
def test_bits_of_a_word_change_nothing(packing: str) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        space, codes, _ = random_hierarchy(rng, 500)
        bits = dict.fromkeys(space.workload.tensor_names, 16)
        machine = space.accelerator.model_copy(update={"packing": packing})
        other = MapSpace(with_bits(space.workload, bits), machine)
        before, after = (LoopNestModel().evaluate(one, codes) for one in (space, other))
        np.testing.assert_allclose(after.energy_pj, before.energy_pj, rtol=1e-12)
        assert after.latency_cycles.tolist() == before.latency_cycles.tolist()
        assert after.status.tolist() == before.status.tolist()


def test_every_door_takes_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Option, Python and a workload's file say the same, and what they find reads back."""
    layer = tmp_path / "layer.yaml"
    layer.write_text("gemm: {M: 2, N: 4, K: 2}\nbits: {weights: 4, input: 8, Z: 16}\n")
    store, record = tmp_path / "store", tmp_path / "best.json"
    inline, options = "gemm:M=2,N=4,K=2", ("--store", store)
    plain = answer(capsys, "search", inline, *options)
    bits = ("--bits", "weights=4,inputs=8,Z=16")
    found = answer(capsys, "search", inline, *bits, *options, "--output", record)
    assert found["proven"]
    assert found["energy_pj"] < plain["energy_pj"]
    assert not found["from_store"]
    again = answer(capsys, "search", layer, *options)
    assert again["from_store"]
    assert again["energy_pj"] == found["energy_pj"]
    asked = {"weights": 4, "inputs": 8, "Z": 16}
    assert ms.search(inline, bits=asked, store=False).costs.energy_pj == found["energy_pj"]
    scored = json.loads(printed(capsys, "evaluate", record))
    assert scored["result"]["energy_pj"] == found["energy_pj"]
    assert call("verify", record.with_suffix(".certificate.json")) == 0
    front = ms.pareto(layer, store=False)
    assert min(point.costs.edp for point in front.points) == found["edp"]


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (
            {"Q": 4},
            "called so or has that role: 'Q'; .*A \\(input",
        ),
        ({"A": 0}, "bits.A: expected a whole number of bits from 1 to 256, got 0"),
        ({"A": 257}, "bits.A: .*got 257"),
        ({"A": True}, "bits.A: .*got true"),
        ({"A": 4.0}, "bits.A: .*got 4.0"),
        ([4], "bits: expected bits by tensor or role, got .4"),
    ],
)
def test_wrong_bits_are_refused(bits: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        with_bits(workload(GEMM), bits)


@pytest.mark.parametrize("text", ["", "A", "A=", "=4", "A=4,A=5", "A=4.5", "A=-1", "A=4;B=2"])
def test_a_wrong_option_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--bits: "):
        read_bits(text)


def test_names_overrule_roles() -> None:
    found = with_bits(workload(GEMM), {"A": 3, "input": 9, "weights": 5})
    assert found.bits_by_tensor == (3, 5, None)


def test_layers_of_a_network_have_bits_by_role(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also those without weights; chosen together or each for itself; totals are their sums."""
    network = tmp_path / "network.yaml"
    network.write_text(
        "layers:\n- {name: one, workload: 'gemm:M=8,N=8,K=8', count: 2}\n"
        f"- {{name: two, workload: {tmp_path / 'sum.yaml'}}}\n"
    )
    (tmp_path / "sum.yaml").write_text(
        "dimensions: {A: 8, B: 8}\ntensors: {X: [A, B], Y: [A]}\noutput: Y\n"
    )
    bits = {"weights": 4, "input": 8}
    one = ms.search("gemm:M=8,N=8,K=8", bits=bits, store=False)
    two = ms.search(tmp_path / "sum.yaml", bits={"input": 8}, store=False)
    energy = 2 * one.costs.energy_pj + two.costs.energy_pj
    asked = ("search", "--network", network, "--bits", "weights=4,input=8", "--no-store")
    whole = answer(capsys, *asked)["totals"]
    assert whole["energy_pj"] == pytest.approx(energy)
    together = answer(capsys, *asked, "--jointly", "--objective", "energy")["totals"]
    assert together["energy_pj"] <= energy
    assert together["proven"]
    with pytest.raises(ConfigError, match="no tensor of any layer is called so"):
        ms.search_network(network, bits={"Q": 4}, store=False)


def test_what_takes_values_for_words_refuses_bits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    layer = tmp_path / "layer.yaml"
    layer.write_text("cnn: {N: 1, K: 4, C: 4, P: 4, Q: 4, R: 1, S: 1}\nbits: {weight: 4}\n")
    network = tmp_path / "network.yaml"
    network.write_text(
        f"layers:\n- {{name: one, workload: {layer}}}\n"
        f"- {{name: two, workload: {layer}, input: one}}\n"
    )
    record = tmp_path / "record.json"
    assert call("search", layer, "--no-store", "--output", record) == 0
    capsys.readouterr()
    for command in (
        ("search", layer, "--searcher", "marvel", "--no-store"),
        ("search", "--network", network, "--jointly", "--resident", "--no-store"),
        ("search", "--network", network, "--moves", "--no-store"),
        ("export", record),
    ):
        assert call(*command) == 2, command
        assert "bits" in capsys.readouterr().err
