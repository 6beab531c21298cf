"""Columns of Arrow from values in memory, as `pyarrow.array` makes them.

That looks for pandas first, and to import it takes longer than to read thousands of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

# Bytes of texts that offsets of 32 bits reach.
MOST_BYTES = 2**31 - 1


def column(values: Sequence[Any], kind: Any) -> Any:
    """An Arrow array of texts, numbers or truth values.

    Args:
        values: `[N]`; None for what is not there.
        kind: `pyarrow.string()`, `int64()`, `float64()` or `bool_()`.
    """
    import pyarrow as pa

    there = np.array([value is not None for value in values], bool)
    full = bool(there.all())
    valid = None if full else _bits(there)
    if kind == pa.string():
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] > MOST_BYTES:
            return pa.array(values, kind)
        buffers = [pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    else:
        known = values if full else [0 if value is None else value for value in values]
        types = {pa.int64(): np.int64, pa.float64(): np.float64, pa.bool_(): np.bool_}
        found: npt.NDArray[Any] = np.array(known, types[kind])
        buffers = [_bits(found) if kind == pa.bool_() else pa.py_buffer(found)]
    return pa.Array.from_buffers(kind, len(there), [valid, *buffers], int((~there).sum()))


def numbers(values: npt.NDArray[Any]) -> Any:
    """An Arrow array of whole numbers or floats, all of them there."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype)
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer], 0)


def repeated(texts: Sequence[str], times: Sequence[int]) -> Any:
    """An Arrow array of texts, each so many times in a row."""
    import pyarrow as pa

    parts = [text.encode() for text in texts]
    lengths = np.repeat(np.array([len(part) for part in parts], np.int64), times)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    if ends[-1] > MOST_BYTES:
        return pa.array(np.repeat(np.array(texts, dtype=object), times), pa.string())
    content = b"".join(part * count for part, count in zip(parts, times, strict=True))
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers, 0)


def _bits(flags: npt.NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(flags, bitorder="little"))
