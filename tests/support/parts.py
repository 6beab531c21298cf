"""Parts of a test run, so that what takes long runs one part at a time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import count


def part_of(text: str) -> tuple[int, int]:
    """The K-th of N parts, as K/N says it.

    Raises:
        argparse.ArgumentTypeError: it says something else.
    """
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"expected K/N with K from 1 to N, got {text!r}")
    return int(found[1]), int(found[2])


def in_part(always: Sequence[bool], part: tuple[int, int]) -> list[bool]:
    """Which tests a part has.

    Args:
        always: per test, whether every part has it.
        part: the K-th of N.

    Returns:
        Per test, whether it runs. The others fall to the parts in turn, so that the cases of one
        slow test are spread over them.
    """
    number, parts = part
    turn = count()
    return [every or next(turn) % parts == number - 1 for every in always]
