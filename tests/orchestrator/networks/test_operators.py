"""Softmax and other operators that only move words: counted by hand, apart and on the chip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import call

from costmodel import accelerator
from costmodel.networks.chains import load_chain
from costmodel.networks.moves import Words, changed_off_chip, changed_on_chip
from costmodel.networks.network import words_without_macs
from mapspace.errors import ConfigError

LEVELS = [
    {"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 4.0, "write_bandwidth": 2.0},
    {"name": "L2", "energy_pj": {"read": 2.0, "fill": 4.0, "update": 3.0}, "capacity_words": 64},
    {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
]
LAYERS: list[dict[str, Any]] = [
    {"name": "scores", "gemm": {"M": 4, "N": 6, "K": 2}, "count": 2},
    {
        "name": "context",
        "gemm": {"M": 4, "N": 2, "K": 6},
        "count": 2,
        "input": "scores",
        "between": "softmax",
    },
]


def test_words_cost_their_accesses_and_the_time_of_the_bandwidth() -> None:
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": LEVELS})
    # 24 scores, read and written: at 100 pJ and at 2 + 3 pJ; two words are written per cycle.
    assert changed_off_chip(machine, 24, 24) == (4800, 12)
    assert changed_on_chip(machine, 24, 24) == (120, 0)
    leaking = [{**LEVELS[0], "leakage_pj": 0.5}, *LEVELS[1:]]
    machine = accelerator({"name": "by-hand", "mac_energy_pj": 0.0, "levels": leaking})
    assert changed_off_chip(machine, 24, 24) == (4806, 12)
    assert changed_off_chip(machine, 8, 1) == (901, 2)


def test_networks_say_what_their_operators_read_and_write() -> None:
    assert words_without_macs({"name": "own", "layers": LAYERS}) == {"softmax": Words(48, 48)}
    # 12 blocks of 12 heads of 8 x 8 scores; 8 tokens of 768 numbers, twice a block.
    found = words_without_macs("bert-base:sequence=8")
    assert found["softmax"] == (12 * 12 * 64, 12 * 12 * 64)
    assert found["normalisation"] == (12 * 2 * 8 * 768, 12 * 2 * 8 * 768)
    assert found["addition"] == (12 * 2 * 2 * 8 * 768, 12 * 2 * 8 * 768)
    assert (
        words_without_macs("unet")["pooling"].writes * 4
        == words_without_macs("unet")["pooling"].reads
    )
    with pytest.raises(ConfigError, match="expected an input beside it"):
        load_chain({"name": "wrong", "layers": [LAYERS[0], {**LAYERS[1], "input": None}]})


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Any, ...]:
    network, machine = tmp_path / "own.yaml", tmp_path / "machine.yaml"
    network.write_text(json.dumps({"name": "own", "layers": LAYERS}))
    machine.write_text(json.dumps({"mac_energy_pj": 1.0, "levels": LEVELS}))
    return ("search", "--network", network, "--accelerator", machine, "--objective", "energy")


def answer(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    assert call(*words, "--json") == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_the_totals_have_them_where_that_is_asked(
    asked: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--jointly",)):
        without, with_them = (answer(capsys, *asked, *more, *m) for m in ((), ("--moves",)))
        assert without["uncounted_words"] == {"softmax": 96}
        assert with_them["uncounted_words"] == {}
        (row,) = with_them["moves"]
        assert (row["energy_pj"], row["latency_cycles"]) == (96 * 100, 24)
        added = {
            key: with_them["totals"][key] - without["totals"][key]
            for key in ("energy_pj", "latency_cycles", "lower_bound")
        }
        # 48 words read and 48 written at 100 pJ; two per cycle are written.
        assert added == pytest.approx(
            {"energy_pj": 9600, "latency_cycles": 24, "lower_bound": 9600}
        ), more
        assert with_them["totals"]["proven"]
    output = tmp_path / "own.jsonl"
    edp = (*asked[:-1], "edp", "--jointly", "--moves", "--output", output)
    totals = answer(capsys, *edp)["totals"]
    assert totals["edp"] == pytest.approx(totals["energy_pj"] * totals["latency_cycles"])
    certificate = tmp_path / "own.certificate.json"
    assert call("verify", certificate) == 0
    said = json.loads(certificate.read_text())
    said["moves"][0]["reads"] -= 1
    certificate.write_text(json.dumps(said))
    assert call("verify", certificate) == 1
    capsys.readouterr()


def test_on_the_chip_they_cost_the_buffer(
    asked: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    resident = (*asked, "--jointly", "--resident")
    without, with_them = (answer(capsys, *resident, *m) for m in ((), ("--moves",)))
    assert without["layers"][0]["output_stays"]
    assert with_them["layers"][0]["output_stays"]
    # 24 words, twice, at 2 + 3 pJ on the chip; at 200 pJ where nothing stays.
    assert with_them["totals"]["energy_pj"] - without["totals"]["energy_pj"] == pytest.approx(240)
    assert with_them["totals"]["alone"] - without["totals"]["alone"] == pytest.approx(9600)
    assert call(*asked, "--moves") == 0
    assert "softmax move 96 words" in " ".join(capsys.readouterr().out.split())
    assert call("search", "gemm:M=4,N=4,K=4", "--moves") == 2
    assert "--moves is for --network" in capsys.readouterr().err
