"""Workloads, machines and mapping records as Timeloop's input files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costmodel.loop_nest.nest_writing import arch_of, problem_record
from costmodel.loop_nest.record_forms import as_nest, is_record
from costmodel.machines.accelerators import AcceleratorSource, accelerator
from costmodel.problems.workloads import WorkloadSource, workload
from costmodel.timeloop.constraint_writing import written_constraints
from costmodel.timeloop.writing import files_text, no_place, of_version_4
from mapspace.arguments import checked


class TimeloopOutput(NamedTuple):
    """One file of Timeloop's."""

    text: str
    """YAML of version 0.3: architecture, ERT, problem, and mapping or constraints."""
    left_out: tuple[str, ...]
    """What Timeloop's files have no place for: a clock, and more where that was asked for."""


@checked
def to_timeloop(
    source: WorkloadSource | Mapping[str, Any],
    machine: AcceleratorSource | None = None,
    *,
    lenient: bool = False,
) -> TimeloopOutput:
    """Writes what `timeloop-model` or `timeloop-mapper` reads; `from_timeloop` reads it back.

    Args:
        source: a mapping record, which says all itself, or a workload as in `search`.
        machine: the accelerator of a workload, as in `search`; None: `mm256`. Its rules become
            constraints of the map space.
        lenient: whether to leave out and list what Timeloop's files have no place for, instead of
            refusing it.

    Raises:
        ConfigError: a record, workload or machine that cannot be read, or what cannot be said.
    """
    left_out: list[str] | None = [] if lenient else None
    if is_record(source):
        assert isinstance(source, Mapping)
        nest = as_nest(source)
        text = files_text(nest, left_out=left_out)
        return TimeloopOutput(text, (*(left_out or ()), *of_version_4(nest)))
    work, device = workload(source), accelerator("mm256" if machine is None else machine)
    entries = written_constraints(work, device, left_out)
    if any(level.banks is not None for level in device.levels):
        no_place(f"{device.name}.levels: banks", left_out)
        levels = [level.model_copy(update={"banks": None}) for level in device.levels]
        device = device.model_copy(update={"levels": tuple(levels)})
    record = {"problem": problem_record(work), "arch": arch_of(device, work)}
    text = files_text(record, entries, left_out=left_out)
    # It changes no count, and Timeloop has none.
    clock = [f"{device.name}.clock_ghz: {device.clock_ghz:g}"] if device.clock_ghz != 1 else []
    return TimeloopOutput(text, (*(left_out or ()), *clock, *of_version_4(record)))
