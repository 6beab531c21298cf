"""Ticks that Matplotlib does not make: where they lie, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.report.figure_style import plain_figure, save
from orchestrator.report.light_ticks import MOST_DECADES, decades, set_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks", "labels", "minor"),
    [
        (1, 100, [1, 10, 100], ["10⁰", "10¹", "10²"], [2, 5, 20, 50]),
        (0.004, 0.3, [0.01, 0.1], ["10⁻²", "10⁻¹"], [0.005, 0.02, 0.05, 0.2]),
        # Fewer than two powers of ten would leave nothing to read off.
        (0.3, 4, [0.5, 1, 2], ["0.5", "1", "2"], []),
        (1.2, 4.5, [2], ["2"], []),
    ],
)
def test_decades(
    low: float, high: float, ticks: list[float], labels: list[str], minor: list[float]
) -> None:
    found = decades(low, high)
    assert found[0] == pytest.approx(ticks)
    assert found[1] == labels
    assert found[2] == pytest.approx(minor)


def test_many_decades_are_thinned_out() -> None:
    ticks, labels, _ = decades(1, 1e20)
    assert len(ticks) == len(labels) <= MOST_DECADES
    assert labels[1] == "10³"


def test_the_labels_of_a_panel_lie_where_the_values_are(tmp_path: Path) -> None:
    figure = plain_figure(4, 3, layout=None)
    panel = figure.subplots()
    panel.plot([1, 1000], [0, 5])
    panel.set_xscale("log")
    panel.set_xlim(1, 1000)
    panel.set_ylim(0, 5)
    set_ticks(panel, "x", [10, 100], ["ten", "hundred"], [20])
    set_ticks(panel, "y", [1, 4], ["one", "four"])
    save(figure, tmp_path / "figure.png")
    assert panel.get_xlim() == (1, 1000)
    assert panel.get_ylim() == (0, 5)
    ends = {text.get_text(): text.get_window_extent() for text in panel.texts}
    inside = panel.get_window_extent()
    for name, value in (("ten", 10), ("hundred", 100)):
        x, _ = panel.transData.transform((value, 0))
        assert (ends[name].x0 + ends[name].x1) / 2 == pytest.approx(x, abs=1.5)
        assert ends[name].y1 < inside.y0
    for name, value in (("one", 1), ("four", 4)):
        _, y = panel.transData.transform((1, value))
        assert ends[name].y0 < y < ends[name].y1
        assert ends[name].x1 < inside.x0
