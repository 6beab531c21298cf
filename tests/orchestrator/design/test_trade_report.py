"""The text and page of a front of energy, time and area: three points of four small machines.

An array of one row and as many columns as it takes spreads 64 multiply-accumulates over 4, 8 or 16
cycles; the words of a matrix that stay on a larger element cost less.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_energy_delay_area import traded

from orchestrator.design.trade_front import TradeFront
from orchestrator.design.trade_report import trade_document, trade_text, write_trade_report
from orchestrator.report.document import Figure, Section, Table
from orchestrator.sweep.report import PAGE_FILE

GRID: dict[str, Any] = {"L1.capacity_words": [8, 16], "L2.capacity_words": [64, 256]}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> TradeFront:
    folder = tmp_path_factory.mktemp("traded")
    layers = ["gemm:M=4,N=4,K=4"]
    return traded(folder, grid=GRID, workloads=layers, energy_scaling="sqrt")[2]


def test_the_text_has_every_point(front: TradeFront) -> None:
    lines = [line.split() for line in trade_text(front).splitlines()]
    assert lines[0] == ["Front", "of", "energy,", "time", "and", "area"]
    # Rates by the base machine's least energy over its least time: 2.5 W, a quarter and four times.
    for said in (
        "1 8 64 558,080 9.6712e-06 8e-06 1.209 7.737e-17 energy",
        "2 8 64 558,080 9.6715e-06 4e-06 2.418 3.8686e-17 time, 0.63 W, 2.5 W, 10 W",
        "3 16 64 590,848 9.6709e-06 1.6e-05 0.6044 1.5473e-16 energy",
    ):
        assert said.split() in lines
    assert "with a mapping for each of 1 layers" in " ".join(trade_text(front).split())
    assert not any("more" in line and "..." in line for line in lines)


def test_more_points_than_a_terminal_has_rows(
    front: TradeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.design.trade_report.MOST_TEXT_ROWS", 2)
    assert "... and 1 more in architectures.csv" in trade_text(front)
    monkeypatch.setattr("orchestrator.design.trade_report.MOST_TEXT_ROWS", 3)
    assert "more in" not in trade_text(front)


def test_the_ends_are_named(front: TradeFront) -> None:
    assert front.heading() == "test: 3 points of energy, time and area"
    large, small = "L1.capacity_words=16 L2.capacity_words=64", "L1.capacity_words=8"
    fastest = f"{small} L2.capacity_words=64: 9.67152e-06 mJ, 4e-06 ms, 558080 bits"
    assert dict(front.facts()) == {
        "front": "3 points",
        "least energy": f"{large}: 9.67088e-06 mJ, 1.6e-05 ms, 590848 bits",
        "least time": fastest,
        "least EDP": fastest,
    }
    assert front.best is not None
    assert (front.best["energy_pj"], front.best["latency_cycles"]) == (9671.52, 4.0)
    said = [(one["point"], one["architecture"], one["count"]) for one in front.records()]
    assert said == [
        (1, f"{small} L2.capacity_words=64", 1), (2, f"{small} L2.capacity_words=64", 1),
        (3, large, 1),
    ]  # fmt: skip


def test_the_page_is_written_with_its_files(front: TradeFront, tmp_path: Path) -> None:
    document = trade_document(front)
    assert document.title == "test"
    first, second = document.sections
    assert isinstance(first.blocks[1], Figure)
    points, files = second.blocks
    assert isinstance(points, Table)
    assert len(points.rows) == 3
    assert isinstance(files, Table)
    write_trade_report(front, tmp_path, Section("What is certain", ["all of it"]))
    page = (tmp_path / PAGE_FILE).read_text()
    assert "all of it" in page
    assert page.index("all of it") < page.index("9.6712e-06")
    records = [json.loads(line) for line in (tmp_path / "front.jsonl").read_text().splitlines()]
    assert records == front.records()
    assert (tmp_path / "pareto.png").stat().st_size > 5000
