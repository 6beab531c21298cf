"""Reports of Marvel studies: figures counted by hand from hand-made rows, and what is written."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from costmodel import DataError, workload
from costmodel.maestro.distinct_blocks import LAYOUTS, layer_of
from costmodel.maestro.off_chip import search
from orchestrator.marvel.report import TEXT_WIDTH, marvel_text, write_marvel_report
from orchestrator.marvel.sections import sections
from orchestrator.marvel.tables import (
    FLOWS,
    PAPER_TABLE_3,
    Study,
    agrees_with_table_3,
    energy_per_mac,
    flow_ratios,
    geometric_mean,
    label,
    layout_ratios,
    load_study,
    remainder_gains,
    remainder_times,
    space_reduction,
    space_sizes,
    throughput,
    uniform_layouts,
)
from orchestrator.marvel.totals import (
    blocks_ratio,
    family_values,
    found_after,
    network_ratios,
    network_total,
    relative_performance,
    runs_of,
    search_seconds,
    spent_seconds,
    tie_gains,
    uniform_dataflow,
)

Row = dict[str, Any]
L7 = {"K": 1000, "C": 1280, "R": 1, "S": 1, "P": 1, "Q": 1}
L7_COST = 634 / 40000  # (625 + 5 + 2 x 2) blocks


def bests(runtime: float, energy: float) -> Row:
    """Of one tile, a mapping for each objective."""
    values = {"runtime": runtime, "energy": energy, "edp": runtime * energy}
    return {
        name: {"runtime": runtime, "energy": energy, "value": value, "mapping": "", "family": ""}
        for name, value in values.items()
    }


def costs(first: float, second: float) -> list[float]:
    """Of the first two layouts; the others cost 0.4."""
    return [first, second, *[0.4] * (len(LAYOUTS) - 2)]


REMAINDERS = {
    "best": bests(8.0, 380.0),
    "seconds": 6.0,
    "budget_s": 6.0,
    "proven": True,
    "reference": bests(10.0, 400.0),
    "reference_seconds": 2.0,
}


def row(**changes: Any) -> Row:
    """L7 of Table 3 on the first platform; 5 tiles of 200 MACs, 10 cycles and 400 units each."""
    made: Row = {
        "layer": "marvel-l7",
        "kind": "FC",
        "accelerator": "eyeriss-168",
        "networks": {},
        "bounds": L7,
        "stride": 1,
        "depthwise": False,
        "macs": 1000,
        "failure": None,
        "off_chip": {
            "tile": [125, 320, 1, 1, 1, 1],
            "layout": ["C", "C", "K"],
            "cost": L7_COST,
            "total_blocks": 1000 * L7_COST,
            "blocks": [625, 5, 2],
            "order": ["C", "K"],
            "tiles": 90,
            "fitting": 80,
            "tied": 1,
            "seconds": 0.5,
            "least_costs": costs(0.1, 0.2),
        },
        "tiles_per_layer": 5,
        "whole": {"runtime": 50.0, "energy": 2000.0, "edp": 100000.0},
        "on_chip": {
            "best": bests(10.0, 400.0),
            "families": {
                "none": bests(90.0, 500.0),
                "K": bests(40.0, 450.0),
                "C": bests(30.0, 400.0),
                "KP": bests(20.0, 440.0),
                "CP": bests(10.0, 420.0),
            },
            "dataflows": {"KC": bests(20.0, 400.0), "QP": bests(40.0, 800.0), "QR": None},
            "mappings": 100,
            "evaluated": 60,
            "tilings": 50,
            "fitting": 40,
            "proven": True,
            "seconds": 1.5,
        },
        "remainders": None,
        "roofline": {"cycles": 40.0, "binding": "ingress", "macs_per_cycle": 25.0},
        "space": {
            "original": 1e12,
            "off_chip": 1e6,
            "on_chip": 1e5,
            "off_chip_pruned": 600.0,
            "on_chip_pruned": 400.0,
        },
        "baselines": [],
    }
    return made | changes


def second(**changes: Any) -> Row:
    """Another layer, three times as large, on the same platform."""
    made = row(layer="marvel-l5", kind="PWCONV", macs=3000, tiles_per_layer=2)
    made["off_chip"] = made["off_chip"] | {"least_costs": costs(0.2, 0.1)}
    made["on_chip"] = made["on_chip"] | {
        "best": bests(100.0, 300.0),
        "families": {"K": bests(100.0, 300.0), "CP": bests(150.0, 300.0)},
        "dataflows": {flow: bests(100.0, 600.0) for flow in FLOWS},
    }
    return made | changes


def sampled(method: str, seed: int, runtime: float, after: float) -> Row:
    found = {
        "runtime": {"value": runtime, "cost": 2 * L7_COST, "found_after_s": after},
        "energy": {"value": 4000.0, "cost": 2 * L7_COST, "found_after_s": after / 2},
    }
    return {"method": method, "seed": seed, "budget_s": 20.0, "evaluated": 9, "best": found}


def joint(runtime: float, *, complete: bool) -> Row:
    found = {
        "runtime": {"value": runtime, "tile": [250, 640, 1, 1, 1, 1], "cost": 3 * L7_COST},
        "energy": {"value": 2000.0, "tile": [125, 320, 1, 1, 1, 1], "cost": L7_COST},
    }
    run = {"seconds": 8.0, "complete": complete, "evaluated": 9, "tiles": 3}
    return {"method": "joint", **run, "best": found}


def written(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "study.json").write_text(json.dumps({"name": "mine", "description": "What  for."}))
    return folder


def study(*rows: Row) -> Study:
    return Study("mine", "", list(rows), [])


def test_layouts() -> None:
    assert layout_ratios(row()) == pytest.approx([1.0, 2.0, *[4.0] * 34])
    # 100 + 600, 200 + 300 and 400 + 1200 blocks where 100 + 300 would do.
    found = uniform_layouts([row(), second()])
    assert found.excess == pytest.approx([0.75, 0.25, *[3.0] * 34])
    assert found.best == 1
    assert found.mean == pytest.approx([math.sqrt(2) - 1, math.sqrt(2) - 1, *[3.0] * 34])
    # Three of the first layer: 300 + 600 and 600 + 300 where 300 + 300 would do.
    found = uniform_layouts([row(networks={"net": 3}), second(networks={"net": 1})], "net")
    assert found.excess == pytest.approx([0.5, 0.5, *[3.0] * 34])
    assert found.mean[0] == pytest.approx(2 ** (1 / 4) - 1)


def test_table_3_is_what_the_off_chip_search_finds() -> None:
    for name, (tile, layout, _) in PAPER_TABLE_3.items():
        layer = layer_of(
            workload(f"marvel-{name.lower()}"),
            residual_as="convolution" if name == "L10" else "depthwise",
        )
        found = search(layer, 108 * 1024)
        made = row(layer=layer.name, off_chip={"tile": list(found.tile), "layout": found.layout})
        assert agrees_with_table_3(made), (name, tile, layout)
    assert agrees_with_table_3(row(off_chip={"tile": [1] * 6, "layout": "CCK"})) is False
    assert agrees_with_table_3(row(layer="resnet50-conv1", networks={"resnet50": 1})) is None
    assert label(row(layer="resnet50-conv1", networks={"resnet50": 1})) == "conv1"


def test_spaces() -> None:
    other = second(space=row()["space"] | {"original": 3e12, "on_chip_pruned": 2400.0})
    assert space_sizes([row(), other])["original"] == (1e12, 2e12, 3e12)
    assert space_reduction([row(), other]) == 2e12 / (600 + 1400)


def test_throughput_energy_and_ratios() -> None:
    assert throughput(row(), 10.0) == 1000 / 50
    assert energy_per_mac(row(), 400.0) == 2.0
    # QR has no mapping of the first layer.
    assert flow_ratios([row(), second()], "runtime") == [2.0, 4.0, 1.0, 1.0, 1.0]
    assert flow_ratios([row(), second()], "energy", ["QP"]) == [2.0, 2.0]
    assert geometric_mean(flow_ratios([row()], "runtime")) == pytest.approx(math.sqrt(8))
    assert math.isnan(geometric_mean([]))


def test_networks_are_summed_with_multiplicities() -> None:
    first, other = row(networks={"net": 3}), second(networks={"net": 1, "other": 2})
    total = network_total([first, other], "net")
    assert total.macs == 3 * 1000 + 3000
    assert total.runtime["marvel"] == 3 * 5 * 10 + 2 * 100
    assert total.runtime["KC"] == 3 * 5 * 20 + 2 * 100
    assert total.energy["QP"] == 3 * 5 * 800 + 2 * 600
    assert math.isnan(total.runtime["QR"])
    assert network_total([first, other], "other").runtime["QR"] == 2 * 2 * 100
    found = network_ratios(study(first, other), "runtime")
    assert found == pytest.approx([500 / 350, 800 / 350, 1.0, 1.0, 1.0])


def test_one_dataflow_for_all_layers() -> None:
    # A family may leave its dimensions unused: KP is served by K, and by none.
    assert family_values(row(), "runtime", ["K", "KP", "CQ"]) == {"K": 40, "KP": 20, "CQ": 30}
    # The second layer: CP costs 150; KP has its K's 100. No C alone serves it.
    rows = [row(), second()]
    found = uniform_dataflow(rows, "runtime", 2)
    assert found is not None
    assert found.family == "CP"
    assert found.excess == pytest.approx(math.sqrt(1.0 * 1.5) - 1)
    found = uniform_dataflow(rows, "runtime", 1)
    assert found is not None
    assert found.family == "K"
    assert found.excess == pytest.approx(math.sqrt(4.0) - 1)
    assert uniform_dataflow(rows, "runtime", 3) is None
    # In a network the second layer's 2 x 100 cycles weigh more than one 5 x 10: 300 to 350.
    rows = [row(networks={"net": 1}), second(networks={"net": 1})]
    found = uniform_dataflow(rows, "runtime", 2, "net")
    assert found is not None
    assert found.family == "KP"
    assert found.excess == pytest.approx(300 / 250 - 1)


def test_other_searches() -> None:
    runs = [sampled("random", 0, 50.0, 4.0), sampled("random", 1, 200.0, 8.0)]
    together = joint(40.0, complete=True)
    made = row(baselines=[*runs, together])
    assert runs_of([second(), made], "random") == [(made, runs[0]), (made, runs[1])]
    assert relative_performance(made, "random", "runtime") == pytest.approx(0.5)
    assert relative_performance(made, "random", "energy") == pytest.approx(0.5)
    assert relative_performance(made, "joint", "runtime") == pytest.approx(1.25)
    assert math.isnan(relative_performance(made, "brute-force", "runtime"))
    assert found_after(made, "random") == 6.0
    assert (spent_seconds(made, "random"), spent_seconds(made, "joint")) == (20.0, 8.0)
    assert search_seconds(made) == 2.0
    assert blocks_ratio(made, together, "runtime") == pytest.approx(3.0)
    assert blocks_ratio(made, together, "energy") == 1.0
    # More throughput on another tile, more on one of the same cost, and no more.
    tied = joint(40.0, complete=True)
    tied["best"]["runtime"]["cost"] = L7_COST
    rows = [row(baselines=[run]) for run in (together, tied, joint(50.0, complete=True))]
    better, same, share = tie_gains(rows, "runtime")
    assert (better, same) == (2, 1)
    assert share == pytest.approx(1.25 ** (1 / 3))


def test_remainders() -> None:
    late = second(remainders=REMAINDERS | {"best": bests(5.0, 400.0), "proven": False})
    rows = [row(remainders=REMAINDERS), second(), late]
    assert remainder_gains(rows) == {"runtime": [1.25, 2.0], "energy": [400 / 380, 1.0]}
    assert remainder_times(rows) == [3.0]


def test_what_failed_or_is_missing_is_named(tmp_path: Path) -> None:
    rows = [
        row(),
        row(accelerator="edge-1024", failure="fits nowhere"),
        second(macs=1),
        second(),
    ]
    loaded = load_study(written(tmp_path, rows))
    assert (loaded.name, loaded.description) == ("mine", "What for.")
    assert [label(row) for row in loaded.rows] == ["L7", "L5"]
    assert loaded.rows[1]["macs"] == 3000
    assert loaded.failed == [
        ("marvel-l7", "edge-1024", "fits nowhere"),
        ("marvel-l5", "edge-1024", "not in the results"),
    ]
    text = marvel_text(tmp_path)
    assert "marvel-l7 on edge-1024: fits nowhere" in text
    assert "marvel-l5 on edge-1024: not in the results" in text
    assert "L7 on eyeriss-168 has no mapping of QR" in text


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the rows of a study"):
        load_study(tmp_path)
    with pytest.raises(DataError, match="expected at least one layer with a result"):
        load_study(written(tmp_path, [row(failure="no")]))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("{")
    with pytest.raises(DataError, match="line 2: expected a row"):
        load_study(tmp_path)
    (written(tmp_path, [row()]) / "study.json").write_text("{")
    with pytest.raises(DataError, match="expected a study"):
        load_study(tmp_path)


def test_report_of_layers(tmp_path: Path) -> None:
    runs = [sampled("random", 0, 100.0, 4.0), joint(40.0, complete=True)]
    rows = [row(baselines=runs, remainders=REMAINDERS), second()]
    folder = written(tmp_path, rows)
    page = write_marvel_report(folder)
    html = page.read_text()
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == {"layouts.png", "uniform-layouts.png", "mappings.png", "baselines.png"}
    for path in (folder / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
    assert html.count("data:image/png;base64,") == len(drawn)
    assert "http" not in html  # nothing from elsewhere
    with (folder / "tables" / "off-chip.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(line["layer"], line["paper"]) for line in table] == [
        ("L7", "same"),
        ("L5", "16 32 1 1 56 16 C/X/P"),
    ]
    with (folder / "tables" / "decoupling.csv").open() as file:
        assert float(list(csv.reader(file))[1][2]) == pytest.approx(25.0)
    text = marvel_text(folder)
    assert max(map(len, text.splitlines())) <= TEXT_WIDTH
    claims = {
        line.split("  ")[0]: line for line in text.splitlines() if "PAPER" not in line and line
    }
    assert claims["rows of Table 3, tile and layouts"].endswith("1 of 2")
    assert claims["throughput over the dataflows"].split()[-2:] == ["5.23x", "1.52x"]
    assert claims["random: its throughput, efficiency"].endswith("50 %, 50 %")
    assert claims["decoupling: runtime, energy (1/1 proven)"].endswith("25.0 %, 0.0 %")
    assert claims["budget of random, brute force over Marvel's"].endswith("10x")
    assert claims["remainders (1 of 1 proven): throughput"].endswith("25.0 % more")


def test_report_of_networks(tmp_path: Path) -> None:
    rows = [
        made | {"accelerator": accelerator}
        for accelerator in ("eyeriss-168", "edge-1024")
        for made in (row(networks={"net": 3}), second(networks={"net": 1, "other": 2}))
    ]
    folder = written(tmp_path, rows)
    headings = [section.heading for section in sections(load_study(folder))]
    assert "Whole networks" in headings
    assert "Other searches" not in headings
    assert "Prologues and epilogues" not in headings
    write_marvel_report(folder)
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == {"layouts-net.png", "layouts-other.png", "networks.png"}
    text = marvel_text(folder)
    assert max(map(len, text.splitlines())) <= TEXT_WIDTH
    assert "net on eyeriss-168: QR lack a mapping of a layer." in text
