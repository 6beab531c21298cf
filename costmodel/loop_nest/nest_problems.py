"""Problems and machines of records as workloads and accelerators that are searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.loop_nest.nest_record_models import (
    HasNestArch,
    HasNestProblem,
    NestProblem,
)
from costmodel.loop_nest.nest_tables import NestMapping, nest_accelerator
from costmodel.loop_nest.record_forms import WITHOUT_EFFECT
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint, HasConstraints
from costmodel.map_space.constraint_reading import read_constraints
from costmodel.map_space.mapping import LevelMapping
from costmodel.map_space.mapping import Mapping as WholeMapping
from costmodel.map_space.meant_entries import meant
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.near_names import nearest
from mapspace.strict_yaml import shown, validate


def read_problem(line: object) -> tuple[Workload, Accelerator]:
    """The workload and the machine of a line with `arch`, `problem` and perhaps `constraints`.

    On the machine every tensor may be kept or not at every level but the outermost, which keeps
    all, unless the constraints say otherwise. Other keys are not read.

    Raises:
        ConfigError: a key that is missing or cannot be read, by its path, or a problem that no map
            space can be laid out of.
    """
    if not isinstance(line, Mapping):
        raise ConfigError(f"expected a mapping with arch and problem, got {shown(line)}.")
    known = ("arch", "problem", "constraints")
    for key in map(str, line):
        close = [] if key in known else nearest(key, known)
        if close and not key.startswith(f"{close[0]}_"):  # `arch_name` is a word of its own
            raise ConfigError(f"{key}: unknown key; did you mean {close[0]}?")
    for key in (WITHOUT_EFFECT.keys() & line.keys()) - {"constraints"}:
        raise ConfigError(f"{key}: {WITHOUT_EFFECT[key]}")
    for key in ("arch", "problem"):
        if key not in line:
            raise ConfigError(f"missing {key}; a line has arch, problem and perhaps constraints.")
    arch = validate(HasNestArch, {"arch": line["arch"]}, "").arch
    problem = validate(HasNestProblem, {"problem": line["problem"]}, "").problem
    entries = validate(HasConstraints, {"constraints": line.get("constraints") or ()}, "")
    workload = workload_of(problem)
    machine = nest_accelerator(arch, of_bits=any(problem.bits_by_tensor))
    read_constraints(
        meant(entries.constraints, workload), workload.dimensions, workload.roles, machine
    )
    return workload, searched_machine(machine, entries.constraints)


def searched_machine(machine: Accelerator, entries: Sequence[Constraint]) -> Accelerator:
    """A machine with bypass searched, under constraints.

    Where these say only what levels keep, the machine's levels say it, which proofs know.
    """
    if not all(entry.kind == "bypass" for entry in entries):
        changes: dict[str, Any] = {"bypass": "searched", "constraints": tuple(entries)}
        return machine.model_copy(update=changes)
    told = {entry.target: {"keep": entry.keep, "bypass": entry.bypass} for entry in entries}
    levels = [level.model_copy(update=told.get(level.name, {})) for level in machine.levels]
    return machine.model_copy(update={"bypass": "searched", "levels": tuple(levels)})


def workload_of(problem: NestProblem) -> Workload:
    """The workload of a record's problem.

    Raises:
        ConfigError: what no map space can be laid out of, such as two outputs.
    """
    outputs = [tensor.name for tensor in problem.tensors if tensor.output]
    if len(outputs) != 1:
        raise ConfigError(
            f"problem.tensors: expected one with output: true, got {', '.join(outputs)}."
        )
    tensors = []
    for tensor in sorted(problem.tensors, key=lambda tensor: tensor.output):
        axes = []
        for axis in tensor.axes:
            low = [c for _, c in axis if c < 0]
            if low:
                raise ConfigError(
                    f"problem.tensors[{tensor.name}].axes: expected coefficients of at least 1, "
                    f"got {low[0]}: mappings of it are evaluated, not searched."
                )
            if axis:
                axes.append({"terms": axis})
        whole = {"name": tensor.name, "axes": axes, "output": tensor.output}
        tensors.append({**whole, "bits": tensor.bits})
    content = {"name": problem.name, "family": "einsum", "dimensions": problem.dims}
    return validate(Workload, {**content, "tensors": tensors}, "problem")


def whole_mapping(workload: Workload, machine: Accelerator, listed: NestMapping) -> WholeMapping:
    """A mapping of which loops above 1 are listed, with all dimensions in every order."""
    names = workload.dimension_names
    levels = []
    for loops, level in zip(listed, machine.levels, strict=True):

        def order(given: list[str]) -> tuple[str, ...]:
            return (*(name for name in names if name not in given), *given)

        fans = level.fanout > 1
        across, axes, heights = loops.across
        levels.append(
            LevelMapping(
                name=loops.level,
                temporal=dict.fromkeys(names, 1) | {name: f for name, f, *_ in loops.temporal},
                order=order([loop[0] for loop in loops.temporal]),
                spatial=dict.fromkeys(names, 1) | across if fans else {},
                spatial_order=order(list(across)) if fans else (),
                spatial_axis=dict.fromkeys(names, "X") | axes if level.width_height[1] > 1 else {},
                spatial_height=heights,
                keep=loops.keep,
            )
        )
    return WholeMapping(tuple(levels), workload.tensor_names)
