"""One look for all figures, whatever the user's own is, and files that are whole."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from orchestrator.report.figure_style import (
    INK,
    MUTED,
    STYLE,
    plain_figure,
    plain_ticks,
    save,
    styled,
)


@styled
def drawn() -> Figure:
    figure = plain_figure(2, 1)
    panel = figure.subplots()
    panel.plot([1, 2], label="line")
    panel.set_title("title")
    panel.legend()
    return figure


def test_the_users_own_style_changes_nothing(tmp_path: Path) -> None:
    save(drawn(), tmp_path / "a.png")
    with mpl.rc_context({"axes.facecolor": "black", "savefig.dpi": 30, "font.size": 30}):
        save(drawn(), tmp_path / "b.png")
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_style_is_that_of_the_file() -> None:
    style = mpl.rc_params_from_file(STYLE, use_default_template=False)
    assert (style["text.color"], style["xtick.color"]) == (INK, MUTED)
    (panel,) = drawn().axes
    assert not panel.spines["top"].get_visible()
    assert panel.get_title(loc="left") == "title"
    assert not panel.get_legend().get_frame_on()


def test_a_figure_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    save(drawn(), path)
    before = path.read_bytes()

    def fails(*_: object, **__: object) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(Figure, "savefig", fails)
    with pytest.raises(ValueError, match="no room"):
        save(drawn(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("low", "high", "shown", "power"),
    [
        (4.4e-5, 4.9e-5, ["4.4", "4.5", "4.6", "4.7", "4.8", "4.9"], "\N{MULTIPLICATION SIGN}10⁻⁵"),
        (3.9e-5, 5.1e-5, ["4", "4.25", "4.5", "4.75", "5"], "\N{MULTIPLICATION SIGN}10⁻⁵"),
        (1.3e5, 2e6, ["200,000", "500,000", "1,000,000", "2,000,000"], ""),
        (
            8e5,
            1.3e6,
            ["800,000", "900,000", "1,000,000", "1,100,000", "1,200,000", "1,300,000"],
            "",
        ),
    ],
)
def test_a_narrow_axis_has_plain_numbers(
    low: float, high: float, shown: list[str], power: str
) -> None:
    panel = plain_figure(4, 4).subplots()
    panel.plot([1, 2], [low, high])
    panel.set_yscale("log")
    plain_ticks(panel)
    ends = panel.get_ylim()
    ticks = [tick for tick in panel.yaxis.get_major_locator()() if ends[0] <= tick <= ends[1]]
    texts = [panel.yaxis.get_major_formatter()(tick, 0) for tick in ticks]
    assert [text for text in texts if text in shown] == shown
    assert "".join(text.get_text() for text in panel.texts) == power
