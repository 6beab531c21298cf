"""States survive a file exactly, and what a file cannot hold is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mapspace.errors import ContractError, DataError
from orchestrator.runs.checkpoints import decode_array, encode_array, load_state, save_state

DTYPES = st.sampled_from(["int32", "int64", "float64", "float32", "bool", "uint8"])
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**130), 2**130)
    | st.floats(allow_nan=False)
    | st.text()
)
NAMES = st.text(min_size=1).filter(lambda name: name != "__array__")
STATES = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS | ARRAYS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


@given(STATES)
def test_any_state_survives(tmp_path_factory: pytest.TempPathFactory, state: Any) -> None:
    path = tmp_path_factory.mktemp("state") / "a.npz"
    save_state(path, state)
    assert equal(load_state(path), state)


def test_a_generator_continues(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rng.random(5)
    save_state(tmp_path / "g", {"rng": rng.bit_generator.state})
    expected = rng.random(4)
    other = np.random.default_rng(0)
    other.bit_generator.state = load_state(tmp_path / "g")["rng"]
    assert np.array_equal(other.random(4), expected)


def test_numpy_scalars_become_plain(tmp_path: Path) -> None:
    save_state(tmp_path / "s", {"a": np.float64(math.inf), "b": np.int32(3), "c": np.bool_(True)})
    assert load_state(tmp_path / "s") == {"a": math.inf, "b": 3, "c": True}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": {"b": {1, 2}}}, "state.a.b is a set"),
        ({"a": [0, (1, 2)]}, "state.a[1] is a tuple"),
        ({"a": np.array([None])}, "state.a is an array of objects"),
        ({"a": {3: 1}}, "state.a has the key 3"),
        ({"__array__": 1}, "state has the key '__array__'"),
    ],
)
def test_what_cannot_be_held_is_named(tmp_path: Path, value: Any, where: str) -> None:
    with pytest.raises(ContractError, match=where.replace("[", r"\[").replace("]", r"\]")):
        save_state(tmp_path / "s", value)
    assert not (tmp_path / "s").exists()


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    with pytest.raises(DataError, match=r"s\.npz: there is no such"):
        load_state(path)
    save_state(path, {"a": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"s\.npz: the state file is damaged"):
        load_state(path)


@given(ARRAYS)
def test_arrays_survive_as_text(array: np.ndarray) -> None:
    assert equal(decode_array(encode_array(array)), array)


def test_damaged_text_is_refused() -> None:
    text = encode_array(np.arange(100))
    with pytest.raises(DataError, match="damaged"):
        decode_array(text[:-7])


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, tree=np.asarray("{}"), a0=np.array([Path("x")], dtype=object))
    with pytest.raises(DataError, match=r"damaged \(Object arrays cannot be loaded"):
        load_state(path)
