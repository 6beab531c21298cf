"""One look for all figures, whatever the user's own is, and files that are whole."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from orchestrator.report.figure_style import INK, MUTED, STYLE, plain_figure, save, styled


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
