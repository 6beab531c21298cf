"""Work of one process's own that is cut into a few independent parts: by forks of it, side by side.

A forked process has all that this one has in memory, and nothing is imported or read again. It has
no other thread: a lock that one of them held would be held for ever. So a thread that shall not
stand in the way is a `RestingThread`, and works within its `at_work`, which no fork
interrupts.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# More at once would fill the memory before they save time.
MOST_PROCESSES = 4
# How long a thread that is at work is waited for, s, until the parts are made here.
WAIT_SECONDS = 0.5

_function: Callable[[Any], Any] | None = None
_items: Sequence[Any] = ()


class _BusyError(Exception):
    """Another thread is at work."""


class RestingThread(threading.Thread):
    """A thread that holds its `at_work` while it does anything but wait.

    Attributes:
        at_work: the lock.
    """

    def __init__(self, target: Callable[[threading.Lock], None], name: str) -> None:
        """A daemon, not started; the target takes the lock."""
        self.at_work = threading.Lock()
        super().__init__(target=target, args=(self.at_work,), name=name, daemon=True)


def fork_map(
    function: Callable[[Item], Answer],
    items: Iterable[Item],
    meanwhile: Callable[[], None] | None = None,
    *,
    most: int = MOST_PROCESSES,
) -> Iterator[Answer]:
    """Applies a function to items, at the same time where that can be done.

    It can be done on Linux with more than one processor, while all other threads rest. Elsewhere,
    and where a process died, the function is called here.

    Args:
        function: to be called with each item; to call it twice does no harm.
        items: what takes long is best among the first.
        meanwhile: called once, here, while others work.
        most: processes at once.

    Yields:
        The answers, in the order of the items.

    Raises:
        Exception: what a call raises.
    """
    global _function, _items
    items = list(items)
    answers: list[Answer] = []
    count = min(len(items), most, MOST_PROCESSES, processors())
    if count > 1:
        _function, _items = function, items
        try:
            with (
                ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool,
                _ended_by_interruption(),
            ):
                with _others_resting():
                    # What is here already is no rubbish: to look for some would copy all of it.
                    gc.freeze()
                    try:
                        coming = pool.map(_call, range(len(items)))  # forks all of them
                    finally:
                        gc.unfreeze()
                if meanwhile is not None:
                    called, meanwhile = meanwhile, None
                    called()
                for answer in coming:
                    answers.append(answer)
                    yield answer
        except (BrokenProcessPool, _BusyError):
            pass
        finally:
            _function, _items = None, ()
    for item in items[len(answers) :]:
        yield function(item)
    if meanwhile is not None:
        meanwhile()


def side_by_side(
    parts: Sequence[Callable[[], None]], meanwhile: Callable[[], None] | None = None
) -> None:
    """Calls functions that leave nothing but files, as `fork_map` does."""
    for _ in fork_map(_call_part, parts, meanwhile):
        pass


def processors() -> int:
    """How many processors forks of this process may use; one where it cannot be forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


@contextmanager
def _others_resting() -> Iterator[None]:
    """Lets no other thread work meanwhile.

    Raises:
        _BusyError: one works for too long, or is none that can be stopped.
    """
    here = threading.current_thread()
    with ExitStack() as stack:
        for thread in threading.enumerate():
            if thread is here:
                continue
            if not isinstance(thread, RestingThread):
                raise _BusyError
            if not thread.at_work.acquire(timeout=WAIT_SECONDS):
                raise _BusyError
            stack.callback(thread.at_work.release)
        yield


@contextmanager
def _ended_by_interruption() -> Iterator[None]:
    """Ends the processes that the block forks where Ctrl-C leaves it: nobody waits for them."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except KeyboardInterrupt:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise


def _call(place: int) -> Any:
    assert _function is not None  # forked after it was set
    return _function(_items[place])


def _call_part(part: Callable[[], None]) -> None:
    part()
