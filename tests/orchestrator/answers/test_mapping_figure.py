"""The drawing of a mapping: what stands in it is what the mapping says."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import mapspace as ms
from orchestrator.answers.machine_figure import HUES, draw
from orchestrator.answers.mapping_figure import TENSOR_HUES, cycles_figure
from orchestrator.map_space.surface import feasible_attributes, surface_around, two_dimensions
from orchestrator.report.figure_style import INK


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
    # Nest, first tiles, a slice and machine: nothing but compute takes time.
    assert page.read_text().count("<img ") == 4
    # What is alone in its part has no heading of its own: it is the picture's text only.
    assert page.read_text().count("two attributes vary") == 1
    slices = ("--slice", "M,order.L2", "--slice", "K,N")
    assert call(*small, "--html", page, *slices) == 0
    assert page.read_text().count("<img ") == 5
    assert page.read_text().count("differs from it in two attributes alone") == 2
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


def test_a_machines_arrows_follow_its_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrows: Counter[str] = Counter()
    annotate = Axes.annotate

    def noted(panel: Axes, text: str, *places: Any, **look: Any) -> Any:
        arrows[look["arrowprops"]["color"]] += 1
        return annotate(panel, text, *places, **look)

    monkeypatch.setattr(Axes, "annotate", noted)
    draw(ms.accelerator("eyeriss"), tmp_path / "m.png")
    # From DRAM through GLB to a buffer of its own and on, but for weights, which pass GLB by.
    assert arrows == {HUES["input"]: 3, HUES["output"]: 3, HUES["weight"]: 2}
    arrows.clear()
    draw(ms.accelerator("mm256-bypass"), tmp_path / "m.png")
    assert arrows == {INK: 3}


def test_a_slice_that_nobody_asked_for_is_mostly_feasible(tmp_path: Path) -> None:
    (tmp_path / "tight.yaml").write_text(
        "extends: mm256\nlevels:\n  - {name: L1, capacity_words: 3}\n"
    )
    machine = ms.accelerator(str(tmp_path / "tight.yaml"))
    space = ms.MapSpace(ms.workload("gemm:M=64,N=64,K=64"), machine)
    draws = space.sample(np.random.default_rng(0), 512)
    code = draws[np.flatnonzero(space.feasible(draws))[0]]

    def share(pair: tuple[str, str]) -> float:
        return float(np.isfinite(surface_around(space, code, pair, most=40).costs).mean())

    assert share(two_dimensions(space)) < 0.3
    assert share(feasible_attributes(space, code)) > 0.45
    roomy = ms.MapSpace(ms.workload("gemm:M=8,N=6,K=4"), ms.accelerator("mm256"))
    any_of = roomy.sample(np.random.default_rng(0), 1)[0]
    assert feasible_attributes(roomy, any_of) == two_dimensions(roomy)


def test_a_slice_around_a_result_has_its_cost_at_the_star() -> None:
    found = ms.search("gemm:M=8,N=6,K=4", "mm256-bypass", objective="energy")
    panel, bar = found.slice("keep.L1", "order.L2").axes
    image = panel.images[0]
    # Powers of ten of what the mapping itself costs, which is proven to be the least.
    assert image.get_array().min() == 0
    assert bar.get_ylabel() == "log10 of energy over the mapping's"
    (star,) = panel.lines
    x, y = (int(one[0]) for one in star.get_data())
    assert image.get_array()[y, x] == 0
    assert len(found.slice().axes) == 2
    with pytest.raises(
        ms.ConfigError, match=r"surface: expected two attributes .* order\.L1, keep"
    ):
        found.slice("M", "L2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slice", "M,K"], "--slice is for --html of a single WORKLOAD"),
        (["--html", "p.html", "--slice", "M"], "--slice: expected two attributes such as K,N, got"),
        (["--html", "p.html", "--slice", "M,Q"], "expected two attributes of the map space"),
        (["--html", "p.html", "--slice", "M,M"], "expected two attributes, got tiling.M twice"),
    ],
)  # fmt: skip
def test_wrong_slices_are_refused_before_the_search(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("search", "gemm:M=4,N=2,K=2", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "searching" not in error
