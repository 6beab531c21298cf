"""Indices of arrays in the loop-nest model's lean code: from 0 on, never counted from the end.

Python's `a[-1]` makes Numba look at the sign of every index and add the length where it is
negative: a third of the instructions of the cost model. The functions of `costmodel.loop_nest` that
allocate nothing have no such index, so nothing is looked at; one that is a constant is refused.
This rests on a member of Numba that is not public, and on the names that it gives to functions;
`tests/costmodel/compiled/test_compiled.py` names them when they change.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import LoweringError
from numba.np import arrayobj

_FROM_BOTH_ENDS: Any = arrayobj.fix_integer_index
# How Numba begins the names of its functions.
_ROOM = "_ZN9costmodel9loop_nest"


def index_from_the_front() -> None:
    """Makes Numba take indices in that code as they are."""
    numba_module: Any = arrayobj
    numba_module.fix_integer_index = _index


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    if context.enable_nrt or not builder.function.name.startswith(_ROOM):
        return _FROM_BOTH_ENDS(context, builder, kind, index, size)
    found = context.cast(builder, index, kind, types.intp)
    if isinstance(found, ir.Constant) and found.constant < 0:
        raise LoweringError(f"lean code has no index {found.constant}: count from the front")
    return found
