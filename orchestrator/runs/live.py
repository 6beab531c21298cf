"""Live progress of one search on a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from orchestrator.report.text_table import line_width

if TYPE_CHECKING:
    from numba.core.event import Event

COMPILING = "compiling, once per installation"
# How often a line says how far compiling has come, in seconds: on a terminal, and into logs.
TERMINAL_WAIT, LOG_WAIT = 1.0, 5.0
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
        self._shown = ""

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
            text = late()
            if text != self._shown:
                self._print(text)
        if self._open:
            print(file=self.stream, flush=True)
            self._open = False

    def _print(self, text: str) -> None:
        self._shown = text
        if self.terminal:
            # What goes on in a second line is not overwritten.
            shown = text[: line_width() - 1]
            print(f"\r{shown}\x1b[K", end="", file=self.stream, flush=True)
            self._open = True
        else:
            print(text, file=self.stream, flush=True)

    @contextmanager
    def preparing(
        self, text: str, seconds: float = 1.0, *, functions: int | None = None
    ) -> Iterator[None]:
        """Says what takes long in a block that prepares a search.

        Args:
            text: printed if the block takes longer and compiles nothing.
            seconds: how long it may take without a word.
            functions: how many there are to compile, about; None: nobody knows.
        """
        # Here, since a command that needs no Numba shall not wait for it.
        from numba.core import event

        began, compiled = time.monotonic(), 0
        started, done = threading.Event(), threading.Event()
        live = self

        class Compiling(event.Listener):
            def on_start(self, event: Event) -> None:
                nonlocal compiled
                compiled += 1
                if not started.is_set():
                    started.set()
                    live.line(COMPILING)

            def on_end(self, event: Event) -> None:
                pass

        def tell() -> None:
            if not started.wait(seconds) and not done.is_set():
                live.line(text)
            started.wait()
            while not done.wait(TERMINAL_WAIT if live.terminal else LOG_WAIT):
                of = "" if functions is None else f" of about {max(functions, compiled):,}"
                live._print(f"{time.monotonic() - began:8.0f} s {compiled:13,}{of} functions")

        teller = threading.Thread(target=tell, daemon=True)
        # Numba reports real compilation, not the loading of what was compiled before.
        with event.install_listener("numba:compile", Compiling()):
            teller.start()
            try:
                yield
            finally:
                done.set()
                started.set()
                teller.join()
                live.end()
