"""The web page of a document: one file that needs no other, and no network, to be read."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mapspace.forks import side_by_side
from mapspace.storage import own_path, write_atomically
from orchestrator.report.document import LEFT, Document, Figure, Table
from orchestrator.report.figure_style import plain_figure

if TYPE_CHECKING:
    import jinja2

TEMPLATE = "page.html.jinja"
# Characters of a cell that are shown at once; longer ones can be read by pointing at them.
MOST_SHOWN = 48


def write_page(
    document: Document,
    page: Path,
    figures: Path,
    meanwhile: Callable[[], None] | None = None,
) -> dict[str, Path]:
    """Draws the figures of a document and writes its page, each file whole or not at all.

    Args:
        document: what to show.
        page: HTML file to write.
        figures: the folder of the figures, which is made.
        meanwhile: called while they are drawn.

    Returns:
        The figures' files by their keys.
    """
    from markupsafe import Markup, escape

    if figures != page.parent:
        figures = own_path(figures.parent, figures.name)
    figures.mkdir(parents=True, exist_ok=True)
    shown = [figure for section in document.sections for figure in section.figures]
    drawn = {figure.key: figures / f"{figure.key}.png" for figure in shown}
    # The last first: a page ends with what takes longest, the replays.
    parts = [partial(figure.draw, drawn[figure.key]) for figure in reversed(shown)]
    if len(parts) > 1:
        # Else every fork would import it.
        plain_figure(1.0, 1.0)
    side_by_side(parts, meanwhile)

    def image(figure: Figure) -> str:
        content = base64.b64encode(drawn[figure.key].read_bytes()).decode()
        return f"data:image/png;base64,{content}"

    def prose(text: str) -> Markup:
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    def broken(name: str) -> Markup:
        """A column's name, which a narrow window may break within a key."""
        return Markup(re.sub(r"([._])(?=\w)", r"\1<wbr>", str(escape(name))))

    texts = {"image": image, "prose": prose, "broken": broken}
    write_atomically(page, _template().render(document=document, **texts).encode())
    return drawn


def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["table"] = lambda block: isinstance(block, Table)
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    environment.globals |= {"LEFT": LEFT, "MOST_SHOWN": MOST_SHOWN}
    return environment.get_template(TEMPLATE)
