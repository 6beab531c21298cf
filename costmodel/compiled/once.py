"""Processes that need the same machine code at once: one compiles it, the others wait and read it.

Ray's workers and their driver begin with the same functions, and where nothing is compiled yet each
of them spent half a minute of processor time on each.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

# A process that compiles for longer than this is no longer waited for.
WAIT_SECONDS = 300.0


class Entry(CPUDispatcher):
    """A function whose machine code is kept on disk."""

    def compile(self, signature: Any) -> Any:
        """Reads or makes the machine code for a signature; the first of a function alone.

        Numba's lock comes first, as within a compilation that compiles another entry. That other
        one never leads back to the first: no two processes wait for each other.
        """
        with ExitStack() as held:
            # A dispatcher that was sent to another process has no folder there.
            if self._cache.cache_path is not None:
                index = Path(self._cache._cache_file._index_path)
                if not index.exists():
                    held.enter_context(global_compiler_lock)
                    _wait_for_others(held, index.with_suffix(".lock"))
            return super().compile(signature)


def _wait_for_others(held: ExitStack, path: Path) -> None:
    """Takes a lock that ends with the process; where there can be none, nobody waits."""
    # Importing it takes longer than reading what is compiled.
    from filelock import FileLock, Timeout

    with suppress(OSError, Timeout):
        held.enter_context(FileLock(path, timeout=WAIT_SECONDS, fallback_to_soft=False))
