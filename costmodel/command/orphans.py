"""No process outlives who has started it, however that one ends.

Process groups that run are told to a shell in the background, which is nobody's child: it reads
from a pipe that only this process holds open, and ends them when that is closed.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress

# Every line has all groups; a background command of a shell reads nothing unless it is told to.
_WATCH = """exec 3<&0
( while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "-$group"; done ) <&3 3<&- >/dev/null 2>&1 &"""


class Orphans:
    """The process groups that end with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._pipe = -1
        self._groups: set[int] = set()

    def note(self, group: int) -> None:
        """Lets a group end with this process, if it does so before."""
        with self._lock, suppress(OSError):
            if self._pid != os.getpid():
                self._begin()
            self._groups.add(group)
            self._tell()

    def forget(self, group: int) -> None:
        """A group has ended: another one may get its number."""
        with self._lock, suppress(OSError):
            self._groups.discard(group)
            self._tell()

    def _begin(self) -> None:
        """A shell for this process; of a fork's parent it has another one."""
        self._pid, self._groups = os.getpid(), set()
        ours, self._pipe = os.pipe()
        try:
            subprocess.run(
                ["sh", "-c", _WATCH],
                stdin=ours,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(ours)

    def _tell(self) -> None:
        if self._pid == os.getpid():
            os.write(self._pipe, f"{' '.join(map(str, self._groups))}\n".encode())
