"""`mapspace export`: mappings, workloads and machines in the words of other tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from costmodel.loop_nest.nest_c import c_text
from costmodel.loop_nest.nest_loops import Nest, nest_of
from costmodel.loop_nest.nest_texts import map_text, pseudo_text
from costmodel.loop_nest.record_forms import as_nest
from costmodel.maestro.dataflow_layers import layer_of_workload
from costmodel.maestro.dataflow_records import mapping_text
from costmodel.maestro.dataflow_text import network_lines
from costmodel.problems.workloads import workload
from costmodel.timeloop.exporting import to_timeloop
from costmodel.timeloop.writing import files_text, of_version_4
from mapspace.errors import ArgumentError
from mapspace.strict_yaml import load_yaml
from orchestrator.records.evaluate_records import numbered_record
from orchestrator.records.timeloop_files import read_files

Form = Literal["timeloop", "map", "pseudo", "c", "maestro"]

_TEXTS: Mapping[str, Callable[[Nest], str]] = {"map": map_text, "pseudo": pseudo_text, "c": c_text}
_RECORDS = (".jsonl", ".json", ".gz")


def export(
    source: str, form: Form, *, accelerator: str | None, number: int | None, lenient: bool
) -> str:
    """A mapping record, or a workload and its machine, as text.

    What cannot be said is listed on standard error where it is left out.

    Args:
        source: a file of mapping records, or a workload as `search` takes it.
        form: Timeloop's input files, its map, pseudo-code, a C function, or MAESTRO's file.
        accelerator: the machine of a workload.
        number: which record of the file, from 1.
        lenient: whether to leave out what Timeloop's files have no place for.

    Raises:
        ConfigError: something that cannot be read or said; a form that needs a mapping.
    """
    record = _record(source, number)
    if record is not None and accelerator is not None:
        raise ArgumentError("accelerator", f" is for a workload; the record {source} has its own.")
    if form == "maestro":
        return _maestro(source, record, accelerator)
    if form != "timeloop":
        if record is None:
            raise ArgumentError("as", f" {form} is of a mapping: give a record, not {source}.")
        return _TEXTS[form](nest_of(as_nest(record)))
    written = to_timeloop(record or source, accelerator, lenient=lenient)
    for what in written.left_out:
        print(f"left out: {what}", file=sys.stderr)
    return written.text


def export_timeloop(files: Sequence[str | Path], form: Form, *, lenient: bool) -> str:
    """The mapping, or all, of Timeloop's input files as text.

    Raises:
        ConfigError: files that cannot be read, or say what is not modelled.
    """
    if form == "maestro":
        raise ArgumentError(
            "as", " maestro is of a cluster mapping or a workload, not of Timeloop's."
        )
    read = read_files(files, lenient=lenient)
    if form == "timeloop":
        for what in of_version_4(read.record):
            print(what, file=sys.stderr)
        return files_text(read.record, read.constraints)
    return _TEXTS[form](nest_of(read.mapped()))


def _maestro(source: str, record: dict[str, Any] | None, accelerator: str | None) -> str:
    """A cluster mapping with its dataflow, or a workload's layer without one."""
    if record is not None:
        if "l3_tile" not in record:
            raise ArgumentError(
                "as",
                f" maestro is of a cluster mapping, with l3_tile; {source} holds loop nests.",
            )
        return mapping_text(record)
    if accelerator is not None:
        raise ArgumentError("accelerator", ": MAESTRO's layers say nothing of a machine.")
    layer = layer_of_workload(workload(source))
    return network_lines("N", (layer,))


def _record(source: str, number: int | None) -> dict[str, Any] | None:
    """A record of a file; None where the source is a workload."""
    path = Path(source)
    of_records = path.suffix in _RECORDS or (
        path.suffix in (".yaml", ".yml") and "mapping" in load_yaml(path)
    )
    if not of_records:
        if number is not None:
            raise ArgumentError("record", f" is for a file of records, and {source} is none.")
        return None
    return numbered_record(path, number)
