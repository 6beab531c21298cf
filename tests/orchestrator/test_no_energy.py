"""A machine that needs no energy has answers at every door: of nothing every share is none."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import commands
import pytest

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from orchestrator.map_space.sample import sample_space
from orchestrator.runs.live import Live

MACHINE = {
    "name": "free",
    "mac_energy_pj": 0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 0},
        {"name": "L3", "energy_pj": 0, "capacity_words": 128, "fanout": 3},
        {"name": "L2", "energy_pj": 0, "capacity_words": 64, "fanout": 2},
        {"name": "L1", "energy_pj": 0, "capacity_words": 16},
    ],
}
LAYER = "gemm:M=6,N=2,K=2"
# 24 multiply-accumulates on six elements.
CYCLES = 4


@pytest.mark.parametrize("objective", ["energy", "edp", "latency"])
def test_the_fastest_mapping_is_proven(objective: str) -> None:
    found = ms.search(LAYER, MACHINE, objective=objective, top=2, store=False)
    assert (found.costs.energy_pj, found.costs.latency_cycles) == (0, CYCLES)
    assert found.proven
    assert found.overall.tie_proven
    assert found.to_dict()["top"][1]["above_best"] == 0


@pytest.mark.parametrize("options", [{}, {"jointly": True}, {"jointly": True, "resident": True}])
def test_networks_have_totals(options: dict[str, bool], tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(MACHINE))
    layers = [
        {"name": "a", "workload": LAYER, "count": 1},
        {"name": "b", "workload": "gemm:M=6,N=2,K=2", "input": "a"},
    ]
    found = ms.search_network(
        {"layers": layers}, str(machine), objective="energy", store=False, **options
    )
    totals = found.to_dict()["totals"]
    assert (totals["energy_pj"], totals["latency_cycles"]) == (0, 2 * CYCLES)
    assert totals["proven"]
    assert str(found)


def test_fronts_and_bypass_compare_nothing_with_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (point,) = ms.pareto(LAYER, MACHINE, store=False).points
    assert (point.costs.energy_pj, point.costs.latency_cycles) == (0, CYCLES)
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(MACHINE))
    options = ("--accelerator", str(machine), "--no-store")
    (row,) = commands.answer(capsys, "bypass", LAYER, *options)["layers"]
    assert row["energy_ratio"] == row["edp_ratio"] == 1


def test_spaces_are_described_by_energies() -> None:
    space = MapSpace(workload(LAYER), accelerator(MACHINE))
    with pytest.raises(ConfigError, match="free needs no energy for gemm"):
        sample_space(space, 10, 0, Live(io.StringIO()), threading.Event())
