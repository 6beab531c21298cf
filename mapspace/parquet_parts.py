"""Parts of Parquet files that somebody else may have written, in bounded memory.

What is equal is written once: a file of ten kilobytes may stand for more than memory holds. Texts
are read as they are written, and written out where there is room for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mapspace.bounded_reading import LARGEST_BINARY

VALUE_BYTES = 8
"""What a number takes at most."""


class Parts:
    """The parts (row groups) of an opened Parquet file.

    Attributes:
        schema: the columns, as they are written.
        metadata: what the file says of its parts.
    """

    def __init__(self, source: Any, *, checksums: bool = False) -> None:
        """Reads what describes the file.

        Args:
            source: the opened file.
            checksums: whether those of pages are looked at.

        Raises:
            ValueError: it is no Parquet file, or has columns of other kinds than numbers, texts
                and lists of numbers.
            OSError: it cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        plain = pq.ParquetFile(source)
        self.schema, self.metadata = plain.schema_arrow, plain.metadata
        texts = []
        for field in self.schema:
            kind = field.type.value_type if pa.types.is_list(field.type) else field.type
            if kind == pa.string() and kind is field.type:
                texts.append(field.name)
            elif not pa.types.is_primitive(kind):
                raise ValueError(f"the column {field.name} has values of another kind: {kind}")
        self._file = pq.ParquetFile(
            source,
            metadata=self.metadata,
            read_dictionary=texts,
            page_checksum_verification=checksums,
        )

    def read(self, names: Sequence[str] | None = None, part: int | None = None) -> Any:
        """Columns, all of them unless some are named, of one part or all together.

        Raises:
            ValueError: they stand for more than `LARGEST_BINARY` bytes, or are damaged.
            OSError: they cannot be read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = range(self.metadata.num_row_groups) if part is None else [part]
        groups = [self.metadata.row_group(place) for place in parts]
        numbers = sum(
            group.column(place).num_values for group in groups for place in range(group.num_columns)
        )
        length = max(numbers * VALUE_BYTES, sum(group.total_byte_size for group in groups))
        if length <= LARGEST_BINARY:
            chosen = None if names is None else list(names)
            # In no thread of Arrow's: one that lets go of Python's bytes while the interpreter ends
            # aborts the process (apache/arrow#34314).
            found = self._file.read_row_groups(list(parts), chosen, use_threads=False)
            length = 0
            for column in found.itercolumns():
                for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
                    lengths = pc.take(pc.binary_length(chunk.dictionary), chunk.indices)
                    length += pc.sum(lengths).as_py() or 0
        if length > LARGEST_BINARY:
            raise ValueError(f"expected at most {LARGEST_BINARY:,} bytes in a part")
        return found.cast(pa.schema([self.schema.field(name) for name in found.column_names]))
