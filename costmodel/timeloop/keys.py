"""Keys of Timeloop's files that nothing reads: misspelt ones are refused, others are listed."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mapspace.errors import ConfigError
from mapspace.near_names import nearest

# `n_rd_ports` and `metadata_width` are words of their own, `read_bandwith` is none.
_SAME = 0.85


def misspelt(key: str, known: Iterable[str]) -> str | None:
    """The known key that somebody meant who wrote `key`; None: it is a word of its own."""
    for word in nearest(key, known, count=3):
        one, other = (text.replace("-", "").replace("_", "").casefold() for text in (key, word))
        longer = one.startswith("metadata") or any(
            sign + word in key or word + sign in key for sign in "_-"
        )
        alike = difflib.SequenceMatcher(None, one, other).ratio()
        if alike >= _SAME and not longer:
            return word
    return None


def passed(
    given: Mapping[str, Any], known: Collection[str], place: str, also: Collection[str] = ()
) -> list[str]:
    """The keys that nothing reads, each with its place.

    Args:
        given: what stands at `place`.
        known: keys that are read, or that every file of Timeloop's has.
        place: what messages start with.
        also: further words that a misspelt key may be meant to be.

    Raises:
        ConfigError: a key that is a known one misspelt.
    """
    unread = []
    for key in map(str, given):
        if key in known:
            continue
        word = misspelt(key, [*known, *also])
        if word is not None:
            raise ConfigError(f"{place}.{key}: unknown; did you mean {word}?")
        unread.append(f"{place}.{key}")
    return unread
