"""Ctrl-C as an event."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into an event; the second one interrupts as usual.

    Where interrupts are ignored, as in what a script or nohup has put into the background, they
    stay so: Ctrl-C is then meant for what runs in the foreground.
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield interrupted
        return

    def on_interrupt(*_: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
