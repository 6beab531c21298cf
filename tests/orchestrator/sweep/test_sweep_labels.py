"""Labels of a sweep's figure stand beside their dots, never upon them."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from orchestrator.sweep.report import _label


@pytest.mark.parametrize("left", [False, True])
def test_a_label_is_beside_its_dot(left: bool) -> None:
    """Below to the left, or above to the right, in pixels of the drawn figure."""
    figure = Figure()
    canvas, panel = FigureCanvasAgg(figure), figure.add_subplot()
    _label(panel, "a machine", (0.5, 0.5), left=left)
    canvas.draw()
    x, y = panel.transData.transform((0.5, 0.5))
    box = panel.texts[0].get_window_extent()
    if left:
        assert (box.x1 < x, box.y1 < y) == (True, True)
    else:
        assert (box.x0 > x, box.y0 > y) == (True, True)
