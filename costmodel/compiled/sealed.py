"""Files of the cache with a checksum: what a power cut or a full disk left of one is never used.

Numba reads its files as pickles and hands what they hold to LLVM. A file that is empty, cut or
flipped ended every later command, and a flip in machine code could even run.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from mapspace.bounded_reading import read_bytes
from mapspace.errors import DataError

_SIZE = hashlib.sha256().digest_size


def sealed(content: bytes) -> bytes:
    """A content with its checksum before it."""
    return hashlib.sha256(content).digest() + content


def unsealed(file: Path) -> bytes | None:
    """The content of a file that was sealed; None where it is not there, or damaged.

    A line says what is damaged, and it goes: it is made anew.
    """
    try:
        found = read_bytes(file)
    except FileNotFoundError:
        return None
    except DataError:
        why = "cannot be read"
    else:
        if sealed(found[_SIZE:]) == found:
            return found[_SIZE:]
        why = "is damaged"
    print(f"mapspace: {file}: compiled code {why}; it is compiled anew.", file=sys.stderr)
    with suppress(OSError):
        file.rmdir() if file.is_dir() else file.unlink()
    return None


class SealedFiles(IndexDataCacheFile):
    """The files of a function's machine code: the index of what there is, and each of these."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        try:
            with super()._open_for_write(filepath) as file:
                file.write(sealed(content.getvalue()))
        except OSError as error:  # a full disk costs time, nothing else
            why = error.strerror or error
            print(f"mapspace: {filepath}: compiled code is not kept: {why}.", file=sys.stderr)

    def _load_index(self) -> dict[Any, str]:
        content = unsealed(Path(self._index_path))
        if content is None:
            return {}
        rest = io.BytesIO(content)
        if pickle.load(rest) != self._version:
            return {}
        stamp, found = pickle.load(rest)
        return dict(found) if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        content = unsealed(Path(self._data_path(name)))
        return None if content is None else pickle.loads(content)


def seal_files(function: Any) -> None:
    """Gives the files of a function's machine code checksums; where none is compiled, nothing."""
    if isinstance(function, CPUDispatcher):
        function._cache._cache_file.__class__ = SealedFiles
