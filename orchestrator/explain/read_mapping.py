"""One mapping of a file of records, with its map space, its loops and its costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.costs import STATUS_OK, Costs, Detail, explain_status
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_coding import nest_code
from costmodel.loop_nest.nest_loops import Nest, nest_of
from costmodel.loop_nest.nest_problems import workload_of
from costmodel.loop_nest.nest_record_models import (
    HasNestArch,
    HasNestMapping,
    HasNestProblem,
    is_imperfect,
)
from costmodel.loop_nest.nest_records import is_nest_record
from costmodel.loop_nest.nest_tables import NestMapping, nest_accelerator
from costmodel.loop_nest.nest_writing import arch_of
from costmodel.loop_nest.record_forms import as_nest, whole_records
from costmodel.loop_nest.records import read_mapping as read_levels
from costmodel.machines.accelerators import Accelerator, accelerator, accelerator_names
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import Mapping as LoopNest
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from costmodel.space import Codes
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate
from orchestrator.answers.limits import Limit, limits_of
from orchestrator.answers.mapping_figure import DrawnMapping
from orchestrator.records.evaluate_records import numbered_record
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.schemas.costs import CostsOfRecord


@dataclass(frozen=True)
class ReadMapping:
    """A feasible mapping of a record.

    Attributes:
        space: its map space. Of a whole nest levels hold what the mapping has them hold, unless the
            record says operation and machine by name: else it does not say what they may hold.
        code: `[D]` it in the space.
        nest: its loops.
        evaluated: its costs with their detail, `[1]`.
        clocked: whether the machine's clock is known, which records of whole nests do not say.
    """

    space: MapSpace
    code: Codes
    nest: Nest
    evaluated: Costs
    clocked: bool

    @property
    def workload(self) -> Workload:
        """The operation."""
        return self.space.workload

    @property
    def machine(self) -> Accelerator:
        """The machine."""
        return self.space.accelerator

    @property
    def mapping(self) -> LoopNest:
        """The loop nest; `str()` prints it."""
        return self.space.describe(self.code)

    @property
    def detail(self) -> Detail:
        """Counts and energies, `[1, L, T]`."""
        assert self.evaluated.detail is not None  # it was asked for
        return self.evaluated.detail

    @property
    def energy_pj(self) -> float:
        """Its energy, pJ."""
        return float(self.evaluated.energy_pj[0])

    @property
    def cycles(self) -> float:
        """Its latency."""
        return float(self.evaluated.latency_cycles[0])

    @property
    def costs(self) -> CostsOfRecord:
        """What it costs, in the units that JSON has; in seconds only where the clock is known."""
        found = MappingCosts(self.energy_pj, self.cycles, self.machine.clock_ghz).to_dict()
        if self.clocked:
            return {**found}
        return {
            "energy_pj": found["energy_pj"],
            "latency_cycles": found["latency_cycles"],
            "edp": found["edp"],
        }

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Every bound of the machine with what is used of it."""
        return limits_of(self.space, self.code, self.detail, self.cycles)

    @property
    def drawn(self) -> DrawnMapping:
        """What is drawn of it."""
        machine = self.space.in_order(self.code)[0].accelerator
        return DrawnMapping(
            self.heading, self.workload, machine, self.mapping, self.detail, self.limits,
            self.cycles,
        )  # fmt: skip

    @property
    def heading(self) -> str:
        """The problem."""
        return f"{self.workload.name} on {self.machine.name}"


def read_file(source: str | Path, number: int | None = None) -> ReadMapping:
    """Reads a mapping of a file.

    Args:
        source: mapping records, of any form.
        number: which of them, from 1; None: the first.

    Raises:
        ConfigError: there is none, it cannot be read, or it is not feasible; the file is named.
    """
    path = Path(source)
    record = numbered_record(path, number)
    try:
        return read_mapping(record)
    except ConfigError as error:
        raise ConfigError(f"{path}: record {number or 1}: {error}") from None


def read_mapping(record: Mapping[str, Any]) -> ReadMapping:
    """Reads a mapping.

    Args:
        record: of any form.

    Raises:
        ConfigError: it cannot be read, is of no map space, or is not feasible.
    """
    whole = whole_record(record)
    clocked = True
    if not is_nest_record(whole):
        space, code = read_levels(whole)
    elif {"workload", "accelerator"} <= record.keys():
        machine = accelerator(record["accelerator"])
        space, code = _of_nest(whole, workload(record["workload"]), machine)
    else:
        work = workload_of(validate(HasNestProblem, whole, "").problem)
        machine, clocked = _machine_of(record, whole, work)
        space, code = _of_nest(whole, work, machine)
    return at_code(space, code, record, clocked=clocked)


def at_code(
    space: MapSpace, code: Codes, record: Mapping[str, Any], *, clocked: bool = True
) -> ReadMapping:
    """A mapping of a map space.

    Args:
        space: the space.
        code: `[D]` the mapping.
        record: it as a record.
        clocked: whether the machine's clock is known.

    Raises:
        ConfigError: it is not feasible.
    """
    found = LoopNestModel().evaluate(space, code[None], detail=True)
    if found.status[0] != STATUS_OK:
        names = tuple(level.name for level in space.accelerator.levels)
        why = explain_status(
            int(found.status[0]), int(found.excess[0]), names, space.workload.room_unit
        )
        raise ConfigError(f"mapping: not feasible: {why}.")
    return ReadMapping(space, code, nest_of(as_nest(record)), found, clocked)


def check_same_operation(first: Workload, second: Workload) -> None:
    """Refuses mappings of different operations.

    Raises:
        ConfigError: says in which sizes or tensors they differ.
    """
    one, two = dict(first.dimensions), dict(second.dimensions)
    if one != two:
        names = sorted(name for name in {*one, *two} if one.get(name) != two.get(name))
        what = ", ".join(f"{name} = {one.get(name)} and {two.get(name)}" for name in names)
        raise ConfigError(f"expected two mappings of one operation, got {what}.")
    if set(first.tensor_names) != set(second.tensor_names):
        raise ConfigError(
            "expected two mappings of one operation, got tensors "
            f"{', '.join(first.tensor_names)} and {', '.join(second.tensor_names)}."
        )


def whole_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record in full; messages without the index that a list of records has."""
    try:
        return whole_records([record])[0]
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("record 0: ")) from None


def _machine_of(
    record: Mapping[str, Any], whole: dict[str, Any], work: Workload
) -> tuple[Accelerator, bool]:
    """The machine of a whole nest, holding what its mapping holds, and whether its clock is known.

    A record that says a machine in full has no clock, unless it is a preset's.
    """
    known, name = None, record.get("arch_name")
    if "accelerator" in record:
        known = accelerator(record["accelerator"])
    elif name in accelerator_names() and arch_of(accelerator(name), work) == whole["arch"]:
        known = accelerator(name)
    arch = validate(HasNestArch, whole, "").arch
    machine = nest_accelerator(arch, of_bits=any(work.bits_by_tensor))
    machine = _holding(machine, validate(HasNestMapping, whole, "").mapping, work)
    names = {"name": name or machine.name} if known is None else {"name": known.name}
    clock = {} if known is None else {"clock_ghz": known.clock_ghz}
    return machine.model_copy(update={**names, **clock}), known is not None


def _of_nest(
    whole: Mapping[str, Any], work: Workload, machine: Accelerator
) -> tuple[MapSpace, Codes]:
    """The map space and the code of a whole nest."""
    imperfect = is_imperfect(validate(HasNestMapping, whole, "").mapping)
    space = MapSpace(work, machine, factors="imperfect" if imperfect else None)
    try:
        return space, nest_code(space, whole["mapping"])
    except ConfigError:
        if not imperfect:
            raise
        raise ConfigError(
            "mapping: expected remainders of loops in time, or below the innermost buffer: others "
            "are evaluated, not searched, so that no move from them is known."
        ) from None


def _holding(machine: Accelerator, mapping: NestMapping, work: Workload) -> Accelerator:
    """The machine with levels that hold what a mapping has them hold, and nothing else.

    And with dimensions along both axes where the mapping has any.
    """
    levels = []
    for level, loops in zip(machine.levels, mapping, strict=True):
        others = tuple(name for name in work.tensor_names if name not in loops.keep)
        said = {"keep": loops.keep, "bypass": others}
        axes = {"axes": "both"} if loops.across[2] else {}
        levels.append(level.model_copy(update={**said, **axes}))
    return machine.model_copy(update={"bypass": "searched", "levels": tuple(levels)})
