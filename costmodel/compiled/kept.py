"""Machine code that is kept on disk: where, and what it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy
from numba.core.caching import _CacheLocator

from costmodel.compiled.sources import Sources, cache_folder

# They decide how everything is compiled and kept, whatever it is.
HOW = ("linking", "by_reference", "indexing", "sealed")


@lru_cache(maxsize=1)
def _sources() -> Sources:
    folder = cache_folder()
    return Sources(None if folder is None else folder / "sources")


class ProjectLocator(_CacheLocator):
    """Tells Numba where a function's machine code lies and what it was made from.

    Numba itself adds the signature, the processor and its features.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        """Takes a function and the file that it is defined in."""
        self._line = function.__code__.co_firstlineno
        self._module = function.__module__
        self._stamp = f"{_how()} {_digest(file)}"

    def get_cache_path(self) -> str:
        """The folder of the function's module, as its source is now."""
        name = hashlib.sha256(f"{self._module} {self._stamp}".encode()).hexdigest()[:16]
        return str(cache_folder() or "") + f"/{name}"

    def get_source_stamp(self) -> str:
        """What is stored with the code, and must be equal when it is read."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Tells functions of one name apart."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> ProjectLocator | None:
        """The locator of a function; None where its source is no file."""
        if not Path(py_file).is_file():
            return None
        locator = cls(py_func, py_file)
        folder = Path(locator.get_cache_path())
        if folder.is_file():  # which nobody but this user can have put there
            folder.unlink()
        locator.ensure_cache_path()
        return locator


@lru_cache(maxsize=1)
def _how() -> str:
    """The libraries and files that decide how everything is compiled, whatever it is."""
    files = [Path(__file__).with_name(f"{name}.py") for name in HOW]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return f"{numba.__version__} {llvmlite.__version__} {numpy.__version__} {digest}"


@lru_cache(maxsize=256)
def _digest(file: str) -> str:
    return _sources().digest(Path(file))
