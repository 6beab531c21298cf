"""What stays on the chip, against every choice of it and of mappings, by hand, and as a command."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from small_problems import every_mapping
from test_jointly import Pairs, check_tie, front

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import resident_machine, shared_buffer
from costmodel.networks.chains import Step, load_chain
from mapspace.errors import ConfigError
from orchestrator.networks.layer_lines import begin_all
from orchestrator.networks.resident import Resident, Ways
from orchestrator.networks.time_left import TimeLeft

POWERS = {"energy": (1, 0), "latency": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}


def machine_of(rng: np.random.Generator) -> dict[str, Any]:
    """Three levels, where the room of the buffer matters."""
    read, buffer, element = [(200.0, 2.0, 1.0), (20.0, 6.0, 1.0), (8.0, 7.0, 0.5)][rng.integers(3)]
    dram: dict[str, Any] = {"name": "DRAM", "energy_pj": read}
    shared = {"name": "L2", "energy_pj": buffer, "capacity_words": int(rng.integers(6, 60))}
    if rng.random() < 0.4:
        dram |= {"read_bandwidth": 1.0, "write_bandwidth": 1.0}
    elements = {"name": "L1", "energy_pj": element, "capacity_words": int(rng.integers(3, 9))}
    fanout = {"fanout": int(rng.choice([1, 2, 4]))}
    levels = [dram, shared | fanout, elements]
    return {"name": "small", "mac_energy_pj": 1.0, "levels": levels}


def chain_of(rng: np.random.Generator) -> list[Step]:
    """Two or three products in a row, of which the first may be needed until the last."""
    steps = int(rng.integers(2, 4))
    sizes = [int(rng.choice([1, 2, 3, 4])) for _ in range(steps + 2)]
    held = steps == 3 and bool(rng.random() < 0.5)
    found = []
    for place in range(steps):
        shape = {"M": sizes[0], "N": sizes[place + 2], "K": sizes[place + 1]}
        until = steps - 1 if held and place == 0 else min(place + 1, steps - 1)
        work = workload({"name": f"p{place}", "gemm": shape})
        found.append(Step(work, 1, place - 1 if place else None, until))
    return found


def fronts_of(steps: list[Step], machine: Accelerator, most: int) -> dict[Any, Pairs] | None:
    """The front of every layer with each that can lie on the chip; None: too many mappings."""
    fronts: dict[Any, Pairs] = {}
    candidates = range(len(steps) - 1)
    for stay in itertools.product((False, True), repeat=len(steps) - 1):
        for place, step in enumerate(steps):
            lying = [t for t in candidates if stay[t] and t <= place <= steps[t].until]
            roles = ("input",) * (place > 0 and stay[place - 1])
            roles += ("output",) * (place in candidates and stay[place])
            key = (place, roles, tuple(lying))
            if key in fronts:
                continue
            found = resident_machine(machine, roles, sum(steps[t].words for t in lying))
            fronts[key] = []
            if found is not None:
                space = MapSpace(step.workload, found)
                codes = every_mapping(space, most)
                if codes is None:
                    return None
                fronts[key] = front(space, codes) if len(codes) else []
    return fronts


def every_stay(steps: list[Step], fronts: dict[Any, Pairs]) -> Pairs:
    """Energy and cycles of every choice of tensors that stay and of mappings on the fronts."""
    sums: Pairs = []
    for stay in itertools.product((False, True), repeat=len(steps) - 1):
        chosen = []
        for place in range(len(steps)):
            lying = [t for t in range(len(stay)) if stay[t] and t <= place <= steps[t].until]
            roles = ("input",) * (place > 0 and stay[place - 1])
            roles += ("output",) * (place < len(stay) and stay[place])
            chosen.append(fronts[place, roles, tuple(lying)])
        sums += [
            (sum(e for e, _ in choice), sum(c for _, c in choice))
            for choice in itertools.product(*chosen)
        ]
    return sums


def check(seed: int, most: int) -> bool | None:
    """Holds what is found of a random chain against all choices; whether anything stays."""
    rng = np.random.default_rng(seed)
    while True:
        steps, machine = chain_of(rng), accelerator(machine_of(rng))
        fronts = fronts_of(steps, machine, most)
        if fronts is not None and all(fronts[place, (), ()] for place in range(len(steps))):
            break
    sums = every_stay(steps, fronts)
    stays = False
    for objective, (a, b) in POWERS.items():
        ways = Ways(steps, machine)
        begin_all(ways.layers, TimeLeft(60.0))
        proof = Resident(ways, objective)
        found = proof.run()
        least = min(energy**a * cycles**b for energy, cycles in sums)
        where = f"{objective} of seed {seed}"
        assert float(found.value) == pytest.approx(least, rel=1e-9), where
        assert found.gap <= 1e-6, where
        assert float(found.bound) <= least * (1 + 1e-9), where
        if objective in ("energy", "latency"):
            check_tie(found, sums, where)
        for lines in ways.layers:
            floor = lines.floor
            assert all(p.energy >= floor.energy for p in lines.points), where
            assert all(p.cycles >= floor.cycles for p in lines.points), where
        stays |= any(way.stays for way in proof.path)
    return stays


def test_equals_every_choice() -> None:
    assert any(check(seed, 3000) for seed in range(2))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_more_equal_every_choice(block: int) -> None:
    found = [check(seed, 20_000) for seed in range(1000 + 20 * block, 1020 + 20 * block)]
    assert any(found)


def test_what_stays_costs_nothing_outside_by_hand() -> None:
    # One word per tensor and step: 2 x 2 x 2 products on a buffer that holds everything.
    levels = [
        {"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 1.0, "write_bandwidth": 1.0},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 12},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ]
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": levels})
    work = workload("gemm:M=2,N=2,K=2")
    least = {}
    for roles, words in (((), 0), (("input",), 4), (("output",), 4), (("input", "output"), 8)):
        found = resident_machine(machine, roles, words)
        assert found is not None
        space = MapSpace(work, found)
        codes = every_mapping(space, 500_000)
        assert codes is not None
        costs = LoopNestModel().evaluate(space, codes)
        least[roles] = float(costs.energy_pj.min()), int(costs.latency_cycles.min())
    # Four words less cross the chip's edge (100 pJ), and none is copied into the buffer (2 pJ).
    assert least[()][0] - least["input",][0] == pytest.approx(4 * 102)
    # Outputs are written to the buffer all the same, and handing them up is no read of it.
    assert least[()][0] - least["output",][0] == pytest.approx(4 * 100)
    assert least[()][0] - least["input", "output"][0] == pytest.approx(4 * 102 + 4 * 100)
    # Eight words read, one per cycle, at eight multiply-accumulates: nothing waits.
    assert {cycles for _, cycles in least.values()} == {8}
    assert resident_machine(machine, ("input",), 13) is None
    for roles, words, room in ((("input",), 4, 8), (("input", "output"), 8, 4), ((), 5, 7)):
        found = resident_machine(machine, roles, words)
        assert found is not None
        assert next(level for level in found.levels if level.name == "L2").capacity_words == room
    assert resident_machine(machine, (), 0) is machine


def test_a_buffer_that_is_full_holds_nothing_else() -> None:
    dram = {"name": "DRAM", "energy_pj": 100.0}
    buffer = {"name": "L2", "energy_pj": 2.0, "capacity_words": 16}
    inner = {"name": "L1", "energy_pj": 1.0, "capacity_words": 8}
    said: dict[str, Any] = {"name": "full", "mac_energy_pj": 1.0}
    plain = accelerator({**said, "levels": [dram, buffer, inner]})
    assert resident_machine(plain, ("input",), 16) is None, "weights and outputs need a word each"
    past = accelerator({**said, "levels": [dram, {**buffer, "bypass": ["weight"]}, inner]})
    assert resident_machine(past, ("input",), 16) is None
    free = accelerator({**said, "bypass": "searched", "levels": [dram, buffer, inner]})
    for machine, roles in ((past, ("input", "output")), (free, ("input",)), (free, ())):
        found = resident_machine(machine, roles, 16)
        assert found is not None
        level = next(level for level in found.levels if level.name == "L2")
        assert set(level.bypass) == {"input", "weight", "output"}
        space = MapSpace(workload("gemm:M=2,N=2,K=2"), found)
        codes = every_mapping(space, 500_000)
        assert codes is not None
        assert len(codes)


def test_what_is_skipped_over_takes_room_in_between() -> None:
    # Two words stay until the last of three steps, and two of the second's: none to spare at last.
    steps = [
        Step(workload({"name": f"p{place}", "gemm": {"M": 1, "N": 2, "K": 2}}), 1, source, 2)
        for place, source in enumerate((None, 0, 1))
    ]
    levels = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 12},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ]
    machine = accelerator({"name": "held", "mac_energy_pj": 0.0, "levels": levels})
    rooms = [
        {
            (tuple(sorted(way.before)), way.stays): next(
                level.capacity_words
                for level in way.lines.space.accelerator.levels
                if level.name == "L2"
            )
            for way in ways
        }
        for ways in Ways(steps, machine).ways
    ]
    assert rooms[1] == {((), False): 12, ((), True): 10, ((0,), False): 10, ((0,), True): 8}
    assert rooms[2] == {((), False): 12, ((0,), False): 10, ((1,), False): 10, ((0, 1), False): 8}


def test_the_order_of_networks() -> None:
    name, steps = load_chain("resnet50")
    assert name == "resnet50"
    places = {step.workload.name.removeprefix("resnet50-"): i for i, step in enumerate(steps)}
    assert len(steps) == len(places) == 53
    for layer, source, until in (
        ("conv2_1_1", "conv1", "conv2_1_2"),
        ("conv1", None, "conv2_1_shortcut"),
        ("conv2_1_shortcut", "conv1", "conv2_1_shortcut"),
        ("conv2_2_1", "conv2_1_3", "conv2_2_2"),
        ("conv2_1_3", "conv2_1_2", "conv2_2_3"),
        ("conv2_3_3", "conv2_3_2", "conv3_1_shortcut"),
    ):
        step = steps[places[layer]]
        assert step.source == (None if source is None else places[source]), layer
        assert step.until == places[until], layer
    _, steps = load_chain("mobilenetv2")
    assert [step.source for step in steps] == [None, *range(51)]
    assert sum(step.until > place + 1 for place, step in enumerate(steps)) == 10  # residual blocks
    _, steps = load_chain("bert-base:sequence=128")
    assert {s.workload.name for s in steps if s.source is not None} == {
        "bert-base-scores", "bert-base-context", "bert-base-projection", "bert-base-down",
    }  # fmt: skip


PAIR = {
    "name": "pair",
    "layers": [
        {"name": "up", "gemm": {"M": 4, "N": 4, "K": 2}, "count": 3},
        {"name": "down", "gemm": {"M": 4, "N": 2, "K": 4}, "count": 3, "input": "up"},
    ],
}


def test_a_command_says_what_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = tmp_path / "pair.yaml"
    network.write_text(json.dumps(PAIR))
    output = tmp_path / "found.jsonl"
    asked = ("search", "--network", network, "--jointly", "--resident", "--accelerator", "tiny3")
    assert call(*asked, "--objective", "energy", "--output", output, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["totals"]["proven"]
    assert said["totals"]["alone_proven"]
    assert said["layers"][0]["output_stays"]
    assert said["layers"][1]["input_stays"]
    assert said["totals"]["worth"] > 0
    assert said["totals"]["energy_pj"] < said["totals"]["alone"]
    assert [json.loads(line)["layer"] for line in output.read_text().splitlines()] == ["up", "down"]
    assert call(*asked, "--objective", "energy") == 0
    assert "1 of 1 tensors" in capsys.readouterr().out


def test_what_cannot_stay_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    up, down = PAIR["layers"]
    narrow = {"name": "narrow", "mac_energy_pj": 1.0}
    dram = {"name": "DRAM", "energy_pj": 100.0}
    buffer = {"name": "L2", "energy_pj": 1.0, "capacity_words": 8}
    for layers, wrong in (
        ([up], "no layer says whose output it reads"),
        ([up, {**down, "input": "upp"}], "expected the name of a layer before it, got 'upp'"),
        ([up, {**down, "count": 2}], "expected one count between, got 2, 3"),
        ([up, {**down, "until": "up"}], "expected the name of a layer after it, got 'up'"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            load_chain({"name": "wrong", "layers": layers})
    with pytest.raises(ConfigError, match="the order is not known"):
        load_chain("unet")
    with pytest.raises(ConfigError, match="nothing can stay on the chip"):
        shared_buffer(accelerator({**narrow, "levels": [{**dram, "fanout": 2}, buffer]}))
    with pytest.raises(ConfigError, match="L2 has banks"):
        shared_buffer(accelerator({**narrow, "levels": [dram, {**buffer, "banks": 2}]}))
    assert call("search", "--network", "alexnet", "--resident") == 2
    assert "--resident is for --network --jointly" in capsys.readouterr().err
