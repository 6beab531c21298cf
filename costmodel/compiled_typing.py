"""Types of operators, found once: Numba looks through dozens of templates at every use.

A sixth of the time to compile went into that. What a built-in function returns for types of
arguments depends on nothing but these and the flags of the compilation. This rests on members of
Numba that are not public; `tests/costmodel/test_compiled.py` names them when they change.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

_SEARCH: Any = BaseFunction.get_call_type
_found: dict[tuple[Any, ...], Any] = {}
# Flags in words, and the flags themselves so that no others get their identity.
_flags: dict[int, tuple[Any, str]] = {}


def remember_operators() -> None:
    """Makes Numba keep the signatures of built-in functions in this process."""
    numba_type: Any = BaseFunction
    numba_type.get_call_type = _signature


def _signature(function: Any, context: Any, args: Any, kws: Any) -> Any:
    if kws or type(function) is not types.Function:
        return _SEARCH(function, context, args, kws)
    known: Any = function
    flags = ConfigStack.top_or_none()
    if id(flags) not in _flags:
        _flags[id(flags)] = flags, repr(flags)
    key = (function, id(context), _flags[id(flags)][1], tuple(args))
    signature = _found.get(key)
    # A function type that is made anew must note how the signature is implemented.
    if signature is None or signature.args not in known._impl_keys:
        signature = _found[key] = _SEARCH(function, context, args, kws)
    return signature
