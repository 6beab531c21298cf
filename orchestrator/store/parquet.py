"""Rows in Parquet files: sorted by question, so that those of one are found by its row groups.

Pages have checksums of their own. What describes them, at the end of the file, has none, and Arrow
reads a damaged one without a word or ends the process: its hash is a part of the file's name.
"""

from __future__ import annotations

import functools
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mapspace.arrow_columns import column
from mapspace.bounded_reading import LARGEST_FILE
from mapspace.errors import DataError
from mapspace.parquet_parts import Parts
from mapspace.storage import has_gone, opened
from orchestrator.store.rows import COLUMNS, Row, checked_row, content_id

if TYPE_CHECKING:
    from mapspace.storage import Place

# Rows that are read to find one.
ROW_GROUP = 8192
# A file's last bytes: how long what describes it is, and Parquet's mark.
END_BYTES = 8


def schema() -> Any:
    """The columns of a Parquet file: the row's id, then those of a row."""
    import pyarrow as pa

    kinds = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}

    def kind_of(name: str) -> Any:
        text = str(Row.model_fields[name].annotation)
        return next((kinds[kind] for kind in kinds if kind.__name__ in text), pa.string())

    return pa.schema([("id", pa.int64()), *((name, kind_of(name)) for name in COLUMNS)])


def parquet_bytes(rows: Iterable[Row]) -> bytes:
    """A Parquet file of rows."""
    import pyarrow as pa

    listed = [{"id": row.id, **row.model_dump()} for row in rows]
    columns = [column([row[field.name] for row in listed], field.type) for field in schema()]
    return table_bytes(pa.Table.from_arrays(columns, schema=schema()))


def table_bytes(table: Any) -> bytes:
    """A Parquet file of a table of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pa.BufferOutputStream()
    pq.write_table(
        table.sort_by([("question", "ascending"), ("id", "ascending")]),
        content,
        compression="zstd",
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )
    found: bytes = content.getvalue().to_pybytes()
    return found


def new_name(content: bytes) -> str:
    """A name for a Parquet file that nobody else gives, and by which its end is checked."""
    import pyarrow as pa

    return f"{uuid.uuid4().hex}-{content_id(_description(pa.BufferReader(content)))}.parquet"


def check_description(file: Place, source: Any) -> None:
    """Holds what describes a Parquet file's content against the file's name.

    Args:
        file: the file; one whose name has no hash, of an earlier version, is not checked.
        source: the same, opened.

    Raises:
        DataError: it is damaged; the message names it.
    """
    _, dash, told = file.name.removesuffix(".parquet").partition("-")
    if dash and content_id(_description(source)) != told:
        raise DataError(f"{file}: the file is damaged (its end is not what its name says).")


def _description(source: Any) -> bytes:
    """The end of an opened Parquet file, which says where everything else is."""
    size = source.size()
    source.seek(max(0, size - END_BYTES))
    # More than any says of itself is what a damaged file does.
    length = min(int.from_bytes(source.read(4), "little"), LARGEST_FILE)
    begin = max(0, size - END_BYTES - length)
    source.seek(begin)
    found: bytes = source.read(size - begin)
    return found


def rows_in(file: Place, questions: Sequence[str]) -> Iterator[Row]:
    """The rows of a Parquet file that answer one of some questions, which are sorted.

    Raises:
        FileNotFoundError: it is not there any more.
        DataError: it is damaged, or another file; the message names it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = column(questions, pa.string())
    for table in row_groups(file, questions):
        yield from _checked_rows(file, table.filter(pc.is_in(table["question"], value_set=wanted)))


def rows_with(file: Place, equal: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a Parquet file whose columns have these texts.

    Raises:
        FileNotFoundError: it is not there any more.
        DataError: it is damaged, or another file; the message names it.
    """
    for table in row_groups(file, equal=equal):
        yield from _checked_rows(file, table.filter(_have(table, equal)))


def row_groups(
    file: Place, questions: Sequence[str] | None = None, equal: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """The tables of a Parquet file, part by part.

    Args:
        file: the file.
        questions: sorted; parts that answer none of them are left out. None: all parts.
        equal: texts of columns; parts without a row that has all of them are left out.

    Raises:
        FileNotFoundError: it is not there any more.
        DataError: it is damaged, or another file; the message names it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    place_of_questions = COLUMNS.index("question") + 1
    try:
        with opened(file) as source:
            check_description(file, source)
            parquet = Parts(source, checksums=True)
            if parquet.schema.names != schema().names:
                raise DataError(f"{file}: expected the columns of a store, found other ones.")
            for part in range(parquet.metadata.num_row_groups):
                group = parquet.metadata.row_group(part)
                if group.num_rows > ROW_GROUP:
                    raise DataError(f"{file}: expected at most {ROW_GROUP:,} rows in a part.")
                if questions is not None:
                    bounds = group.column(place_of_questions).statistics
                    place = bisect_left(questions, bounds.min)
                    if place == len(questions) or questions[place] > bounds.max:
                        continue
                    asked = column(questions, pa.string())
                    column_of = parquet.read(["question"], part)
                    if not pc.any(pc.is_in(column_of["question"], value_set=asked)).as_py():
                        continue
                if equal is not None:
                    # What makes the answers again is much the most.
                    few = parquet.read([*equal], part)
                    if not pc.any(_have(few, equal)).as_py():
                        continue
                yield parquet.read(part=part).cast(schema())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        if isinstance(error, DataError):
            raise
        if has_gone(file, error):
            raise FileNotFoundError(str(file)) from error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{file}: the file is damaged ({reason.rstrip('.')}).") from error


def _checked_rows(file: Place, table: Any) -> Iterator[Row]:
    """The rows of a table, each held against its id.

    Raises:
        DataError: one is damaged.
    """
    for values in table.to_pylist():
        yield checked_row(values, values.pop("id"), str(file))


def _have(table: Any, equal: Mapping[str, str]) -> Any:
    """Which rows of a table have some texts in their columns."""
    import pyarrow.compute as pc

    masks = [pc.equal(table[name], text) for name, text in equal.items()]
    return functools.reduce(pc.and_, masks)
