"""The drawing of a mapping: what stands in it is what the mapping says."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from commands import call
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import mapspace as ms
from orchestrator.answers.mapping_figure import TENSOR_HUES, cycles_figure


@pytest.fixture(scope="module")
def result() -> ms.SearchResult:
    return ms.search("gemm:M=64,N=32,K=16", "mm256-bw")


def _texts(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts]


def _bars(panel: Axes) -> list[tuple[str, float]]:
    """Colour and width of every rectangle that is filled with a tensor's colour."""
    found = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
    return [
        (to_hex(patch.get_facecolor()), patch.get_width())
        for patch in found
        if to_hex(patch.get_facecolor()) in TENSOR_HUES
    ]


def test_every_loop_and_level_is_in_the_nest(result: ms.SearchResult) -> None:
    nest, _ = result.plot().axes
    texts = _texts(nest)
    for line in map(str.strip, str(result.mapping).splitlines()):
        if "for " in line or line == "multiply-accumulate":
            assert line in texts, line
    drawn = [text.partition(" x ")[0] for text in texts]
    assert [name for name in drawn if name in result.accelerator.level_names] == list(
        result.accelerator.level_names
    )


def test_bars_are_the_share_of_what_a_level_takes(result: ms.SearchResult) -> None:
    nest, energy = result.plot().axes
    bars, tensors = _bars(nest), result.workload.tensor_names
    frames = [
        patch.get_width()
        for patch in nest.patches
        if isinstance(patch, Rectangle) and to_hex(patch.get_facecolor()) == "#ffffff"
    ]
    for index, level in enumerate(result.accelerator.levels):
        tiles = result.detail.tile[0, index]
        most = max(level.capacity_words or 0, tiles.sum())
        for t, name in enumerate(tensors):
            colour, width = bars[index * len(tensors) + t]
            assert colour == result.drawn.hues[name]
            assert width / frames[index] == pytest.approx(tiles[t] / most)
    widths = [width for _, width in _bars(energy)]
    scale = result.drawn.scale[0]
    assert np.array(widths) * scale == pytest.approx(result.detail.energy_pj[0].ravel())


def test_cycles_by_cause(result: ms.SearchResult) -> None:
    (panel,) = cycles_figure(result.drawn).axes
    named = dict(
        zip(
            [label.get_text() for label in panel.get_yticklabels()],
            [patch.get_width() for patch in panel.patches if isinstance(patch, Rectangle)],
            strict=True,
        )
    )
    assert named == {one.name: one.cycles for one in result.limits if one.cycles}
    assert max(named.values()) == pytest.approx(result.costs.latency_cycles, abs=1)


def test_a_notebook_shows_the_drawing(result: ms.SearchResult) -> None:
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', result._repr_html_())
    drawing = ElementTree.fromstring(base64.b64decode(data))
    assert drawing.tag.endswith("svg")


def test_pages_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, page = tmp_path / "best.jsonl", tmp_path / "page.html"
    small = ("search", "gemm:M=4,N=2,K=2", "--output", record)
    assert call(*small, "--html", page) == 0
    # Nest, first tiles and machine: nothing but compute takes time.
    assert page.read_text().count("<img ") == 3
    assert call("explain", record, "--html", page) == 0
    assert "Where the accesses come from" in page.read_text()
    assert call("diff", record, record, "--html", page) == 0
    assert page.read_text().count("<img ") == 4
    assert sorted(file.name for file in tmp_path.glob("*.html")) == ["page.html"]
    capsys.readouterr()
    assert call(*small, "--html", tmp_path / "page.pdf") == 2
    assert "expected a page's name to end in .html" in capsys.readouterr().err
    assert call(*small, "--html", tmp_path / "no" / "page.html") == 2
    assert "does not exist" in capsys.readouterr().err
    assert call("search", "--network", "alexnet", "--html", page) == 2
    assert "--html is for a single WORKLOAD" in capsys.readouterr().err
