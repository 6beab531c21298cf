"""Parts of a test run, so that what takes long runs one part at a time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path


def part_of(text: str) -> tuple[int, int]:
    """The K-th of N parts, as K/N says it.

    Raises:
        argparse.ArgumentTypeError: it says something else.
    """
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"expected K/N with K from 1 to N, got {text!r}")
    return int(found[1]), int(found[2])


def read_stay(file: Path) -> dict[str, int]:
    """How many cases of long tests are in the default suite, by the test's node.

    Args:
        file: a line per test, its node and a number; empty lines and lines after # say nothing.

    Raises:
        ValueError: a line says something else, or a test stands there twice.
    """
    found: dict[str, int] = {}
    for line in file.read_text().splitlines():
        said = line.split("#")[0].split()
        if not said:
            continue
        if len(said) != 2 or not said[1].isdigit() or said[0] in found:
            raise ValueError(f"{file.name}: expected a test, once, and a number, got {line!r}")
        found[said[0]] = int(said[1])
    return found


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
