"""Arrow columns made without pandas: the very arrays that pyarrow makes itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from mapspace import arrow_columns
from mapspace.arrow_columns import column, numbers, repeated


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100])
def test_columns_are_those_of_pyarrow(length: int, gaps: bool) -> None:
    rng = np.random.default_rng(length)
    for kind, values in (
        (pa.string(), [rng.choice(["", "a", "µs", "10⁻³ \0"]).item() for _ in range(length)]),
        (pa.int64(), rng.integers(-(2**62), 2**62, length).tolist()),
        (pa.float64(), rng.choice([0.0, -1.5, np.inf, 5e-324], length).tolist()),
        (pa.bool_(), (rng.random(length) < 0.5).tolist()),
    ):
        holes = rng.random(length) < 0.3
        told = [None if gaps and hole else value for value, hole in zip(values, holes, strict=True)]
        made = column(told, kind)
        made.validate(full=True)
        assert made.equals(pa.array(told, kind))


def test_numbers_and_repeated_texts_are_those_of_pyarrow() -> None:
    for values in (np.arange(5), np.linspace(0, 1, 7)[::2], np.empty(0)):
        assert numbers(values).equals(pa.array(values))
    texts, times = ["left", "", "µ", "right"], [2, 3, 0, 4]
    made = repeated(texts, times)
    made.validate(full=True)
    assert made.equals(pa.array(np.repeat(np.array(texts, object), times), pa.string()))
    assert repeated([], []).equals(pa.array([], pa.string()))


def test_more_text_than_an_array_holds_is_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.iinfo(np.int32).max == arrow_columns.MOST_BYTES
    monkeypatch.setattr(arrow_columns, "MOST_BYTES", 3)
    assert column(["ab", "cd"], pa.string()).to_pylist() == ["ab", "cd"]
    assert repeated(["ab"], [2]).to_pylist() == ["ab", "ab"]


def test_a_store_is_written_and_read_without_pandas() -> None:
    """Which takes longer to import than to read thousands of rows."""
    code = """
import sys
import tempfile
from pathlib import Path
from orchestrator.store.folder import MANY, Store
from orchestrator.store.rows import Row
store = Store(Path(tempfile.mkdtemp()))
names = dict.fromkeys(Row.model_fields, "x") | {"kind": "run", "certificate": None}
names = {name: text for name, text in names.items() if Row.model_fields[name].is_required()}
rows = [
    Row(**{**names, "question": f"{n:032x}", "address": f"{n:032x}", "stored": 1.0 * n})
    for n in range(MANY)
]
assert store.add(rows)
assert list((store.place / "rows").glob("*.parquet"))
assert len(store.rows({row.question for row in rows[:9]})) == 9
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
