"""What people read is in mJ, ms, J s and W; JSON keeps picojoules and cycles beside them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import printed

from costmodel import Mapping, accelerator, workload
from costmodel.costs import OBJECTIVES
from mapspace.errors import ConfigError
from orchestrator.proofs.pareto import Front, FrontMapping, front, front_figure
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.report.units import energy_text, latency_text, physical, value_text

LAYER = "gemm:M=64,N=32,K=16"
# Not 1 GHz, so that cycles are no nanoseconds.
CLOCK_GHZ = 0.2
NUMBER = r"(-?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?)"
# What no text for people has: picojoules in a product or as a total.
MODEL_UNITS = re.compile(r"\d ?pJ\b(?! per)")


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """A file of mm256 with another clock."""
    path = tmp_path / "slow.yaml"
    path.write_text(f"extends: mm256\nclock_ghz: {CLOCK_GHZ}\n")
    return str(path)


def number(pattern: str, text: str) -> float:
    """The number in the place of `NUMBER` in a text."""
    found = re.search(pattern.replace("NUMBER", NUMBER), text)
    assert found is not None, f"{pattern} is not in:\n{text}"
    return float(found[1].replace(",", ""))


def near(value: float) -> Any:
    """As printed, with at least four figures."""
    return pytest.approx(value, rel=1e-3)


def column(text: str, header: str, row: str) -> float:
    """A figure of a table whose columns are two spaces apart or aligned to the right."""
    lines = text.splitlines()
    head = next(line for line in lines if header in line)
    end = head.index(header) + len(header)
    line = next(line for line in lines if line.strip().startswith(row))
    return float(line[:end].split()[-1].replace(",", ""))


def check_physical(found: dict[str, Any]) -> None:
    """Holds J s, s and W against picojoules and cycles, by hand."""
    joules, seconds = found["energy_pj"] / 1e12, found["latency_cycles"] / (CLOCK_GHZ * 1e9)
    assert found["latency_s"] == pytest.approx(seconds, rel=1e-12)
    assert found["edp_js"] == pytest.approx(joules * seconds, rel=1e-12)
    assert found["power_w"] == pytest.approx(joules / seconds, rel=1e-12)
    assert found["edp"] == pytest.approx(found["energy_pj"] * found["latency_cycles"], rel=1e-12)


def test_by_hand() -> None:
    # 5 mJ in 10 ms: 5e-5 J s, half a watt.
    found = physical(5e9, 2_000_000, 0.2)
    assert found == pytest.approx({"latency_s": 0.01, "edp_js": 5e-5, "power_w": 0.5})
    assert energy_text(5e9) == "5 mJ"
    assert latency_text(2_000_000, 0.2) == "2,000,000 cycles (10 ms)"
    assert value_text("edp", 5e9 * 2e6, 0.2) == "5e-05 J s"
    assert value_text("ed2p", 5e9 * 2e6 * 2e6, 0.2) == "5e-07 J s^2"
    assert value_text("energy", 5e9, 0.2) == energy_text(5e9)
    assert value_text("latency", 2e6, 0.2) == latency_text(2e6, 0.2)
    assert math.isnan(physical(math.nan, math.nan, 1.0)["power_w"])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_search(capsys: pytest.CaptureFixture[str], machine: str, objective: str) -> None:
    arguments = ("search", LAYER, "--accelerator", machine, "--objective", objective)
    found = json.loads(printed(capsys, *arguments, "--json"))
    check_physical(found)
    text = printed(capsys, *arguments)
    assert number(r"(?m)^energy +NUMBER mJ$", text) == near(found["energy_pj"] / 1e9)
    assert number(r"latency +NUMBER cycles", text) == found["latency_cycles"]
    assert number(r"latency +[\d,]+ cycles \(NUMBER ms\)", text) == near(1e3 * found["latency_s"])
    assert number(r"mean power +NUMBER W", text) == near(found["power_w"])
    assert number(r"EDP +NUMBER J s", text) == near(found["edp_js"])
    assert number(r"EDP .*\(NUMBER pJ x cycles\)", text) == near(found["edp"])


def test_a_bound_is_in_the_units_of_the_objective(
    capsys: pytest.CaptureFixture[str], machine: str
) -> None:
    arguments = ("search", LAYER, "--accelerator", machine, "--searcher", "random")
    budget = ("--iterations", "20")
    found = json.loads(printed(capsys, *arguments, *budget, "--json"))
    bound = found["lower_bound"] / 1e12 / (CLOCK_GHZ * 1e9)
    text = printed(capsys, *arguments, *budget)
    assert number(r"proven optimum +NUMBER J s;", text) == near(bound)


def test_network(capsys: pytest.CaptureFixture[str], machine: str, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f'layers: ["{LAYER}", {{workload: "gemm:M=8,N=8,K=8", count: 3}}]')
    arguments = ("search", "--network", str(file), "--accelerator", machine)
    found = json.loads(printed(capsys, *arguments, "--json"))
    text = printed(capsys, *arguments)
    for row in (*found["layers"], {**found["totals"], "workload": "total"}):
        check_physical(row)
        name = row["workload"]
        assert column(text, "energy, mJ", name) == near(row["energy_pj"] / 1e9)
        assert column(text, "cycles", name) == row["latency_cycles"]
        assert column(text, "  ms", name) == near(1e3 * row["latency_s"])
        assert column(text, "EDP, J s", name) == near(row["edp_js"])
    assert number(r"EDP +NUMBER J s \(total", text) == near(found["totals"]["edp_js"])
    # What holds for every layer is said once.
    assert text.count("proven") == 1
    assert "certified       within" in text
    assert not MODEL_UNITS.search(text)


def test_pareto(capsys: pytest.CaptureFixture[str], machine: str) -> None:
    arguments = ("pareto", LAYER, "--accelerator", machine)
    front = json.loads(printed(capsys, *arguments, "--json"))["front"]
    least = min(point["energy_pj"] for point in front)
    lines = printed(capsys, *arguments).splitlines()[2:]
    assert len(lines) == len(front)
    for line, point in zip(lines, front, strict=True):
        check_physical(point)
        elements, cycles, ms, mj, above, _, watts, edp = line.replace(",", "").split()
        assert (int(elements), int(cycles)) == (point["elements"], point["latency_cycles"])
        assert float(ms) == near(1e3 * point["latency_s"])
        assert float(mj) == near(point["energy_pj"] / 1e9)
        assert float(above) == pytest.approx(100 * (point["energy_pj"] / least - 1), abs=0.006)
        assert float(watts) == near(point["power_w"])
        assert float(edp) == near(point["edp_js"])


def test_the_axes_of_a_front_are_plain_numbers() -> None:
    """Energies of a fraction of a per cent apart, on which an axis in pJ had an offset."""
    least = 1.09645e10
    points = [(7_225_344, 1.09687e10), (7_340_032, 1.09667e10), (8_257_536, least)]
    nest = workload(LAYER).model_copy(update={"name": "a $layer"})
    front = tuple(
        FrontMapping(Mapping((), ()), {}, costs, 1, costs.energy_pj / least - 1, costs.energy_pj)
        for costs in (MappingCosts(energy, cycles, CLOCK_GHZ) for cycles, energy in points)
    )
    found = Front(nest, accelerator("mm256"), front, bounds=tuple(points), proven=True)
    figure = front_figure(found)
    figure.draw_without_rendering()
    (panel,) = figure.axes
    assert panel.get_ylabel() == "energy, % above the least of 10.9645 mJ"
    assert panel.get_xlabel() == "latency, ms"
    for axis in (panel.xaxis, panel.yaxis):
        assert axis.get_offset_text().get_text() == ""
        labels = [text.get_text() for text in axis.get_ticklabels(which="both")]
        shown = [float(label.replace("\N{MINUS SIGN}", "-")) for label in labels if label]
        assert len(shown) > 2
    # 7,225,344 cycles of 5 ns.
    assert np.asarray(panel.lines[0].get_xdata())[0] == pytest.approx(36.12672)


def test_bypass(capsys: pytest.CaptureFixture[str], machine: str, tmp_path: Path) -> None:
    arguments = ("--accelerator", machine)
    row = json.loads(printed(capsys, "bypass", LAYER, *arguments, "--json"))["layers"][0]
    text = printed(capsys, "bypass", LAYER, *arguments)
    for key, label in (("kept", "every tensor kept"), ("searched", "bypass searched")):
        check_physical(row[key])
        assert column(text, "energy, mJ", label) == near(row[key]["energy_pj"] / 1e9)
        assert column(text, "time, ms", label) == near(1e3 * row[key]["latency_s"])
        assert column(text, "EDP, J s", label) == near(row[key]["edp_js"])
    file = tmp_path / "net.yaml"
    file.write_text(f'layers: ["{LAYER}"]')
    totals = json.loads(printed(capsys, "bypass", "--network", str(file), *arguments, "--json"))
    text = printed(capsys, "bypass", "--network", str(file), *arguments)
    assert text.count("proven") == 1
    assert column(text, "EDP, J s, all kept", "total") == near(totals["totals"]["kept"]["edp_js"])
    assert not MODEL_UNITS.search(text)


def test_space(capsys: pytest.CaptureFixture[str], machine: str) -> None:
    arguments = ("space", LAYER, "--accelerator", machine, "--samples", "200")
    optimum = json.loads(printed(capsys, *arguments, "--json"))["spaces"][0]["optimum"]
    text = printed(capsys, *arguments)
    assert optimum["edp_js"] == pytest.approx(optimum["edp"] / 1e12 / (CLOCK_GHZ * 1e9))
    assert number(r"proven optimum +EDP NUMBER J s,", text) == near(optimum["edp_js"])
    assert not MODEL_UNITS.search(text)


@pytest.mark.parametrize("machine", ["mm256", "eyeriss"])
def test_a_front_in_no_time_is_refused_as_it_was_asked_for(machine: str) -> None:
    with pytest.raises(ConfigError, match=r"above 0 seconds, got -1\.0"):
        front(LAYER, machine, seconds=-1.0)
