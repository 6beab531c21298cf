"""Turns a library's loop, which calls for costs, into one that is asked and told.

RLlib drives its own loop: deep inside `train()` an environment needs the costs of some mappings.
A searcher is driven: `ask` returns mappings, `tell` brings their costs. A `Conversation` runs the
loop on a thread that waits whenever it needs costs, so that exactly one of the two sides runs at
any time. The loop's random numbers come from generators of its own, although the library uses the
process's global ones: they are exchanged whenever the sides change.
"""

from __future__ import annotations

import itertools
import queue
import random
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from costmodel.space import Codes, Losses
from mapspace.errors import MapspaceError

if TYPE_CHECKING:
    from costmodel.space import Space

# How often a waiting driver looks whether the loop is still alive, in seconds.
HEARTBEAT_SECONDS = 0.2
CLOSING_SECONDS = 5.0

_channels: weakref.WeakValueDictionary[int, LocalChannel] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class ClosedError(BaseException):
    """Unwinds the loop when nobody will ask any more; no library may catch it."""


class Channel(Protocol):
    """Carries mappings from environments to the driver, and losses back.

    Attributes:
        space: where the mappings live.
    """

    space: Space

    def request(self, codes: Codes, sender: int) -> Losses:
        """Called by an environment: losses `[m]` of codes `[m, D]`; waits for them."""
        ...

    def receive(self, timeout: float) -> Codes | None:
        """Called by the driver: the mappings asked for, None if there are none in time."""
        ...

    def answer(self, losses: Losses) -> None:
        """Called by the driver: the losses of what `receive` returned."""
        ...

    def close(self) -> None:
        """Called by the driver: no losses will come any more."""
        ...


class LocalChannel:
    """Between two threads of one process.

    A copy is the same channel, also through pickle within the process: the library copies and
    pickles the settings of environments, whether it needs to or not.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._number = next(_numbers)
        self._requests: queue.SimpleQueue[Codes] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Losses | None] = queue.SimpleQueue()
        _channels[self._number] = self

    def __reduce__(self) -> tuple[Callable[[int], LocalChannel], tuple[int]]:
        return _channel, (self._number,)

    def request(self, codes: Codes, sender: int) -> Losses:
        """See `Channel`."""
        self._requests.put(codes)
        losses = self._answers.get()
        if losses is None:
            raise ClosedError
        return losses

    def receive(self, timeout: float) -> Codes | None:
        """See `Channel`."""
        try:
            return self._requests.get(timeout=timeout)
        except queue.Empty:
            return None

    def answer(self, losses: Losses) -> None:
        """See `Channel`."""
        self._answers.put(losses)

    def close(self) -> None:
        """See `Channel`."""
        self._answers.put(None)


def _channel(number: int) -> LocalChannel:
    """The channel of this process with that number."""
    return _channels[number]


class Conversation:
    """A loop on its own thread, advanced from one request for costs to the next."""

    def __init__(self, loop: Callable[[], None], channel: Channel, seed: int) -> None:
        """Prepares the loop; the first `advance` starts it.

        Args:
            loop: asks for costs through the channel, and does not return.
            channel: carries them.
            seed: of the loop's random numbers.
        """
        self._channel = channel
        self._failure: BaseException | None = None
        self._random = _seeded(seed)
        self._started = False
        # A daemon, so that an interrupted process need not wait for it.
        self._thread = threading.Thread(target=self._run, args=(loop,), daemon=True)

    def advance(self, losses: Losses | None = None) -> Codes:
        """Runs the loop until it asks for costs.

        Args:
            losses: the answer to its last request; None at the start.

        Returns:
            `[m, D]` mappings whose costs it waits for.

        Raises:
            MapspaceError: the loop failed; the message says why. Nothing is left to advance.
        """
        outside = random_state()
        set_random_state(self._random)
        try:
            if not self._started:
                self._started = True
                self._thread.start()
            elif losses is not None:
                self._channel.answer(losses)
            while True:
                codes = self._channel.receive(HEARTBEAT_SECONDS)
                if codes is not None:
                    return codes
                if not self._thread.is_alive():
                    raise _explained(self._failure)
        finally:
            self._random = random_state()
            set_random_state(outside)

    def close(self) -> None:
        """Ends the loop, and waits for its end: whoever closes may shut Ray down next."""
        if self._started and self._thread.is_alive():
            self._channel.close()
            # The garbage collector may call this on the loop's own thread.
            if threading.current_thread() is not self._thread:
                self._thread.join(CLOSING_SECONDS)

    def _run(self, loop: Callable[[], None]) -> None:
        # Several threads per small matrix are slower than one.
        torch.set_num_threads(1)
        try:
            loop()
        except ClosedError:
            pass
        except BaseException as error:
            self._failure = error


def _explained(failure: BaseException | None) -> MapspaceError:
    """The error of ours at the bottom of a library's, or one that quotes the library's."""
    found = failure
    while found is not None:
        if isinstance(found, MapspaceError):
            return found
        found = found.__cause__
    text = str(failure).splitlines()[0] if str(failure) else ""
    error = MapspaceError(f"The learning loop failed: {type(failure).__name__} {text}")
    error.__cause__ = failure
    return error


def random_state() -> dict[str, Any]:
    """The states of the process's global random generators, as copies."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        "torch": torch.get_rng_state(),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Puts the global random generators where `random_state` found them."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])


def _seeded(seed: int) -> dict[str, Any]:
    """Global states that a seed makes, without touching the present ones."""
    return {
        "python": random.Random(seed).getstate(),
        "numpy": np.random.RandomState(seed % 2**32).get_state(),
        "torch": torch.Generator().manual_seed(seed).get_state(),
    }
