"""How this project compiles: one decorator, one disk cache that source changes invalidate.

Numba's own cache looks only at the file of the function, so a change in a function that it calls
would go unnoticed. The cache folder is therefore named after the sources of the loop-nest model, of
`costmodel.exact` and of the function's own file. It lies in the user's cache folder, so an
installation that cannot be written to starts as fast as any other.
"""

from __future__ import annotations

import hashlib
import inspect
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import platformdirs

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiles a function to machine code that releases the interpreter lock, cached on disk."""
    return _compile(function)


def lean(function: Function) -> Function:
    """As `compiled`, for functions that allocate nothing: arrays are not reference-counted.

    Counting cost the main pass nine tenths of its time.
    """
    return _compile(function, _nrt=False)


def inlined(function: Function) -> Function:
    """As `lean`, and pasted into its callers: a call would copy the tables, field by field."""
    return _compile(function, _nrt=False, forceinline=True)


def _compile(function: Function, **options: Any) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_cache_folder(inspect.getfile(function)))
    try:
        compiler = numba.njit(cache=True, nogil=True, error_model="numpy", **options)
        result: Function = compiler(function)
        return result
    finally:
        numba.config.CACHE_DIR = before


@lru_cache(maxsize=64)
def _cache_folder(source: str) -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    here = Path(__file__).parent
    for path in [*sorted(here.glob("*.py")), *sorted(here.glob("exact/*.py")), Path(source)]:
        digest.update(path.read_bytes())
    for root in (
        platformdirs.user_cache_path("mapspace"),
        Path(tempfile.gettempdir()) / "mapspace",
    ):
        folder = root / "compiled" / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        return folder
    return Path(source).parent / "__pycache__"
