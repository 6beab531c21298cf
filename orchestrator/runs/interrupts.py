"""Ctrl-C as an event, and what it does to a command at every moment.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. While the command line is
imported nobody catches it; in a callback that llvmlite makes while compiled code is loaded, or when
an object is freed, Python prints it and goes on.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SAID = "Error: interrupted."
AGAIN_SECONDS = 0.05
"""Until an interruption is delivered again that could not be passed on."""
ENDING_SECONDS = 3.0
"""For which a command that is over may clean up before an interruption ends it at once."""


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into an event; the second one interrupts as usual.

    So does SIGTERM in the process of a command (`command_process`), such as `timeout` sends. Where
    interrupts are ignored, as in what a script or nohup has put into the background, they stay so:
    Ctrl-C is then meant for what runs in the foreground.
    """
    interrupted = threading.Event()
    numbers = [signal.SIGINT] if _commands == [] else [signal.SIGINT, signal.SIGTERM]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # What is ignored stays so, and one that is not Python's could not be put back.
    before = {n: own for n, own in handlers.items() if own not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    process_id = os.getpid()

    def on_interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() != process_id:  # a fork of it, which its maker ends
            os._exit(128 + number)
        interrupted.set()
        for process in _commands:
            process.signal = number
        put_back()

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, on_interrupt)
    try:
        yield interrupted
    finally:
        put_back()


@contextmanager
def command_process() -> Iterator[Callable[[], None]]:
    """Makes this process, which runs one command, end by Ctrl-C and SIGTERM at every moment.

    Only for a process of the command line: what imports this project keeps its own handlers.

    Yields:
        What is to be called when everything is imported and errors are handled from there on.
    """
    process = _CommandProcess()
    _commands.append(process)
    try:
        yield process.begin
    except BaseException as error:
        process.over()
        status = error.code if isinstance(error, SystemExit) else None
        if process.signal is None or status == 0:
            raise
        if status != 128 + signal.SIGINT:
            # What an interruption has become on its way through libraries, such as a closed pipe.
            print(SAID, file=sys.stderr)
        process.status = 128 + process.signal
        raise SystemExit(process.status) from None


class _CommandProcess:
    """What signals do to a process that runs a command.

    Attributes:
        signal: the one that was raised as an interruption; None: none yet.
        status: with which an interruption ends the process; None: it is not ended by one.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.status: int | None = None
        self._process = os.getpid()
        self._imported = False
        self._over_at: float | None = None
        self._show = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        for number in (signal.SIGINT, signal.SIGTERM):
            # What nohup or a script has put into the background is not interrupted.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        atexit.register(self._gone)

    def begin(self) -> None:
        """From now on an interruption is raised."""
        self._imported = True

    def over(self) -> None:
        """From now on nothing is left to interrupt."""
        self._over_at = time.monotonic()
        # Python would end by a signal after an interruption of what a library executes as text,
        # not with the exit status; another text makes it forget that.
        exec("")

    def _gone(self) -> None:
        """What Python itself takes down then is not ended by a signal, with a status of its own.

        Python gives up the handlers first of all, but what is ignored stays ignored. After an
        interruption libraries may be at work still, in threads that nobody has stopped: Python
        would take down under them what they use, and they end the process by a fault of memory.
        This was registered before anything else, so all others have cleaned up by now.
        """
        if os.getpid() != self._process:
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.status is not None:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self.status)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a fork of it, whose work nobody waits for
            os._exit(128 + number)
        if self._over_at is not None:
            if time.monotonic() - self._over_at > ENDING_SECONDS:
                os._exit(128 + number)
            return
        if not self._imported:
            os.write(2, f"{SAID}\n".encode())
            os._exit(128 + number)
        self.signal = number
        raise KeyboardInterrupt

    def _unraisable(self, unraisable: UnraisableHookArgs) -> None:
        """Takes what Python cannot pass on, and would print.

        After an interruption that is the interruption itself, or what half-made objects complain
        of.
        """
        if self.signal is None:
            self._show(unraisable)
        elif issubclass(unraisable.exc_type, KeyboardInterrupt) and self._over_at is None:
            # Not a `threading.Thread`: this one may have been stopped while it made one.
            _thread.start_new_thread(self._again, (self.signal,))

    def _again(self, number: int) -> None:
        time.sleep(AGAIN_SECONDS)
        if self._over_at is None:
            os.kill(self._process, number)


# Of this process: one, in the command line's.
_commands: list[_CommandProcess] = []
