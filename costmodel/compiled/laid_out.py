"""Named tuples that lie in memory for all the calls of compiled code that they are passed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import config, typeof
from numba.core import cgutils, types
from numba.extending import intrinsic

from costmodel.compiled import lean
from costmodel.compiled.by_reference import Address, address_class
from costmodel.compiled.internals import usable

Value = TypeVar("Value", bound=tuple[Any, ...])

_WORDS = 16
"""Of 64 bits, room for a field: an array of five dimensions takes fifteen."""


def laid_out(value: Value) -> Value:
    """Lays a named tuple out that compiled code takes by reference.

    Args:
        value: the named tuple; those among its fields are laid out, too.

    Returns:
        What has its fields, without being a tuple of them: to pass it is to pass `value`. What
        `_replace` makes of it is to be laid out anew.
    """
    if isinstance(value, Address) or config.DISABLE_JIT:
        return value
    lies: Any = type(value)(*[laid_out(f) if isinstance(f, tuple) else f for f in value])
    memory = np.zeros(_WORDS * len(lies), np.int64)
    made = _class_of(lies)((_copy(lies, memory),))
    its = made.__dict__
    its.update(zip(lies._fields, lies, strict=True))
    its["_asdict"], its["_replace"], its["_memory"] = lies._asdict, lies._replace, memory
    return cast(Value, made)


_classes: dict[bytes, type[Address]] = {}
_FINGERPRINTS = usable("fingerprints")


def _class_of(value: tuple[Any, ...]) -> type[Address]:
    """To find its type takes longer than all else: what Numba itself looks it up by is kept."""
    if not _FINGERPRINTS:
        return address_class(typeof(value))
    from numba._dispatcher import compute_fingerprint

    fingerprint = type(value).__module__.encode() + compute_fingerprint(value)
    if fingerprint not in _classes:
        _classes[fingerprint] = address_class(typeof(value))
    return _classes[fingerprint]


@lean
def _copy(value: Any, memory: npt.NDArray[np.int64]) -> int:
    """Copies a named tuple as it is laid out for this call; returns where it lies then."""
    return int(_store(value, memory))


@intrinsic
def _store(context: Any, value: Any, memory: Any) -> Any:
    def write(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        laid, array = arguments
        place = target.make_array(memory)(target, builder, array).data
        there = builder.bitcast(place, laid.type)
        size = target.get_abi_sizeof(laid.type.pointee)
        cgutils.raw_memcpy(builder, there, laid, target.get_constant(types.intp, size), 1)
        return builder.ptrtoint(there, target.get_value_type(types.int64))

    return types.int64(value, memory), write


def addresses_of(values: Sequence[Value]) -> npt.NDArray[Any]:
    """Where named tuples of one type lie, for compiled code to take up (`lying_at`).

    Args:
        values: what `laid_out` gave; somebody must hold it as long as the addresses are used.
    """
    found = np.empty(len(values), object if config.DISABLE_JIT else np.int64)
    for place, value in enumerate(values):
        found[place] = value if config.DISABLE_JIT else value[0]
    return found


def rows_laid_out(value: Value) -> tuple[Value, npt.NDArray[Any]]:
    """Lays the rows of a named tuple of arrays out, each as a named tuple.

    Args:
        value: the named tuple, of arrays with as many rows, two at least.

    Returns:
        That of the first row, which is to be held as long as the addresses of all are used; and
        these.
    """
    count = len(value[0])
    if config.DISABLE_JIT:
        rows = [type(value)(*(field[k] for field in value)) for k in range(count)]
        return rows[0], addresses_of(rows)
    # Only where their fields lie is different, and that by as much from row to row.
    like, second = (laid_out(type(value)(*(field[k] for field in value))) for k in range(2))
    places = np.arange(count)
    first = like.__dict__["_memory"]
    memory = first + places[:, None] * (second.__dict__["_memory"] - first)
    like.__dict__["_rows"] = memory, value
    return like, memory.ctypes.data + places * memory.strides[0]


def _as_it_is(example: Any, address: Any) -> Any:
    return address


@intrinsic
def _taken_up(context: Any, example: Any, address: Any) -> Any:
    def read(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], arguments[0].type)

    return example(example, types.int64), read


lying_at: Callable[[Value, int], Value] = _as_it_is if config.DISABLE_JIT else _taken_up
"""Compiled: what lies at an address, of the type of an example."""
