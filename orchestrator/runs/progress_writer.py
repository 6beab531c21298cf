"""Writes how a run stands: what any kind of run tells, and a thread that puts it into its folder.

Telling costs a lock and no file: a slow or full disk holds up no search. What cannot be written is
left out, for a run is not to fail because nobody can look on.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mapspace.errors import MapspaceError
from mapspace.forks import RestingThread
from mapspace.storage import Place, remove_unfinished, write_atomically
from orchestrator.runs.limits import LimitReachedError
from orchestrator.runs.lock import Claim
from orchestrator.runs.progress_file import (
    BEAT_SECONDS,
    LONGEST_TEXT,
    MOST_FAILURES,
    MOST_LINES,
    MOST_POINTS,
    MOST_RUNNING,
    PROGRESS_FILE,
    REMOTE_BEAT_SECONDS,
    Chart,
    Curve,
    Grid,
    Progress,
    Running,
    Status,
    read_progress,
)

# The least time between two files, in seconds: on a disk, and on object storage.
WRITE_SECONDS, REMOTE_WRITE_SECONDS = 1.0, 5.0


Looks = Callable[[], tuple[Sequence[Chart], Sequence[Grid]]]


class ProgressWriter:
    """How a run stands, as it tells; before `written` and after it nobody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = False
        self._held = False
        self._began = time.monotonic()
        self._stage_began = self._began
        self._running: dict[Hashable, tuple[str, float]] = {}
        self._failures: deque[tuple[Hashable, str]] = deque(maxlen=MOST_FAILURES)
        self._failed = Counter[Hashable]()
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._looks: Looks | None = None
        self._now = Progress(
            version=1,
            kind="",
            name="",
            status="running",
            process=_process(),
            started=time.time(),
            updated=time.time(),
            beat=BEAT_SECONDS,
        )

    def __reduce__(self) -> tuple[type[ProgressWriter], tuple[()]]:
        """A copy elsewhere, as Tune makes of all that its callbacks know, tells nobody."""
        return ProgressWriter, ()

    def stage(self, name: str, *, unit: str = "", total: int | None = None, done: int = 0) -> None:
        """A part of the run begins.

        Args:
            name: what it is.
            unit: what is counted, in the plural.
            total: how many there are; None: nobody knows.
            done: how many of them were there before.
        """
        self._stage_began = time.monotonic()
        told = {"unit": _cut(unit), "total": total, "done": done, "before": done}
        self._tell(stage=_cut(name), **told)

    def advance(self, count: int = 1, *, before: bool = False) -> None:
        """More is done, or was done before this call."""
        self._tell(done=self._now.done + count, before=self._now.before + (count if before else 0))

    def reach(self, done: int, total: int | None = None) -> None:
        """So much is done, of as much as before or of another total."""
        self._tell(done=done, total=self._now.total if total is None else total)

    def begin_task(self, key: Hashable, name: str) -> None:
        """A task is under way."""
        with self._lock:
            self._running[key] = (_cut(name), time.monotonic() - self._began)
        self._tell()

    def end_task(self, key: Hashable) -> None:
        """It is not any more."""
        with self._lock:
            self._running.pop(key, None)
        self._tell()

    def fail(self, text: str, key: Hashable = None) -> None:
        """Something went wrong that does not end the run, or not yet; with a task, where it did."""
        with self._lock:
            self._failures.append((key, _cut(text)))
            self._failed[key] += 1
        self._tell(failures=self._now.failures + 1)

    def mend(self, key: Hashable) -> None:
        """A task that had failed has ended well after all."""
        with self._lock:
            mended = self._failed.pop(key, 0)
            left = [failure for failure in self._failures if failure[0] != key]
            self._failures = deque(left, maxlen=MOST_FAILURES)
        if mended:
            self._tell(failures=self._now.failures - mended)

    def line(self, text: str) -> None:
        """What the run says to a person."""
        with self._lock:
            self._lines.append(_cut(text))
            self._changed = True

    def workers(self, busy: float, processors: int) -> None:
        """How many processors there are, and how many have a task."""
        if (busy, processors) != (self._now.busy, self._now.processors):
            self._tell(busy=busy, processors=processors)

    @property
    def processors(self) -> int:
        """How many there were when last looked at, at least one."""
        return self._now.processors or 1

    def show(
        self,
        looks: Looks,
        *,
        now: bool = False,
    ) -> None:
        """Curves and tables so far, made when the file is written next.

        Args:
            looks: makes them, in the thread that writes.
            now: make them here and now.
        """
        if now:
            self._looks = None
            self._draw(looks)
        else:
            self._looks = looks
            self._changed = True

    def _draw(self, looks: Looks) -> None:
        charts, tables = looks()
        self._tell(charts=tuple(charts), tables=tuple(tables))

    @contextlib.contextmanager
    def written(self, folder: Place, claim: Claim, kind: str, name: str) -> Iterator[None]:
        """Writes what is told during a block to a run folder, and at its end how it ended.

        What a finished run left stays as it is while nothing is done.
        """
        path = folder / PROGRESS_FILE
        remove_unfinished(path)
        local = isinstance(folder, Path)
        beat = BEAT_SECONDS if local else REMOTE_BEAT_SECONDS
        self._now = self._now.model_copy(
            update={"kind": _cut(kind), "name": _cut(name), "beat": beat}
        )
        with contextlib.suppress(MapspaceError):
            there = read_progress(folder)
            self._held = there is not None and there.status == "finished"
        over = threading.Event()

        def write() -> None:
            looks, self._looks = self._looks, None
            if looks is not None:
                self._draw(looks)
            with self._lock:
                self._changed = False
                content = self._snapshot()
            if not claim.lost:
                # A full disk or a store that is away ends no run.
                with contextlib.suppress(MapspaceError, OSError):
                    write_atomically(path, content.model_dump_json(exclude_defaults=True).encode())

        def keep_writing(at_work: threading.Lock) -> None:
            wrote = -math.inf
            while True:
                with at_work:
                    due = time.monotonic() - wrote >= beat
                    if not self._held and (self._changed or due):
                        write()
                        wrote = time.monotonic()
                if over.wait(WRITE_SECONDS if local else REMOTE_WRITE_SECONDS):
                    return

        writer = RestingThread(keep_writing, "progress")
        writer.start()
        try:
            yield
        except BaseException as error:
            self._held = False
            self._end(*_ending(error))
            raise
        else:
            self._end("finished")
        finally:
            over.set()
            writer.join()
            if not self._held:
                write()

    def _end(self, status: Status, reason: str = "") -> None:
        with self._lock:
            self._running.clear()
            ended = {"status": status, "reason": _cut(reason)}
            nobody = {} if self._now.busy is None else {"busy": 0}
            self._now = self._now.model_copy(update={**ended, **nobody})

    def _tell(self, **changes: object) -> None:
        with self._lock:
            self._now = self._now.model_copy(update=changes)
            self._changed = True
            self._held = False

    def _snapshot(self) -> Progress:
        now, elapsed = self._now, time.monotonic() - self._stage_began
        made, left = now.done - now.before, None
        if now.status == "running" and made > 0 and now.total is not None:
            left = round(elapsed * max(0, now.total - now.done) / made, 1)
        listed = list(self._running.values())
        return now.model_copy(
            update={
                "updated": time.time(),
                "seconds_left": left,
                "running": tuple(
                    Running(name=name, since=round(since, 1))
                    for name, since in listed[:MOST_RUNNING]
                ),
                "running_more": max(0, len(listed) - MOST_RUNNING),
                "failure_lines": tuple(text for _, text in self._failures),
                "lines": tuple(self._lines),
            }
        )


def curve(name: str, points: Iterable[tuple[float, float]], **look: Any) -> Curve:
    """A line of a chart from any points: what is not finite is left out, and of many every n-th.

    Args:
        name: its name.
        points: where it goes along.
        look: `colour` and `dashed`, as `Curve` has them.
    """
    known = [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    step = -(-len(known) // (MOST_POINTS - 1)) or 1
    kept = known[::step]
    if known and kept[-1] != known[-1]:
        kept.append(known[-1])
    return Curve(name=_cut(name), points=tuple(kept), **look)


def _ending(error: BaseException) -> tuple[Status, str]:
    """How an error has ended a run, and why."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "interrupted; the same command continues it."
    lines = str(error).strip().splitlines()
    if isinstance(error, LimitReachedError):
        return "stopped", lines[0]
    return "failed", lines[0] if lines else type(error).__name__


def _process() -> str:
    return _cut(f"process {os.getpid()} on {socket.gethostname()}")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 3]}..."
