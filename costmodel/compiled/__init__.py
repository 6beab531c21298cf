"""How this project compiles: one decorator, one disk cache that source changes invalidate.

The cache lies in the user's cache folder, so an installation that cannot be written to starts as
fast as any other. Numba reads it back as pickles: only a folder that nobody else can write to is
trusted. What a cached function is filed under is explained in `costmodel.compiled.sources`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
import platformdirs
from numba.core.caching import _CacheLocator
from numba.core.registry import CPUDispatcher

from costmodel.compiled import by_reference, indexing, linking
from costmodel.compiled.indexing import index_from_the_front
from costmodel.compiled.linking import EntryCompiler, Part, PartCompiler
from costmodel.compiled.once import Entry
from costmodel.compiled.shortcuts import (
    ask_for_no_blas,
    collect_nothing_meanwhile,
    remember_operators,
)
from costmodel.compiled.sources import Sources
from mapspace.private_folder import private_folder, temporary_folder

Function = TypeVar("Function", bound=Callable[..., Any])

remember_operators()
collect_nothing_meanwhile()
ask_for_no_blas()
index_from_the_front()


def compiled(function: Function) -> Function:
    """Compiles a function to machine code that releases the interpreter lock, cached on disk."""
    return _entry(function)


def lean(function: Function) -> Function:
    """As `compiled`, for functions that allocate nothing: arrays are not reference-counted.

    Counting cost the main pass nine tenths of its time. In the loop-nest model no index is counted
    from the end either (`costmodel.compiled.indexing`).
    """
    return _entry(function, _nrt=False)


def _entry(function: Function, **options: Any) -> Function:
    cache = cache_folder() is not None
    result = _compile(function, cache=cache, pipeline_class=EntryCompiler, **options)
    if cache and isinstance(result, CPUDispatcher):
        result.__class__ = Entry
    return result


def part(function: Function) -> Function:
    """As `lean`, for functions that compiled code alone calls: compiled together with that."""
    result = _compile(
        function,
        pipeline_class=PartCompiler,
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    if isinstance(result, CPUDispatcher):
        result.__class__ = Part
    return result


def _compile(function: Function, **options: Any) -> Function:
    before = numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{ProjectLocator.__name__}"
    try:
        result: Function = numba.njit(nogil=True, error_model="numpy", **options)(function)
        return result
    finally:
        numba.config.CACHE_LOCATOR_CLASSES = before


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """The folder of compiled code; None where there is no folder that can be trusted.

    A folder that cannot be written, or that somebody else could write to, is replaced by one in
    the system's temporary folder, with a line on standard error.
    """
    usual = Path(platformdirs.user_cache_path("mapspace")) / "compiled"
    folder = private_folder(usual)
    if folder is None:
        folder = temporary_folder("compiled")
        instead = "is not kept" if folder is None else f"is kept in {folder}"
        print(
            f"mapspace: compiled code {instead}: {usual} cannot be written by this user alone.",
            file=sys.stderr,
        )
    return folder


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
        self._stamp = f"{numba.__version__} {llvmlite.__version__} {_how()} {_digest(file)}"

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
        locator.ensure_cache_path()
        return locator


@lru_cache(maxsize=1)
def _how() -> str:
    """Digest of the files that decide how everything is compiled, whatever it is."""
    modules = (linking, by_reference, indexing)
    files = [Path(str(module.__file__)) for module in modules]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@lru_cache(maxsize=256)
def _digest(file: str) -> str:
    return _sources().digest(Path(file))
