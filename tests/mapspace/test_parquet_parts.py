"""Parquet files of a few kilobytes that stand for more than there is room for are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mapspace import parquet_parts
from mapspace.parquet_parts import Parts

TABLE = pa.table({"text": ["ab", "c", "ab", None], "number": [1, 2, 2, 3]})


def written(table: Any, **options: Any) -> Any:
    made = pa.BufferOutputStream()
    pq.write_table(table, made, **options)
    return made.getvalue()


def parts_of(table: Any, **options: Any) -> Parts:
    return Parts(pa.BufferReader(written(table, **options)))


def test_parts_are_read_one_by_one_or_all_together() -> None:
    parts = parts_of(TABLE, row_group_size=3)
    assert parts.schema.equals(TABLE.schema)
    assert parts.read().equals(TABLE)
    assert parts.read(part=1).equals(TABLE.slice(3))
    assert parts.read(["number"], 0).to_pydict() == {"number": [1, 2, 2]}
    assert parts_of(TABLE.slice(0, 0)).read().equals(TABLE.slice(0, 0))


def test_no_more_values_and_letters_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = pa.table({"number": pa.repeat(7, 1000)})
    texts = pa.table({"text": pa.repeat("x" * 100, 100), "other": pa.repeat("y" * 10, 100)})
    for table, most in ((numbers, 8000), (texts, 11_000)):
        monkeypatch.setattr(parquet_parts, "LARGEST_BINARY", most)
        assert parts_of(table).read().equals(table)
        monkeypatch.setattr(parquet_parts, "LARGEST_BINARY", most - 1)
        with pytest.raises(ValueError, match=r"expected at most [\d,]+ bytes in a part"):
            parts_of(table).read()
    # Each part has room, and all together have none.
    monkeypatch.setattr(parquet_parts, "LARGEST_BINARY", 7999)
    split = parts_of(numbers, row_group_size=500)
    assert split.read(part=1).equals(numbers.slice(500))
    with pytest.raises(ValueError, match="bytes in a part"):
        split.read()


def test_other_values_than_numbers_and_texts_are_refused() -> None:
    for values in ([["a"]], [{"a": 1}], [b"a"]):
        with pytest.raises(ValueError, match="the column x has values of another kind"):
            parts_of(pa.table({"x": values}))
