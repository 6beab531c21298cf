"""What is said of a machine: totals counted by hand, the tree, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call

from costmodel.machines.accelerators import accelerator, accelerator_names
from costmodel.machines.machine_summary import Boundary, holds, may_hold, summary, totals, tree
from costmodel.machines.machine_units import unusual_units
from mapspace.notices import noticed_by

SMALL = {
    "name": "small",
    "mac_energy_pj": 0.5,
    "cycles_per_mac": 2,
    "word_bits": 8,
    "clock_ghz": 0.5,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 4.0, "bandwidth": 3.0},
        {
            "name": "L2",
            "capacity_bytes": 2048,
            "energy_pj": {"read": 2.0, "fill": 3.0, "update": 4.0},
            "keep": ["weight"],
            "bypass": ["output"],
            "write_bandwidth": 8.0,
            "fanout": 6,
            "mesh": [3, 2],
            "spatial": {"x": ["M"], "y_reuse": ["output"], "reduction": False},
            "hop_energy_pj": 0.25,
        },
        {
            "name": "in",
            "capacity_words": 10,
            "energy_pj": 1.0,
            "bypass": ["weight", "output"],
            "write_bandwidth": 0.25,
            "beside": "pe",
        },
        {
            "name": "sum",
            "capacity_words": 5,
            "word_bits": 32,
            "energy_pj": 1.0,
            "bypass": ["weight", "input"],
            "write_bandwidth": 0.5,
            "multiple_buffering": 2.0,
            "beside": "pe",
            "fanout": 4,
        },
    ],
}
TREE = """\
small: 12 MACs per cycle (6 GMAC/s at 0.5 GHz), 2.1758 KiB on the chip, words of 8 bits

DRAM: without limit; holds input, weight, output
  100 pJ, reads 4 words per cycle, reads or writes 3 words per cycle
  L2: 2,048 words (2 KiB); holds weight; may hold input
    read 2, fill 3, update 4 pJ, writes 8 words per cycle
    serves 6 = 3 x 2: along x M; along y what output lacks; no spatial reduction
    network: 0.25 pJ per hop
    in x 6 (beside: pe): 10 words (10 B, 60 B in all); may hold input
      1 pJ, writes 0.25 words per cycle
    sum x 6 (beside: pe): 5 words of 32 bits (20 B, 120 B in all); may hold output
      1 pJ, writes 0.5 words per cycle, holds every tile 2 times
      serves 4
      MAC x 24: 0.5 pJ, 2 cycles each

peak words per cycle, all instances together
  DRAM > L2: 3 read, 8 written
  L2 > in: without limit, 1.5 written
  in > sum: without limit, 3 written
  the other 1: without limit"""


def test_totals_by_hand() -> None:
    machine = accelerator(SMALL)
    found = totals(machine)
    # L2 16,384 bits; six times 10 words of 8 bits and 5 of 32.
    assert found.capacity_bits == 16384 + 6 * (80 + 160)
    assert found.macs_per_cycle == 24 / 2
    assert found.boundaries == (
        Boundary("DRAM", "L2", 1, 3.0, 8.0),
        Boundary("L2", "in", 6, None, 6 * 0.25),
        Boundary("in", "sum", 1, None, 6 * 0.5),
        Boundary("sum", "MAC", 4, None, None),
    )
    held = [(holds(machine, level), may_hold(machine, level)) for level in machine.levels]
    assert held == [
        (("input", "weight", "output"), ()),
        (("weight",), ("input",)),
        ((), ("input",)),
        ((), ("output",)),
    ]


def test_the_tree_says_everything() -> None:
    assert tree(accelerator(SMALL)) == TREE
    assert repr(accelerator(SMALL)) == TREE
    assert "in x 6" in accelerator(SMALL)._repr_html_()


@pytest.mark.parametrize("name", accelerator_names())
def test_every_preset_is_described(name: str) -> None:
    machine = accelerator(name)
    text, data = tree(machine), json.loads(json.dumps(summary(machine)))
    assert text.startswith(f"{name}: ")
    assert all(f"{level}" in text for level in machine.level_names)
    assert data["hash"] == machine.hash
    assert data["levels"][-1]["instances"] * machine.levels[-1].fanout == (
        machine.processing_elements
    )
    assert data["totals"]["macs_per_cycle"] > 0


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG")):
        plot = tmp_path / f"simba{suffix}"
        assert call("describe", "simba", "--plot", str(plot)) == 0
        assert plot.read_bytes().startswith(start)
    assert b"AccumulationBuffer" in (tmp_path / "simba.svg").read_bytes()
    assert capsys.readouterr().out.count("simba: 1,024 MACs per cycle") == 2
    assert call("describe", "simba", "--json") == 0
    assert json.loads(capsys.readouterr().out)["totals"]["capacity_bits"] == 753 * 8192
    assert call("describe", "simba", "--plot", str(tmp_path / "simba.gif")) == 2
    assert "end in .png or .svg" in capsys.readouterr().err


def test_units_a_thousand_times_off_are_said() -> None:
    for name in accelerator_names():
        assert not unusual_units(accelerator(name)), name
    noticed: list[str] = []
    with noticed_by(noticed.append):
        wrong = accelerator(
            {
                "extends": "mm256",
                "clock_ghz": 200,
                "mac_energy_pj": 4000.0,
                "word_bits": 16000,
                "levels": [
                    {"name": "DRAM", "energy_pj": 0.2},
                    {"name": "L2", "energy_pj": 6500.0, "capacity_words": 262144000},
                    {"name": "L1", "energy_pj": 0.0006},
                ],
            }
        )
    said = unusual_units(wrong)
    assert noticed == [f"custom: {line}" for line in said]
    assert said[0] == "clock_ghz: 200 GHz is unusual; is it another unit?"
    assert [line.partition(":")[0] for line in said[1:]] == [
        "word_bits",
        "mac_energy_pj",
        "levels[DRAM].energy_pj",
        "levels[L2].energy_pj",
        "levels[L2].capacity_words",
        "levels[L1].energy_pj",
    ]
    assert f"warning: {said[0]}" in tree(wrong)
