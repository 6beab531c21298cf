"""Numbers beside dots hide neither dots nor each other where there is room."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from orchestrator.report.figure_style import plain_figure
from orchestrator.report.label_places import NEAR, label_places, number_dots

SIZE, RADIUS = 7.0, 3.3
WITHIN = (0.0, 0.0, 300.0, 300.0)


def test_labels_hide_nothing_where_dots_crowd() -> None:
    """As the front's dots do that stand above each other: same time, nearly the same energy."""
    rng = np.random.default_rng(0)
    column = np.stack([np.full(7, 150.0), 150 + 4.0 * np.arange(7)], 1)
    dots = np.concatenate([column, rng.uniform(20, 280, (12, 2))])
    texts = [str(number) for number in range(1, len(dots) + 1)]
    places = label_places(dots, texts, SIZE, RADIUS, WITHIN)
    middles = dots + np.array(places)
    halves = np.array([(len(text) * 0.31 * SIZE, 0.525 * SIZE) for text in texts])
    for one, other in itertools.combinations(range(len(dots)), 2):
        gaps = np.abs(middles[one] - middles[other]) - halves[one] - halves[other]
        assert gaps.max() >= -1e-9, (texts[one], texts[other])
    for label, dot in itertools.product(range(len(dots)), repeat=2):
        gaps = np.abs(middles[label] - dots[dot]) - halves[label] - RADIUS
        assert gaps.max() >= -1e-9, (texts[label], texts[dot])
    assert ((middles - halves >= 0) & (middles + halves <= 300)).all()


@pytest.mark.parametrize("x", [5.0, 150.0, 297.0])
def test_a_dot_by_itself_has_its_label_beside_it(x: float) -> None:
    [place] = label_places(np.array([[x, 150.0]]), ["12"], SIZE, RADIUS, WITHIN)
    assert np.hypot(*place) < 2 * NEAR
    assert x != 150.0 or np.hypot(*place) < NEAR


def test_every_dot_of_a_panel_is_numbered() -> None:
    figure = plain_figure(4, 4)
    panel = figure.add_subplot()
    dots = np.array([[1.0, 2.0], [1.0, 2.01], [3.0, 5.0]])
    panel.scatter(*dots.T)
    figure.draw_without_rendering()
    number_dots(panel, dots, ["1", "2", "3"], size=SIZE, radius=RADIUS)
    assert [text.get_text() for text in panel.texts] == ["1", "2", "3"]
