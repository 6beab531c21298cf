"""How this project compiles: one decorator, one disk cache that source changes invalidate.

The cache lies in the user's cache folder, so an installation that cannot be written to starts as
fast as any other. Numba reads it back as pickles: only a folder that nobody else can write to is
trusted. What a cached function is filed under is explained in `costmodel.compiled.sources`. Where a
Numba lacks what that rests on (`costmodel.compiled.internals`), it compiles as it does by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from costmodel.compiled.internals import usable
from costmodel.compiled.sources import cache_folder

__all__ = ["cache_folder", "compiled", "lean", "part"]

Function = TypeVar("Function", bound=Callable[..., Any])

_LINKED, _KEPT, _ONCE = usable("linking"), usable("kept"), usable("once")
_SEALED = usable("sealed")
if usable("shortcuts"):
    from costmodel.compiled import shortcuts

    shortcuts.remember_operators()
    shortcuts.collect_nothing_meanwhile()
    shortcuts.ask_for_no_blas()
if usable("indexing"):
    from costmodel.compiled.indexing import index_from_the_front

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
    cache = _KEPT and cache_folder() is not None
    if _LINKED:
        from costmodel.compiled.linking import EntryCompiler

        options["pipeline_class"] = EntryCompiler
    else:
        options = {}
    result = _compile(function, cache=cache, **options)
    if cache and _SEALED:
        from costmodel.compiled.sealed import seal_files

        seal_files(result)
    if cache and _LINKED and _ONCE:
        from costmodel.compiled.once import Entry

        _become(result, Entry)
    return result


def part(function: Function) -> Function:
    """As `lean`, for functions that compiled code alone calls: compiled together with that."""
    if not _LINKED:
        return _compile(function)
    from costmodel.compiled.linking import Part, PartCompiler

    only_called = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    result = _compile(function, pipeline_class=PartCompiler, _nrt=False, **only_called)
    _become(result, Part)
    return result


def _become(result: Any, dispatcher: type[Any]) -> None:
    """Gives a compiled function another class; where Numba compiles nothing it stays Python's."""
    if isinstance(result, dispatcher.__bases__[0]):
        result.__class__ = dispatcher


def _compile(function: Function, **options: Any) -> Function:
    before = getattr(numba.config, "CACHE_LOCATOR_CLASSES", "")
    if _KEPT:
        numba.config.CACHE_LOCATOR_CLASSES = "costmodel.compiled.kept.ProjectLocator"
    try:
        result: Function = numba.njit(nogil=True, error_model="numpy", **options)(function)
        return result
    finally:
        if _KEPT:
            numba.config.CACHE_LOCATOR_CLASSES = before
