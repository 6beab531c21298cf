"""Whole map spaces under a mapper's constraints, as Timeloop's exhaustive mapper counted them.

`WholeSpace` goes through every mapping of any small problem: `space_of_record` makes one of a
record, `WholeSpace.of(workload, accelerator)` of a workload and a machine with rules of its own.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

from paths import GOLDEN

from costmodel.loop_nest.constraint_reading import read_constraints
from costmodel.loop_nest.constraints import Constraints
from costmodel.loop_nest.enumeration import WholeSpace
from costmodel.loop_nest.nest_record_models import NestArch, NestProblem
from costmodel.loop_nest.nest_tables import nest_accelerator

Record = dict[str, Any]


def golden(name: str) -> list[Record]:
    """The records of `mapspaces` (40 whole spaces) or of `constraints` (300 sizes of spaces)."""
    with gzip.open(GOLDEN / "timeloop-mapspaces" / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def rules_of_record(record: Record) -> Constraints:
    """What a record's constraints leave."""
    tensors = [tensor["name"] for tensor in record["problem"]["tensors"]]
    machine = nest_accelerator(NestArch.model_validate(record["arch"]))
    return read_constraints(record.get("constraints"), record["problem"]["dims"], tensors, machine)


def space_of_record(record: Record) -> WholeSpace:
    """Every mapping that a record's constraints leave."""
    machine = nest_accelerator(NestArch.model_validate(record["arch"]))
    problem = NestProblem.model_validate(record["problem"])
    return WholeSpace(problem, machine, rules_of_record(record))
