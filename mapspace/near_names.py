"""Known names that look like a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, count: int = 1) -> list[str]:
    """The known names that look like `name`, best first, whatever their case."""
    by_folded = {text.casefold(): text for text in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=count, cutoff=0.6)
    return [by_folded[text] for text in close]


def meant(name: str, known: Iterable[str], *, count: int = 1) -> str:
    """How a sentence on an unknown name ends: `; did you mean edp?`, or `.` where none is near."""
    close = nearest(name, known, count=count)
    return f"; did you mean {' or '.join(close)}?" if close else "."
