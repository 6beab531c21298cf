"""Local files that are there whole or not at all, for what writes through a pyarrow file system.

Ray Train overwrites its state in place. On a full disk, or killed in that moment, it leaves half of
it, and nothing can continue from that.
"""

from __future__ import annotations

import io
import os
import uuid
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem


class WholeFile(io.BufferedWriter):
    """A file that takes its name when it is closed, unless something could not be written."""

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(path)
        self._path = path
        self._temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        super().__init__(io.FileIO(self._temporary, "wb"))

    def write(self, content: Any) -> int:
        """Writes bytes, all of them."""
        try:
            return super().write(content)
        except BaseException:
            # Closed, it takes no name.
            self.raw.close()
            os.unlink(self._temporary)
            raise

    def close(self) -> None:
        """Gives the file its name; one that is not whole disappears."""
        if self.closed:
            return
        try:
            super().close()
        except BaseException:
            os.unlink(self._temporary)
            raise
        os.replace(self._temporary, self._path)


class WholeFiles(LocalFileSystem):
    """Local files, of which new ones are a `WholeFile`."""

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        path = self._strip_protocol(path)
        if mode == "wb":
            return WholeFile(path)
        return super()._open(path, mode, block_size=block_size, **options)


def whole_files() -> PyFileSystem:
    """The local files as Ray takes them, for its `storage_filesystem`."""
    return PyFileSystem(FSSpecHandler(WholeFiles()))
