"""A command that is run to its end, with all the processes that it starts.

Each joins the group of a shell that was there before it and reads from a pipe which only this
process holds open: however this process ends, the group ends with it, from its first moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# What is kept of what a command prints; on standard output more of it is a failure.
LARGEST_OUTPUT = 16 << 20
# How long is waited for the ends of what it prints once its processes are gone.
LAST_WORDS_SECONDS = 1.0
_CHUNK = 1 << 16
# Nobody writes to what it reads: that ends when who holds the other end open is gone. A command
# that signals its own group is no reason to end it.
_WATCH = "trap '' HUP INT TERM; read -r _; kill -s KILL 0"


@dataclass(frozen=True)
class Finished:
    """What a command came to.

    Attributes:
        exit_code: of the command; negative: the signal that ended it.
        printed: on standard output.
        complained: on standard error, the beginning of it where it is long.
        cut: why it was ended before its end; empty: it was not.
    """

    exit_code: int
    printed: str
    complained: str
    cut: str = ""


class Processes:
    """The commands that run now, each a process group of its own."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._lock = threading.Lock()
        self._over = False

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> Finished:
        """Runs a command to its end, or ends it; whatever it has started ends with it.

        Args:
            words: the command and its arguments.
            folder: where it runs.
            environment: all of its environment.
            seconds: what it may take, s.

        Raises:
            OSError: it cannot be started.
            ValueError: a word cannot be one of a command.
        """
        reasons: list[str] = []
        with self._group() as group:

            def cut(reason: str) -> None:
                reasons.append(reason)
                self._end(group)

            process = subprocess.Popen(
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=group,
            )
            if self._over:
                self._end(group)
            assert process.stdout is not None
            assert process.stderr is not None
            limit = threading.Timer(seconds, cut, [f"no answer within {seconds:g} s."])
            too_much = f"it printed more than {LARGEST_OUTPUT >> 20} MiB."
            printed = _Reader(process.stdout, lambda: cut(too_much))
            complained = _Reader(process.stderr, lambda: None)
            for thread in (limit, printed, complained):
                thread.daemon = True
                thread.start()
            code = process.wait()
            limit.cancel()
        said = printed.text(), complained.text()
        return Finished(code, *said, reasons[0] if reasons else "")

    def end(self) -> None:
        """Ends all commands that run now or are started from now on."""
        self._over = True
        for group in list(self._groups):
            self._end(group)

    def _end(self, group: int) -> None:
        with self._lock:
            if group in self._groups:
                _kill(group)

    @contextmanager
    def _group(self) -> Iterator[int]:
        """The number of a process group; nobody else gets it while its first process is there."""
        quiet = subprocess.DEVNULL
        shell = ["sh", "-c", _WATCH]
        with subprocess.Popen(
            shell, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, process_group=0
        ) as first:
            with self._lock:
                self._groups.add(first.pid)
            try:
                yield first.pid
            finally:
                with self._lock:
                    # What the command has left running would keep its output open, and processors
                    # busy.
                    _kill(first.pid)
                    self._groups.discard(first.pid)


class _Reader(threading.Thread):
    """Reads what is printed to its end, and keeps so much of it."""

    def __init__(self, pipe: IO[bytes], too_much: Callable[[], None]) -> None:
        super().__init__()
        self._pipe = pipe
        self._too_much = too_much
        self._kept = bytearray()

    def run(self) -> None:
        """Reads."""
        with self._pipe, suppress(OSError):
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                left = LARGEST_OUTPUT - len(self._kept)
                self._kept += chunk[:left]
                if len(chunk) > left:
                    self._too_much()

    def text(self) -> str:
        """What was printed, once nobody can print any more."""
        self.join(LAST_WORDS_SECONDS)
        return self._kept.decode(errors="replace")


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
