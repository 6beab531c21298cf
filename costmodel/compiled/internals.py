"""Members of Numba that are not public and that compiling here rests on.

Each purpose does without them: where one is missing, functions are compiled as Numba does it by
itself, to the same results, which takes longer. `pyproject.toml` bounds the versions.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numba

_LIBRARY = "numba.core.codegen:JITCodeLibrary"
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "linking": (
        f"{_LIBRARY}._codegen",
        f"{_LIBRARY}._final_module",
        f"{_LIBRARY}._finalize_final_module",
        f"{_LIBRARY}._finalized",
        f"{_LIBRARY}._get_module_for_linking",
        f"{_LIBRARY}._linking_libraries",
        f"{_LIBRARY}._optimize_final_module",
        f"{_LIBRARY}._raise_if_finalized",
        f"{_LIBRARY}._reload_init",
        f"{_LIBRARY}.enable_object_caching",
        "numba.core.codegen:JITCPUCodegen._tm",
        "numba.core.compiler:Compiler.compile_extra",
        "numba.core.compiler:Compiler.define_pipelines",
        "numba.core.compiler:Flags.no_compile",
        "numba.core.cpu:CPUContext.insert_user_function",
        "numba.core.cpu:CPUTargetOptions._nrt",
        "numba.core.registry:CPUDispatcher.add_overload",
    ),
    "kept": (
        "numba.core.caching:_CacheLocator.ensure_cache_path",
        "numba:config.CACHE_LOCATOR_CLASSES",
    ),
    "sealed": (
        "numba.core.caching:FunctionCache._cache_file",
        "numba.core.caching:IndexDataCacheFile._data_path",
        "numba.core.caching:IndexDataCacheFile._index_path",
        "numba.core.caching:IndexDataCacheFile._load_data",
        "numba.core.caching:IndexDataCacheFile._load_index",
        "numba.core.caching:IndexDataCacheFile._open_for_write",
        "numba.core.caching:IndexDataCacheFile._source_stamp",
        "numba.core.caching:IndexDataCacheFile._version",
        "numba.core.registry:CPUDispatcher._cache",
    ),
    "once": (
        "numba.core.caching:FunctionCache.cache_path",
        "numba.core.caching:FunctionCache._cache_file",
        "numba.core.compiler_lock:global_compiler_lock",
        "numba.core.registry:CPUDispatcher._cache",
        "numba.core.caching:IndexDataCacheFile._index_path",
    ),
    "shortcuts": (
        "numba.core.cpu:CPUContext.load_additional_registries",
        "numba.core.event:Listener",
        "numba.core.event:register",
        "numba.core.targetconfig:ConfigStack.top_or_none",
        "numba.core.types.functions:BaseFunction.get_call_type",
        "numba.core.types.functions:BaseFunction._impl_keys",
        "numba.np.linalg:ensure_blas",
    ),
    "indexing": ("numba.np.arrayobj:fix_integer_index",),
    "fingerprints": ("numba._dispatcher:compute_fingerprint",),
}
# Without them a line says why a command takes long.
NEEDED_FOR_SPEED = ("linking", "kept")


def missing(purpose: str) -> str | None:
    """The first member that this Numba lacks of those that a purpose rests on; None: it has all."""
    return next((member for member in RESTS_ON[purpose] if not _there(member)), None)


def usable(purpose: str) -> bool:
    """Whether this Numba has all that a purpose rests on; where that is slow, a line says so."""
    member = missing(purpose)
    if member is not None and purpose in NEEDED_FOR_SPEED:
        print(
            f"mapspace: Numba {numba.__version__} has no {member}: it compiles as usual, which "
            "takes far longer. pip install 'numba>=0.68,<0.69' is known to have it.",
            file=sys.stderr,
        )
    return member is None


def _there(member: str) -> bool:
    module, _, path = member.partition(":")
    owner, _, name = path.partition(".")
    try:
        found = getattr(importlib.import_module(module), owner, None)
    except ImportError:
        return False
    return found is not None and (not name or hasattr(found, name) or _is_set(found, name))


def _is_set(owner: Any, name: str) -> bool:
    """Whether a method of a class, or of those above it, uses an attribute of such a name."""
    functions = [each for base in getattr(owner, "__mro__", ()) for each in vars(base).values()]
    codes = (getattr(each, "__code__", None) for each in functions)
    return any(name in code.co_names for code in codes if code is not None)
