"""Live progress of one search on a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Progress is printed at most this often, in seconds: on a terminal, and into logs.
TERMINAL_SECONDS, LOG_SECONDS = 0.2, 1.0


class Live:
    """Progress on a stream: one line that changes on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self._seconds = TERMINAL_SECONDS if self.terminal else LOG_SECONDS
        self._printed_at = -self._seconds
        self._open = False
        self._late: Callable[[], str] | None = None

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        self.end()
        print(text, file=self.stream, flush=True)

    def update(self, text: Callable[[], str]) -> None:
        """Prints the state of affairs, if the last one is not too recent."""
        now = time.monotonic()
        if now - self._printed_at < self._seconds:
            self._late = text
            return
        self._printed_at = now
        self._late = None
        self._print(text())

    def end(self) -> None:
        """Prints the last update that was held back, and ends the changing line."""
        if self._late is not None:
            late, self._late = self._late, None
            self._print(late())
        if self._open:
            print(file=self.stream, flush=True)
            self._open = False

    def _print(self, text: str) -> None:
        if self.terminal:
            print(f"\r{text}\x1b[K", end="", file=self.stream, flush=True)
            self._open = True
        else:
            print(text, file=self.stream, flush=True)

    @contextmanager
    def notice_after(self, seconds: float, text: str) -> Iterator[None]:
        """Prints a line if the block takes longer than so many seconds."""
        timer = threading.Timer(seconds, self.line, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
