"""Saves the nested state dictionaries of searchers and evaluators, without pickle.

One file holds one state: a NumPy archive with the arrays and, beside them, the rest as JSON.
Vectors of one type lie end to end in one member: a state may have thousands, and each member takes
time.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mapspace.bounded_reading import LARGEST_UNPACKED, read_bytes
from mapspace.errors import ContractError, DataError
from mapspace.storage import Place, place, write_atomically

_ARRAY = "__array__"
_TREE = "tree"


def save_state(path: Place | str, state: Mapping[str, Any]) -> None:
    """Writes a state so that a reader sees the old file or the whole new one.

    Args:
        path: the file to write, a path or a URI; a local one's folder exists.
        state: nested dictionaries (string keys) and lists of arrays, numbers, strings, booleans
            and None. Integers may be of any length (a generator's state has 128 bits).

    Raises:
        ContractError: the state holds something else; the message names where.
        OSError: a local file cannot be written.
        MapspaceError: a remote one cannot.
    """
    packed = _Packed()
    tree = json.dumps(packed.pack(state, "state"))
    arrays = packed.members()
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_TREE: np.asarray(tree)}, **arrays)
    write_atomically(place(path), content.getvalue())


def load_state(path: Place | str) -> dict[str, Any]:
    """Reads what `save_state` wrote.

    Raises:
        DataError: the file is missing or damaged.
        MapspaceError: a remote one cannot be reached.
    """
    try:
        content = read_bytes(place(path))
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such state file.") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if sum(entry.file_size for entry in archive.zip.infolist()) > LARGEST_UNPACKED:
                raise ValueError(f"expected at most {LARGEST_UNPACKED:,} bytes, unpacked")
            arrays = {name: archive[name] for name in archive.files}
        tree = json.loads(str(arrays.pop(_TREE)[()]))
        state = _unpack(tree, arrays)
    except Exception as error:
        raise DataError(f"{path}: the state file is damaged ({error}).") from error
    if not isinstance(state, dict):
        raise DataError(f"{path}: expected a state dictionary, got {type(state).__name__}.")
    return state


class _Packed:
    """The arrays of a state, and where in the archive each of them is."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._vectors: dict[str, list[np.ndarray]] = {}
        self._lengths: dict[str, int] = {}

    def members(self) -> dict[str, np.ndarray]:
        """The members of the archive."""
        vectors = {name: np.concatenate(parts) for name, parts in self._vectors.items()}
        return {**self._arrays, **vectors}

    def pack(self, value: Any, where: str) -> Any:
        """A value as JSON, its arrays put aside."""
        if isinstance(value, np.ndarray):
            return {_ARRAY: self._put(value, where)}
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str) or key == _ARRAY:
                    raise ContractError(f"{where} has the key {key!r}; expected ordinary strings.")
            return {key: self.pack(entry, f"{where}.{key}") for key, entry in value.items()}
        if isinstance(value, list):
            return [self.pack(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
        raise ContractError(f"{where} is a {type(value).__name__}, which a state cannot hold.")

    def _put(self, array: np.ndarray, where: str) -> Any:
        if array.dtype.hasobject:
            raise ContractError(f"{where} is an array of objects, which a state cannot hold.")
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            name = f"a{len(self._arrays)}"
            self._arrays[name] = array
            return name
        name = f"v{array.dtype.str[1:]}" if array.dtype.isnative else f"v{array.dtype.str}"
        start = self._lengths.get(name, 0)
        self._vectors.setdefault(name, []).append(array)
        self._lengths[name] = start + len(array)
        return [name, start, start + len(array)]


def _unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            place = value[_ARRAY]
            if isinstance(place, str):
                return arrays[place]
            name, start, stop = place
            vector = arrays[name]
            if not 0 <= start <= stop <= len(vector):
                raise ValueError(f"entries {start} to {stop} of {len(vector)}")
            return vector[start:stop]
        return {key: _unpack(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list):
        return [_unpack(entry, arrays) for entry in value]
    return value


def encode_array(array: np.ndarray) -> str:
    """An array as text, for a trial's configuration or result: `dtype:shape:compressed bytes`."""
    shape = "x".join(str(size) for size in array.shape)
    body = base64.b85encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 1)).decode()
    return f"{array.dtype.str}:{shape}:{body}"


def decode_array(text: str) -> np.ndarray:
    """The array that `encode_array` was given, writable.

    Raises:
        DataError: the text is not such an array.
    """
    try:
        dtype, shape, body = text.split(":", 2)
        sizes = [int(size) for size in shape.split("x")] if shape else []
        raw = zlib.decompress(base64.b85decode(body))
        return np.frombuffer(raw, dtype=np.dtype(dtype)).reshape(sizes).copy()
    except (ValueError, TypeError, zlib.error) as error:
        raise DataError(f"An encoded array is damaged ({error}).") from error
