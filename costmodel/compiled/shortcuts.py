"""What Numba need not do: look for types of operators again, collect garbage, and import SciPy.

A sixth of the time went into looking through dozens of templates at every use of an operator. What
a built-in function returns for types of arguments depends on nothing but these and the flags of the
compilation. This rests on members of Numba that are not public;
`tests/costmodel/compiled/test_compiled.py` names them when they change. Another seventh went into
collections, which find next to nothing among the objects of a compilation: it takes 0.1 GB more
without. SciPy's linear algebra takes 0.08 s of every command that runs compiled code, and only
shows whether products of matrices could be compiled.
"""

from __future__ import annotations

import gc
import sys
from typing import Any, NoReturn

from numba.core import event, types
from numba.core.cpu import CPUContext
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

_SEARCH: Any = BaseFunction.get_call_type
_LOAD: Any = CPUContext.load_additional_registries
_found: dict[tuple[Any, ...], Any] = {}
# Flags in words, and the flags themselves so that no others get their identity.
_flags: dict[int, tuple[Any, str]] = {}


def remember_operators() -> None:
    """Makes Numba keep the signatures of built-in functions in this process."""
    numba_type: Any = BaseFunction
    numba_type.get_call_type = _signature


class _NoCollections(event.Listener):
    """Lets the collector rest while anything is compiled."""

    _depth = 0
    _enabled = False

    def on_start(self, event: Any) -> None:
        """A compilation begins, perhaps within another one."""
        if self._depth == 0:
            self._enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """It has ended, or failed."""
        self._depth -= 1
        if self._depth == 0 and self._enabled:
            gc.enable()


def collect_nothing_meanwhile() -> None:
    """Makes compilations in this process go without collections."""
    event.register("numba:compile", _NoCollections())


def ask_for_no_blas() -> None:
    """Makes Numba import SciPy where compiled code multiplies matrices, and not before.

    Convolutions alone would then be compiled as loops; nothing here has any.
    """
    context: Any = CPUContext
    context.load_additional_registries = _load


def _load(context: Any) -> None:
    if "numba.np.arraymath" not in sys.modules:
        from numba.np import linalg

        found = linalg.ensure_blas
        linalg.ensure_blas = _no_blas
        try:
            import numba.np.arraymath  # noqa: F401 - imported for what it registers
        finally:
            linalg.ensure_blas = found
    _LOAD(context)


def _no_blas() -> NoReturn:
    raise ImportError


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
