"""What is allowed and looks wrong: said once, as a warning of Python or a line of a command."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str], None]


class UnusualWarning(UserWarning):
    """A value that is allowed, and most likely not what was meant."""


def _warn(text: str) -> None:
    warnings.warn(text, UnusualWarning, stacklevel=3)


_tell: Tell = _warn
_said: set[str] = set()


def notice(where: str, text: str) -> None:
    """Says what looks wrong, unless the same was said before.

    Args:
        where: what it was seen in first.
        text: what looks wrong.
    """
    if text not in _said:
        _said.add(text)
        _tell(f"{where}: {text}")


@contextmanager
def noticed_by(tell: Tell) -> Iterator[None]:
    """Has what looks wrong in a block told to a function, whatever was said before."""
    global _said, _tell
    before = _said, _tell
    _said, _tell = set(), tell
    try:
        yield
    finally:
        _said, _tell = before
