"""Reports of Marvel studies: figures counted by hand from hand-made rows, and what is written."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from fuzzing import damaged, fuzz
from marvel_rows import L7_COST, REMAINDERS, bests, joint, row, sampled, second, study

from costmodel import DataError, workload
from costmodel.maestro.distinct_blocks import layer_of
from costmodel.maestro.off_chip import search
from orchestrator.marvel.network_numbers import (
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
from orchestrator.marvel.numbers import (
    PAPER_TABLE_3,
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
from orchestrator.marvel.report import marvel_text, write_marvel_report
from orchestrator.marvel.sections import sections
from orchestrator.report.text_table import WIDTH

Row = dict[str, Any]


def written(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "study.json").write_text(json.dumps({"name": "mine", "description": "What  for."}))
    return folder


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
    with pytest.raises(DataError, match="expected a row of a study; line 2: "):
        load_study(tmp_path)
    (written(tmp_path, [row()]) / "study.json").write_text("{")
    with pytest.raises(DataError, match="expected a study"):
        load_study(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"off_chip": {"cost": "1"}}, r"off_chip: missing tile, layout"),
        ({"on_chip": None}, r"on_chip: expected a mapping|on_chip: .*got None"),
        ({"networks": {"../../evil": 1}}, r"networks.*evil"),
        ({"macs": 0}, r"macs: expected .* 1, got 0"),
        ({"tiles_per_layer": 2.5}, r"tiles_per_layer: .*got 2\.5"),
        ({"whole": {"runtime": 1e300, "energy": 1.0}}, r"whole\.runtime: .*1e\+300"),
        (
            {"baselines": [joint(4.0, complete=True) | {"complete": None}]},
            r"baselines\[0\]: joint: missing complete",
        ),
        (
            {"baselines": [sampled("random", 0, 9.0, 1.0) | {"seed": None}]},
            r"baselines\[0\]: random: missing seed",
        ),
        ({"failure": 3}, "failure: expected"),
    ],
)
def test_a_row_that_is_none_is_one_line(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(
        DataError, match=f"rows.jsonl: expected a row of a study; line 2: {message}"
    ):
        load_study(written(tmp_path, [row(), second(**change)]))


def damaged_rows(count: int, seed: int, folder: Path) -> None:
    runs = [sampled("random", 0, 100.0, 4.0), joint(40.0, complete=True)]
    rows = [
        row(baselines=runs, remainders=REMAINDERS, networks={"net": 2}),
        second(networks={"net": 1}),
    ]

    def read(damaged_one: object) -> None:
        content = damaged_one if isinstance(damaged_one, list) else [damaged_one]
        marvel_text(written(folder, content))

    counts = fuzz("rows of a Marvel study", read, damaged(rows, count=count, seed=seed))
    assert min(counts["answered"], counts["refused"]) > count / 50


def test_damaged_rows_are_no_traceback(tmp_path: Path) -> None:
    damaged_rows(200, 0, tmp_path)


@pytest.mark.slow
def test_many_damaged_rows_are_no_traceback(tmp_path: Path) -> None:
    damaged_rows(5000, 1, tmp_path)


def test_rows_of_other_versions_are_read(tmp_path: Path) -> None:
    known = load_study(written(tmp_path, [row(groups=1, someday={"x": 1})]))
    assert known.rows == [row(groups=1, someday={"x": 1})]


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
    assert "://" not in html  # nothing from elsewhere
    with (folder / "tables" / "off-chip.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(line["layer"], line["paper"]) for line in table] == [
        ("L7", "same"),
        ("L5", "16 32 1 1 56 16 C/X/P"),
    ]
    with (folder / "tables" / "decoupling.csv").open() as file:
        assert float(list(csv.reader(file))[1][2]) == pytest.approx(25.0)
    text = marvel_text(folder)
    assert max(map(len, text.splitlines())) <= WIDTH
    claims = {
        line.split("  ")[0]: line for line in text.splitlines() if "PAPER" not in line and line
    }
    assert claims["rows of Table 3, tile and layouts"].endswith("1 of 2")
    assert "a fit: the weight of outputs" in " ".join(text.split())
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
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "net on eyeriss-168: QR lack a mapping of a layer." in text
