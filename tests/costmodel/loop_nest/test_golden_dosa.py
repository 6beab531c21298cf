"""Gemmini-like machines against the cycles that the DOSA project had of Timeloop.

That Timeloop charged the first fills of outputs: `output_fills: charged`. Of the 44,166 published
rows the repository has every ninetieth; a slow test looks at all where they lie beside the
checkout (`../shared/golden/dosa`). Energies rest on tables that are not published.
"""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from paths import GOLDEN, ROOT

from costmodel.loop_nest.nest_records import score_nests

ROWS = GOLDEN / "dosa" / "timeloop-gemmini.csv.gz"
ALL = ROOT.parent / "shared" / "golden" / "dosa" / "timeloop-gemmini.csv.gz"
TENSORS = {"W": "Weights", "I": "Inputs", "O": "Outputs"}


def level(name: str, instances: int, mesh: tuple[int, int], bandwidth: float | None) -> Any:
    return {
        "name": name,
        "class": "DRAM" if name == "L3" else "SRAM",
        "instances": instances,
        "meshX": mesh[0],
        "meshY": mesh[1],
        "shared_bandwidth": bandwidth,
        "energy_pj": {"read": 1.0, "fill": 1.0, "update": 1.0},
    }


def as_record(row: dict[str, str], fills: str) -> dict[str, Any]:
    """A row as a record; without capacities, which the mappings were made for."""
    side = int(row["arch.meshX"])
    size = {key[5:]: int(row[key]) for key in row if key.startswith("prob.") and len(key) == 6}
    wide, high = int(row["prob.Wstride"]), int(row["prob.Hstride"])
    far, deep = int(row["prob.Wdilation"]), int(row["prob.Hdilation"])
    mapping = []
    for part in row["mapping.mapping"].split(" - "):
        name, kept = re.findall(r"(L\d)\[(\w*)\]", part)[0]
        loops = re.findall(r" ([A-Z])(\d+)(X?)", part)
        mapping.append(
            {
                "level": name,
                "keep": [TENSORS[letter] for letter in kept],
                "temporal": [[d, int(f)] for d, f, x in loops if not x and f != "1"],
                # Columns lie side by side, and rows below each other.
                "spatial": [
                    [d, int(f), "X" if name == "L2" else "Y"] for d, f, x in loops if x and f != "1"
                ],
            }
        )
    return {
        "arch": {
            "levels": [
                level("L3", 1, (1, 1), 8.0),
                level("L2", 1, (1, 1), float(row["arch.mem2_shared_bandwidth"])),
                level("L1", side, (side, 1), 2.0),
                level("L0", side * side, (side, side), None),
            ],
            "mac": {
                "name": "MAC", "instances": side * side, "meshX": side, "meshY": side,
                "energy_pj": 1.0,
            },
            "output_fills": fills,
        },
        "problem": {
            "dims": size,
            "tensors": [
                {"name": "Weights", "axes": [[["R", 1]], [["S", 1]], [["C", 1]], [["K", 1]]]},
                {
                    "name": "Inputs",
                    "axes": [
                        [["N", 1]], [["C", 1]],
                        [["P", wide], ["R", far]], [["Q", high], ["S", deep]],
                    ],
                },
                {
                    "name": "Outputs", "output": True,
                    "axes": [[["N", 1]], [["K", 1]], [["P", 1]], [["Q", 1]]],
                },
            ],
        },
        "mapping": mapping,
    }  # fmt: skip


def differences(path: Path, fills: str = "charged") -> list[int]:
    """Our cycles of every row, less those that were published."""
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    results = score_nests({i: as_record(row, fills) for i, row in enumerate(rows)})
    return [results[i]["cycles"] - int(row["target.cycle"]) for i, row in enumerate(rows)]


def test_cycles_within_one() -> None:
    found = differences(ROWS)
    assert len(found) == 491
    assert max(map(abs, found)) <= 1
    assert sum(difference != 0 for difference in found) <= 0.01 * len(found)


def test_the_first_fills_of_outputs_are_what_makes_them_equal() -> None:
    assert sum(difference < -1 for difference in differences(ROWS, "elided")) > 50


@pytest.mark.slow
def test_cycles_within_one_on_every_row() -> None:
    if not ALL.is_file():
        pytest.skip("the published rows do not lie beside this checkout")
    found = differences(ALL)
    assert len(found) == 44166
    assert max(map(abs, found)) <= 1
