"""Whole map spaces under a mapper's constraints, as Timeloop's exhaustive mapper counted them.

`WholeSpace` goes through every mapping of any small problem: `space_of_record` makes one of a
record, `WholeSpace.of(workload, accelerator)` of a workload and a machine with rules of its own.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
from paths import GOLDEN

from costmodel import MapSpace
from costmodel.loop_nest.enumeration import WholeSpace
from costmodel.loop_nest.nest_record_models import NestArch, NestProblem
from costmodel.loop_nest.nest_tables import nest_accelerator
from costmodel.map_space.constraint_reading import read_constraints
from costmodel.map_space.constraints import Constraints

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


def random_constraints(
    rng: np.random.Generator, space: MapSpace, share: float = 0.5
) -> list[dict[str, Any]]:
    """Entries that a mapper may be given for a workload on a machine; they may leave nothing."""
    names, tensors = list(space.workload.dimensions), list(space.workload.tensor_names)
    entries: list[dict[str, Any]] = []
    for position, level in enumerate(space.accelerator.levels):
        for kind in ("temporal", "spatial"):
            if kind == "spatial" and level.fanout == 1:
                continue
            entry: dict[str, Any] = {"target": level.name, "type": kind}
            if rng.random() < share:
                entry["factors"] = " ".join(
                    f"{name}{rng.choice(['=1', '<=2', '<=2', '<=4', '>=1', '=2'])}"
                    for name in names
                    if rng.random() < 0.4
                )
            if rng.random() < share:
                named = rng.permutation(names)[: rng.integers(0, len(names) + 1)].tolist()
                named.insert(int(rng.integers(0, len(named) + 1)), "_")
                entry["permutation"] = " ".join(named)
            if kind == "spatial" and rng.random() < share:
                entry["split"] = int(rng.integers(0, len(names) + 1))
            entries.append(entry)
        if rng.random() < share and (position > 0 or rng.random() < 0.2):
            told = rng.choice(["keep", "bypass", ""], len(tensors), p=[0.5, 0.2, 0.3])
            entries.append(
                {"target": level.name, "type": "bypass"}
                | {key: [t for t, k in zip(tensors, told, strict=True) if k == key]
                   for key in ("keep", "bypass")}
            )  # fmt: skip
    if rng.random() < 0.3:
        name = space.accelerator.level_names[-1]
        entries.append(
            {"target": name, "type": "parallelism", "min": float(rng.choice([0.3, 0.5]))}
        )
    return entries
