"""Machines in real units: the shipped tables, what a file gets from them, who says which number."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from commands import call
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

import mapspace as ms
from costmodel import LoopNestModel, MapSpace
from costmodel.machines import component_library, component_tables
from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.machines.component_library import PACKAGE, from_library
from costmodel.machines.component_tables import (
    Figures,
    NotInTableError,
    dram,
    int_mac,
    registers,
    sram,
)
from costmodel.machines.components import without_looked_up
from costmodel.machines.machine_units import (
    area_mm2,
    chip_text,
    leakage_w,
    slow_memories,
    without_area,
)
from mapspace.errors import ConfigError
from mapspace.extras import is_installed

MEMORY, LOGIC = component_tables.MEMORY_SOURCE, component_tables.LOGIC_SOURCE
TINY: dict[str, Any] = {
    "name": "tiny",
    "node_nm": 45,
    "word_bits": 16,
    "clock_ghz": 0.5,
    "mac_component": "int-mac",
    "levels": [
        {"name": "DRAM", "component": "lpddr4", "block_words": 4},
        {
            "name": "L2",
            "capacity_bytes": 65536,
            "component": {"kind": "sram"},
            "block_words": 4,
            "fanout": 16,
        },
        {"name": "L1", "capacity_words": 64, "component": "registers"},
    ],
}


def tiny(level: int = -1, **changes: Any) -> dict[str, Any]:
    """The tiny machine's file with changes, of a level if it is said which."""
    data: dict[str, Any] = json.loads(json.dumps(TINY))
    (data if level < 0 else data["levels"][level]).update(changes)
    return data


def test_area_and_leakage_summed_by_hand() -> None:
    machine = accelerator(TINY)
    # components-sram.csv: 45,64,1,1,524288; -registers.csv: 45; -mac.csv: 45,16,32
    assert area_mm2(machine) == pytest.approx(0.2090 + 16 * (1024 * 8.74e-6) + 16 * 0.0027265, 1e-3)
    assert leakage_w(machine) == pytest.approx(1.670e-6 + 16 * 2.57774e-5, rel=1e-3)
    assert machine.levels[0].energies == (8.0 * 16 * 4,) * 3
    assert machine.levels[1].energies == (25.87, 19.65, 19.65)
    assert machine.levels[2].energies == pytest.approx((16 * 0.010357,) * 3, rel=1e-3)
    # 1.67e-6 W at half a gigahertz: 3.34e-15 J in a cycle of 2 ns.
    assert machine.levels[1].leakage_pj == pytest.approx(3.34e-3, rel=1e-3)


def test_energy_of_a_mapping_counted_by_hand() -> None:
    """On one element, which holds the whole of a product of 2 x 2 by 2 x 2."""
    found = ms.search("gemm:M=2,N=2,K=2", tiny(1, fanout=1), objective="energy")
    outside = 3 * 512.0  # A and B are read once, Z is written once, a block each
    buffer = 2 * (19.65 + 25.87) + 19.65  # A and B filled and read, Z updated
    inside = (4 + 8) * 2 + 12  # A and B: four fills, eight reads; Z: eight updates, four reads
    leakage = 8 * (3.34e-3 + 0.05156)  # eight cycles, with the unit's
    total = outside + buffer + inside * 0.1657 + 8 * 3.89 + leakage
    assert found.costs.energy_pj == pytest.approx(total, rel=1e-4)
    assert found.costs.power_w == pytest.approx(total * 1e-12 / 16e-9, rel=1e-4)
    said = found.to_dict()
    assert said["area_mm2"] == pytest.approx(0.209 + 0.00895 + 0.002727)
    assert "area 0.2207 mm2" in dict(found.facts(every_cost=True))["chip"]


def golden() -> list[dict[str, float]]:
    with (ROOT / "tests/golden/components/sram.csv").open() as lines:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def asked(row: dict[str, float]) -> dict[str, Any]:
    sizes = {key: int(row[key]) for key in ("width_bits", "ports", "banks", "bits")}
    return {"node_nm": row["node_nm"], **sizes}


def off(found: Figures, row: dict[str, float]) -> float:
    keys = ("read_pj", "write_pj", "area_mm2", "leakage_w")
    return max(abs(getattr(found, key) / row[key] - 1) for key in keys)


def test_the_table_is_what_the_library_says() -> None:
    """On its points to the digit, between two sizes as near as the documentation has it."""
    for row in golden():
        try:
            found = sram(**asked(row))
        except NotInTableError:
            continue
        between = "between" in found.source
        assert off(found, row) < (0.25 if between else 1e-3), row


# It leaves files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not is_installed(PACKAGE), reason="needs hwcomponents, of Python 3.12")
def test_the_library_is_asked_for_what_the_table_lacks() -> None:
    missing = 0
    for row in golden():
        try:
            sram(**asked(row))
        except NotInTableError as error:
            missing += 1
            found = from_library("sram", asked(row), error)
            assert off(found, row) < 1e-3, row
            assert found.source.startswith("library hwcomponents-cacti ")
    assert missing == 3
    machine = accelerator(tiny(node_nm=28))
    assert machine.sources.mac_energy_pj is not None
    assert machine.sources.mac_energy_pj.startswith("library hwcomponents-library ")
    assert accelerator(machine.model_dump(mode="json")) == machine


@given(st.integers(1024, 2**28), st.sampled_from([22.0, 45.0]), st.sampled_from([16, 64]))
def test_between_two_sizes_figures_lie_between(bits: int, node: float, width: int) -> None:
    low, high = (sram(node, width, 1, 1, 1 << power) for power in (bits.bit_length() - 1, 28))
    if bits & (bits - 1):
        high = sram(node, width, 1, 1, 1 << bits.bit_length())
        found = sram(node, width, 1, 1, bits)
        for one, less, more in zip(found[:4], low[:4], high[:4], strict=True):
            assert min(less, more) * 0.999 <= one <= max(less, more) * 1.001


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: sram(50, 64, 1, 1, 4096), "node_nm: the table has 22, .* not 50; nearest: 45"),
        (lambda: sram(45, 48, 1, 1, 4096), "width_bits: .* not 48; nearest: 64"),
        (lambda: sram(45, 64, 1, 3, 4096), "banks: .* not 3; nearest: 4"),
        (lambda: sram(45, 64, 1, 1, 512), "bits: .* not 512; nearest: 1,024"),
        (lambda: int_mac(45, 12, 32), "multiplier_bits: .* not 12; nearest: 16"),
        (lambda: registers(7, 16, 64), "node_nm: .* not 7; nearest: 22"),
    ],
)
def test_outside_of_the_table(ask: Callable[[], Figures], message: str) -> None:
    with pytest.raises(NotInTableError, match=message):
        ask()


def test_bits_outside_the_chip_cost_the_same_each() -> None:
    assert dram("hbm2", 128).read_pj == pytest.approx(2 * dram("hbm2", 64).read_pj)


def test_numbers_of_the_file_win_and_are_named() -> None:
    data = tiny(1, energy_pj=3.5, area_mm2=0.5)
    machine = accelerator({**data, "mac_energy_pj": 1.25})
    buffer = machine.levels[1]
    assert (buffer.energies, buffer.area_mm2) == ((3.5, 3.5, 3.5), 0.5)
    assert (buffer.sources.energy_pj, buffer.sources.leakage_pj) == (None, MEMORY)
    assert (machine.mac_energy_pj, machine.sources.mac_energy_pj) == (1.25, None)
    assert machine.sources.mac_area_mm2 == LOGIC


@pytest.mark.parametrize(
    "data",
    [
        TINY,
        tiny(1, energy_pj=3.5, leakage_pj=0.0),
        tiny(2, leakage_pj=0.0),
        {**tiny(), "mac_leakage_pj": 0.25, "mac_area_mm2": 0.001},
        tiny(2, component=None, energy_pj=1.0),
        tiny(2, component=None, energy_pj=1.0, leakage_pj=0.0),
    ],
)
def test_what_was_written_is_read_as_it_was(data: dict[str, Any]) -> None:
    machine = accelerator(data)
    for again in (
        Accelerator.model_validate(machine.model_dump()),
        Accelerator.model_validate_json(machine.model_dump_json()),
        Accelerator.model_validate(without_looked_up(machine.model_dump())),
    ):
        assert (again, again.hash) == (machine, machine.hash)


def test_units_leak_while_they_are_in_use() -> None:
    # One cycle of two units of three: 5 accesses of DRAM, 8 of L1, 2 MACs, and 2 x 100 pJ.
    machine: dict[str, Any] = {
        "name": "leaky",
        "mac_energy_pj": 1.0,
        "mac_leakage_pj": 100.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 1.0},
            {"name": "L1", "capacity_words": 100, "energy_pj": 1.0, "fanout": 3},
        ],
    }
    for own in (0.0, 0.5):
        machine["levels"][1]["leakage_pj"] = own
        for factors in ("perfect", "imperfect"):
            space = MapSpace("gemm:M=2,N=1,K=1", machine, factors=factors)
            codes = space.sample(np.random.default_rng(0), 200, feasible=True)
            costs = LoopNestModel().evaluate(space, codes)
            fastest = costs.latency_cycles == 1
            assert set(costs.energy_pj[fastest]) == {215.0 + own}
    assert leakage_w(accelerator(machine)) == pytest.approx(1e-3 * 300.5)
    # Before, a machine of the same words was another one.
    assert accelerator(machine).hash != "66bfcd3c26581ae4"


def test_another_size_is_looked_up_anew() -> None:
    data = without_looked_up(accelerator(TINY).model_dump())
    data["levels"][1]["capacity_words"] *= 4
    larger = Accelerator.model_validate(data).levels[1]
    assert larger.energies[0] == sram(45, 64, 1, 1, 1 << 21).read_pj > 25.87


def test_old_machines_keep_their_hash() -> None:
    assert accelerator("mm256").hash == "565fc5546c2a6b1c"
    assert accelerator("eyeriss").hash == "8e6362c43f9f6f20"
    assert without_area(accelerator("mm256")) == ("L2", "L1", "MAC")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tiny(node_nm=50), "mac_component: int-mac: node_nm: .*nearest: 45"),
        ({**tiny(), "node_nm": None}, "mac_component: needs node_nm of the machine"),
        (tiny(1, block_words=3), r"levels\[L2\]\.component: sram: width_bits: .*not 48"),
        (tiny(0, component={"kind": "lpddr4", "ports": 2}), "ports and banks go with kind: sram"),
        (tiny(1, component={"kind": "srm"}), "component.kind: expected 'sram'"),
        (tiny(1, component=7), "component: expected a mapping, got 7"),
        (tiny(mac_component="int"), "mac_component: expected 'int-mac', got 'int'"),
        (tiny(clock_ghz=0), "clock_ghz: expected more than 0"),
        (tiny(word_bits="x"), "word_bits"),
        (tiny(1, capacity_bytes=None, technology="SRAM"), "sram needs a capacity"),
        (tiny(1, component={"kind": "sram", "x": 1}), "Unknown key|unknown key"),
        (tiny(1, sources={"energy": "me"}), "Unknown key|unknown key"),
    ],
)
def test_misuse_in_one_line(
    data: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(component_library, "is_installed", lambda package: False)
    with pytest.raises(ConfigError, match=message) as caught:
        accelerator(data)
    assert "\n" not in str(caught.value)


def test_describe_says_where_numbers_are_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(tiny(1, area_mm2=0.5)))
    assert call("describe", path) == 0
    printed = capsys.readouterr().out
    assert f"L2, sram of 1 port, 1 bank: read 25.87, write 19.65 pJ ({MEMORY})" in printed
    assert "0.5 mm2 (file)" in printed
    assert f"MAC x 16, int-mac: 3.89 pJ, 2.578e-05 W, 0.002727 mm2 ({LOGIC})\n" in printed
    assert "chip: area 0.6868 mm2" in printed
    assert call("describe", path, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["levels"][1]["sources"] == {
        "energy_pj": MEMORY,
        "leakage_pj": MEMORY,
        "area_mm2": "file",
    }
    assert said["totals"]["area_mm2"] == pytest.approx(0.6868, rel=1e-3)


@pytest.mark.parametrize(
    ("clock_ghz", "slow"),
    # components-sram.csv, 45 nm, 64 bits, 1 port, 1 bank, 524,288 bits: 1.65095 ns.
    [(0.5, {}), (0.6, {}), (0.61, {"L2": 1.651}), (1.0, {"L2": 1.651})],
)
def test_memories_slower_than_the_clock_are_named(clock_ghz: float, slow: dict[str, float]) -> None:
    machine = accelerator({**TINY, "clock_ghz": clock_ghz})
    assert dict(slow_memories(machine)) == slow
    told = f"slower than a cycle of {1 / clock_ghz:.4g} ns, not counted: L2 (1.651 ns)"
    assert (told in chip_text(machine)) == bool(slow)
    unknown = machine.model_copy(update={"node_nm": 28.0})
    assert not list(slow_memories(unknown)), "nothing is known of what the table does not have"


@pytest.mark.parametrize("joint", [False, True])
def test_networks_say_area_and_power(joint: bool) -> None:
    network = {"name": "two", "layers": ["gemm:M=2,N=2,K=2", "gemm:M=4,N=2,K=2"]}
    shown = ms.search_network(network, TINY).picture()
    if joint:
        shown = str(ms.search_network(network, TINY, jointly=True))
    assert chip_text(accelerator(TINY))[:20] in " ".join(shown.split())


def test_certificates_hold_the_sources(tmp_path: Path) -> None:
    ms.search("gemm:M=2,N=2,K=2", TINY).save(tmp_path / "x.jsonl")
    written = json.loads((tmp_path / "x.certificate.json").read_text())
    assert MEMORY in json.dumps(written)
    assert ms.verify(tmp_path / "x.certificate.json").holds


def test_the_librarys_numbers_in_this_projects_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """J to pJ, m2 to mm2, nm to m: a stand-in says what it was asked."""
    asked: list[Any] = []

    class Said(NamedTuple):
        energy: float

    class Part:
        read_energy, write_energy, area, leak_power = 5e-12, 7e-12, 3e-6, 2e-3

        def __init__(self, *given: Any, **named: Any) -> None:
            asked.append((*given, named))

        def read(self, bits_per_action: float) -> Said:
            return Said(bits_per_action * 1e-12)

        def write(self, bits_per_action: float) -> Said:
            return Said(bits_per_action * 3e-12)

        def mac(self) -> Said:
            return Said(0.5e-12)

    parts = SimpleNamespace(SRAM=Part, AladdinRegister=Part, AladdinIntMAC=Part)
    monkeypatch.setitem(sys.modules, PACKAGE, parts)
    monkeypatch.setitem(sys.modules, "hwcomponents_library.library.aladdin", parts)
    monkeypatch.setattr(component_library, "is_installed", lambda package: True)
    # What it says here is nobody else's answer.
    monkeypatch.setattr(component_library, "_asked", component_library._asked.__wrapped__)
    monkeypatch.setattr("importlib.metadata.version", lambda package: "9")
    missing = component_tables.NotInTableError("no")
    memory = {"node_nm": 45, "bits": 1024, "width_bits": 64, "ports": 2, "banks": 4}
    unit = {"node_nm": 28, "adder_bits": 32, "multiplier_bits": 8}
    for kind, wanted, energies, package in (
        ("sram", memory, (5.0, 7.0), "cacti"),
        ("registers", memory, (64.0, 192.0), "library"),
        ("int-mac", unit, (0.5, 0.5), "library"),
    ):
        said = from_library(kind, wanted, missing)
        assert said == Figures(*energies, 3.0, 2e-3, f"library hwcomponents-{package} 9")
    ports = {"tech_node": 45e-9, "size": 1024, "width": 64, "n_rw_ports": 2, "n_banks": 4}
    assert asked[0] == (pytest.approx(ports),)
    assert asked[1] == (pytest.approx(45e-9), {"size": 1024})
    assert asked[2] == (pytest.approx(28e-9), 32, 8, {})
