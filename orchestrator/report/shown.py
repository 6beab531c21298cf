"""Results that show themselves: a few lines in a terminal, a table in a notebook."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mapspace.errors import ConfigError
from mapspace.extras import what_is_missing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Where the text of a fact begins: after its label.
LABEL_WIDTH = 16
Fact = tuple[str, str]


def aligned(facts: Iterable[Fact]) -> list[str]:
    """A line per fact, the texts below each other."""
    return [f"{label:<{LABEL_WIDTH - 1}} {text}".rstrip() for label, text in facts]


class Shown:
    """A result with a `repr` of a few lines and a table for notebooks."""

    def heading(self) -> str:
        """What it is a result of, in one line."""
        raise NotImplementedError

    def facts(self) -> Iterable[Fact]:
        """Labels and texts, the most important ones first."""
        raise NotImplementedError

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Its parts, one dictionary each with the same keys; none where it has no parts."""
        return ()

    def picture(self) -> str:
        """What a notebook shows below the facts, as plain text, where it is not drawn."""
        return ""

    def plot(self) -> Figure | None:
        """It as a drawing, which a notebook shows in place of the text; None: there is none."""
        return None

    @property
    def frame(self) -> pd.DataFrame:
        """Its parts as a table of pandas.

        Raises:
            ConfigError: pandas is not installed; the core has none.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ConfigError(what_is_missing(error) or str(error)) from None

        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        return "\n".join([self.heading(), *(f"  {line}" for line in aligned(self.facts()))])

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        parts = [f"<p><b>{html.escape(self.heading())}</b></p>", "<table>"]
        for label, text in self.facts():
            cells = f"<th>{html.escape(label)}</th><td>{html.escape(text)}</td>"
            parts.append(f'<tr style="text-align: left">{cells}</tr>')
        parts.append("</table>")
        picture = html.escape(self.picture())
        if (figure := self.plot()) is not None:
            content = io.BytesIO()
            figure.savefig(content, format="svg")
            data = base64.b64encode(content.getvalue()).decode()
            parts.append(f'<img alt="{picture}" src="data:image/svg+xml;base64,{data}">')
        elif picture:
            parts.append(f"<pre>{picture}</pre>")
        return "\n".join(parts)
