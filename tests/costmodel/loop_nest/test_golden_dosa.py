"""Gemmini-like machines against the cycles that the DOSA project had of Timeloop.

That Timeloop charged the first fills of outputs: `output_fills: charged`. Of the 44,166 published
rows the repository has every ninetieth; a slow test looks at all where they lie beside the
checkout (`../shared/golden/dosa`). Energies rest on tables that are not published.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gemmini import as_record, read_rows
from paths import GOLDEN, ROOT

from costmodel.loop_nest.nest_records import score_nests

ROWS = GOLDEN / "dosa" / "timeloop-gemmini.csv.gz"
ALL = ROOT.parent / "shared" / "golden" / "dosa" / "timeloop-gemmini.csv.gz"


def differences(path: Path, fills: str = "charged") -> list[int]:
    """Our cycles of every row, less those that were published."""
    rows = read_rows(path)
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
