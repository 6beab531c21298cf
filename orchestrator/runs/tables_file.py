"""The tables of a finished run as data: `tables.json` in its folder, which pages can be made of."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, write_atomically
from orchestrator.report.document import LEFT, RIGHT, Table
from orchestrator.runs.ray_runtime import code_version

TABLES_FILE = "tables.json"


def environment() -> dict[str, Any]:
    """What computes here, without naming the machine: version, commit, processors, and when."""
    return {
        **code_version(),
        "processors": os.cpu_count(),
        "processor": _processor(),
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    }


def write_tables(
    folder: Place, command: str, experiment: Mapping[str, Any], tables: Sequence[Table]
) -> None:
    """Writes tables with what made them; a file that has the same ones already stays as it is.

    Args:
        folder: where to.
        command: what makes them, as it is typed.
        experiment: its settings as JSON types.
        tables: with keys of their own.
    """
    path = folder / TABLES_FILE
    shown = {table.key: _data(table) for table in tables}
    said = {"command": command, "experiment": experiment, "tables": shown}
    there = read_json(path, DataError) if path.exists() else {}
    if {**said, "provenance": there.get("provenance")} != there:
        content = {**said, "provenance": environment()}
        write_atomically(path, f"{json.dumps(content, indent=1)}\n".encode())


def read_table(folder: Place, key: str, columns: Sequence[int] = ()) -> Table:
    """One of the tables of a folder.

    Args:
        folder: where `tables.json` lies.
        key: the table's.
        columns: which columns, counted from 1; none: all of them.

    Raises:
        ConfigError: there is no such table or column.
        DataError: the file is missing or damaged.
    """
    tables = read_json(folder / TABLES_FILE, DataError)["tables"]
    if key not in tables:
        raise ConfigError(f"key: expected one of {', '.join(tables)}, got {key!r}.")
    data = tables[key]
    chosen = columns or range(1, len(data["header"]) + 1)
    if not set(chosen) <= set(range(1, len(data["header"]) + 1)):
        raise ConfigError(f"columns: expected 1 to {len(data['header'])}, got {list(chosen)}.")
    rows = [tuple(row[place - 1] for place in chosen) for row in data["rows"]]
    formats = tuple(LEFT if data["left"][place - 1] else RIGHT for place in chosen)
    header = tuple(data["header"][place - 1] for place in chosen)
    return Table(key, data["title"], header, formats, rows)


def origin(folder: Place) -> tuple[str, str]:
    """The command that made the tables of a folder, and what computed them, in words."""
    content = read_json(folder / TABLES_FILE, DataError)
    return str(content["command"]), made_by(content["provenance"])


def made_by(provenance: Mapping[str, Any]) -> str:
    """What computed results, in words: version, commit, day and processors."""
    commit = f" at {str(provenance['commit'])[:10]}" if provenance.get("commit") else ""
    processor = f" ({provenance['processor']})" if provenance.get("processor") else ""
    count = provenance["processors"]
    return (
        f"mapspace {provenance['mapspace']}{commit}, {str(provenance['finished'])[:10]}, "
        f"{count} processor{'' if count == 1 else 's'}{processor}"
    )


def _data(table: Table) -> dict[str, Any]:
    plain = replace(table, header=tuple(name.replace("\n", " ") for name in table.header))
    left = [shown == LEFT for shown in table.formats]
    return {
        "title": plain.title,
        "header": list(plain.header),
        "left": left,
        "rows": plain.cells(),
    }


def _processor() -> str:
    """The kind of processor, as the system calls it."""
    try:
        found = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
    except OSError:
        found = None
    return " ".join(found[1].split()) if found else platform.machine()
