"""Damaged inputs by the thousand, and what may come of them: an answer or a line, in time.

```
report = fuzz("records", call, damaged(record, count=1000, seed=0))
```
"""

from __future__ import annotations

import copy
import json
import math
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mapspace.errors import MapspaceError

# No input may take longer.
SECONDS = 5.0

NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    0.0,
    -0.0,
    1.5,
    -1.5,
    1e-320,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    2**31,
    2**53 + 1,
    2**62 - 1,
    2**62,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    10**400,
    "",
    " ",
    "x",
    "1",
    "1.5",
    "1e5",
    "1" * 310,
    "1e999999999",
    "1/0",
    "nan",
    "../../evil",
    "/etc/passwd",
    ".",
    "a/b",
    "nul\0",
    "two\nlines",
    "$\\frac{$",
    "\ud800",
    "x" * 5000,
    [],
    {},
    [[]],
    [None],
    [1],
    ["x"],
    {"": None},
    {"x": 1},
)


class Hang(BaseException):
    """An input took too long; no `Exception`, so that nothing takes it for one of its own."""


def damaged(original: Any, *, count: int, seed: int) -> Iterator[Any]:
    """Copies of a tree of dictionaries and lists, each with one to three places damaged."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        tree = copy.deepcopy(original)
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            tree = _damage(tree, rng)
        yield tree


def damaged_text(original: str, *, count: int, seed: int) -> Iterator[str]:
    """Copies of a text that are cut, repeated, nested or have other characters."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        start, end = sorted(rng.integers(0, len(original) + 1, size=2).tolist())
        kind = int(rng.integers(7))
        bracket = str(rng.choice(list("[{(\"'&*!|>%@`")))
        yield (
            original[:start],
            original[:start] + original[end:],
            original[:end] + original[start:],
            original[:start] + bracket + original[start:],
            original[:start] + bracket * int(rng.integers(2, 100_000)) + original[start:],
            original[:start] + chr(int(rng.integers(0, 0xD000))) + original[start + 1 :],
            original[:start] + "9" * int(rng.integers(20, 5000)) + original[start:],
        )[kind]


def damaged_bytes(original: bytes, *, count: int, seed: int) -> Iterator[bytes]:
    """Copies of a file that are cut or have other bytes."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        content = bytearray(original)
        if rng.random() < 0.2:
            yield bytes(content[: int(rng.integers(len(content)))])
            continue
        for place in rng.integers(0, len(content), size=int(rng.integers(1, 8))).tolist():
            content[place] = int(rng.integers(256))
        yield bytes(content)


def fuzz(
    door: str,
    call: Callable[[Any], object],
    inputs: Iterable[Any],
    *,
    allowed: type[Exception] = MapspaceError,
) -> Counter[str]:
    """Gives every input to a door.

    Args:
        door: what the message calls it.
        call: takes one input.
        inputs: of any number.
        allowed: what the door may raise, with a message of one line.

    Returns:
        How many were `answered` and `refused`.

    Raises:
        AssertionError: one raised something else, said more than a line or took too long.
    """
    counts: Counter[str] = Counter()
    failures: dict[str, str] = {}
    for value in inputs:
        try:
            with time_limit(SECONDS):
                call(value)
        except allowed as error:
            counts["refused"] += 1
            if "\n" in str(error) or not str(error):
                failures.setdefault("not one line", f"{error!r} of {_shown(value)}")
        except (Exception, Hang) as error:
            counts["failed"] += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            failures.setdefault(place, f"{error} of {_shown(value)}")
        else:
            counts["answered"] += 1
    print(f"{door}: {sum(counts.values()):,} inputs, {dict(counts)}")
    assert not failures, f"{door}:\n" + "\n".join(f"{k}: {v}" for k, v in failures.items())
    return counts


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends a block that computes for too long; on a busy machine it may take longer.

    Raises:
        Hang: it did.
    """

    def late(*_: Any) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _damage(tree: Any, rng: np.random.Generator) -> Any:
    """The tree with one place damaged, which may be all of it."""
    places = list(_places(tree))
    if not places or rng.random() < 0.01:
        return _nasty(rng)
    holder, key = places[int(rng.integers(len(places)))]
    kind = rng.random()
    if kind < 0.7:
        holder[key] = _nasty(rng)
    elif kind < 0.8:
        del holder[key]
    elif kind < 0.85:
        holder[key] = [holder[key]]
    elif kind < 0.9:
        other, there = places[int(rng.integers(len(places)))]
        holder[key] = copy.deepcopy(other[there])
    elif kind < 0.95:
        value = holder[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = 1
        holder[key] = value * int(rng.choice([-1, 2, 1000, 2**40]))
    elif isinstance(holder, dict):
        holder[str(rng.choice(["", "x", "name", "kind", "keep", "0"]))] = _nasty(rng)
    else:
        holder.append(_nasty(rng))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from _places(value)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield tree, index
            yield from _places(value)


def _nasty(rng: np.random.Generator) -> Any:
    if rng.random() < 0.02:
        nested: Any = 1
        for _ in range(int(rng.integers(50, 300))):
            nested = [nested] if rng.random() < 0.5 else {"a": nested}
        return nested
    return copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value[:200])
    try:
        text = json.dumps(value, default=repr)
    except (ValueError, RecursionError):
        text = repr(type(value))
    return text if len(text) < 4000 else text[:4000] + "..."
