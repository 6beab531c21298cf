"""Work of one process's own that is cut into a few independent parts: by forks of it, side by side.

A forked process has all that this one has in memory, and nothing is imported or read again.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

# More figures at once would fill the memory before they save time.
MOST_PROCESSES = 4

_parts: Sequence[Callable[[], None]] = ()


def side_by_side(parts: Sequence[Callable[[], None]]) -> None:
    """Calls functions that leave nothing but files, at the same time where that can be done.

    It can be done on Linux with more than one processor, while no other thread runs, whose locks a
    fork would hold for ever. Elsewhere, and where a process died, they are called here.

    Args:
        parts: the functions, in any order; to call one twice does no harm.

    Raises:
        Exception: what a function raises.
    """
    global _parts
    count = min(len(parts), MOST_PROCESSES, _processors())
    if count < 2 or threading.active_count() > 1:
        _call_all(parts)
        return
    _parts = parts
    try:
        with ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
            # The last first: a page ends with what takes longest, the replays.
            for _ in pool.map(_call_part, reversed(range(len(parts)))):
                pass
    except BrokenProcessPool:
        _call_all(parts)
    finally:
        _parts = ()


def _processors() -> int:
    """How many this process may use; one where it cannot be forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _call_part(place: int) -> None:
    _parts[place]()


def _call_all(parts: Sequence[Callable[[], None]]) -> None:
    for part in parts:
        part()
