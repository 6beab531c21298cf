"""Which mappings Timeloop refuses, and for which level, against the feasibility of this model.

Of Timeloop's 1,200 random mappings those are judged whose machine and mapping mean the same here:

* A fan-out here has a width and a height of its own; Timeloop limits their products from the
  outermost level on, so that one fan-out may be exceeded where others are not used. Where a
  machine has several, only mappings that exceed none of them by itself are compared.
* A row of children (height 1) has no second axis here: mappings that use one are left out.
* A least utilisation of a buffer and an output that lies at a sum of dimensions are not known here.

Timeloop looks at the multipliers' mesh first and then at buffers from the innermost out, this model
at all fan-outs and then at buffers from the outermost in. So the blamed level is compared on its
own: the buffers inside it fit, and it overflows by as many words as Timeloop says.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from collections import Counter
from typing import Any

from paths import GOLDEN

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.problems.affine import Workload

PATH = GOLDEN / "timeloop-validity" / "validity.jsonl.gz"
OVERFLOW = re.compile(r"(\w+): mapped tile size (\d+) exceeds buffer capacity (\d+)")
PLENTY = 2**40

Record = dict[str, Any]


def load() -> list[Record]:
    with gzip.open(PATH, "rt") as lines:
        return [json.loads(line) for line in lines]


def fanouts(arch: Record) -> list[tuple[int, int]]:
    """Width and height of the children below one instance of each level."""
    steps = [*arch["levels"], arch["mac"]]
    return [
        (inner["meshX"] // outer["meshX"], inner["meshY"] // outer["meshY"])
        for outer, inner in itertools.pairwise(steps)
    ]


def used(level: Record) -> dict[str, int]:
    """Children along each axis that a level of a mapping uses."""
    return {axis: math.prod(f for _, f, a in level["spatial"] if a == axis) for axis in "XY"}


def why_not(record: Record) -> str:
    """Why a record means something else here; empty where it does not."""
    arch, levels = record["arch"], record["mapping"]
    meshes = fanouts(arch)
    if any(level.get("min_utilization") for level in arch["levels"]):
        return "least utilisation"
    output = next(t for t in record["problem"]["tensors"] if t.get("output"))
    if any(len(axis) > 1 for axis in output["axes"]):
        return "output at a sum of dimensions"
    for level, (width, height) in zip(levels, meshes, strict=True):
        along = used(level)
        if along["Y"] > 1 and height == 1:
            return "second axis of a row"
        several = sum(w * h > 1 for w, h in meshes) > 1
        if several and (along["X"] > width or along["Y"] > height):
            return "a fan-out exceeded where there are several"
    return ""


def machine(arch: Record, inside: int) -> dict[str, Any]:
    """The machine; levels outside `inside` have plenty of room."""
    levels = []
    for index, (level, mesh) in enumerate(zip(arch["levels"], fanouts(arch), strict=True)):
        size = level["size_words"]
        if size is not None:
            # No tile has no words: a level of none is a name for a fan-out.
            size = max(1, int(size / level.get("multiple_buffering", 1)))
        entry = {"name": level["name"], "energy_pj": 1.0, "fanout": math.prod(mesh), "mesh": mesh}
        entry["capacity_words"] = size if index >= inside or size is None else PLENTY
        levels.append(entry)
    return {"name": arch["name"], "levels": levels, "mac_energy_pj": 1.0, "bypass": "searched"}


def problem_of(record: Record) -> Workload:
    problem = record["problem"]
    tensors = sorted(problem["tensors"], key=lambda tensor: bool(tensor.get("output")))
    return workload(
        {
            "name": problem["name"],
            "dimensions": problem["dims"],
            "tensors": {
                tensor["name"]: [" + ".join(f"{c}*{d}" for d, c in axis) for axis in tensor["axes"]]
                for tensor in tensors
            },
            "output": tensors[-1]["name"],
        }
    )


def mapping_of(record: Record, problem: Workload) -> Mapping:
    names = problem.dimension_names
    levels = []
    for index, (level, mesh) in enumerate(
        zip(record["mapping"], fanouts(record["arch"]), strict=True)
    ):
        spread = math.prod(mesh) > 1
        factors = {name: factor for name, factor, _ in level["spatial"]}
        axes = {name: axis for name, _, axis in level["spatial"]}
        levels.append(
            LevelMapping(
                name=level["level"],
                temporal=dict.fromkeys(names, 1) | dict(level["temporal"]),
                order=names,
                spatial={name: factors.get(name, 1) for name in names} if spread else {},
                spatial_order=names if spread else (),
                spatial_axis={name: axes.get(name, "X") for name in names} if spread else {},
                # Nothing is too large for the outermost level, kept there or not.
                keep=tuple(
                    name for name in problem.tensor_names if not index or name in level["keep"]
                ),
            )
        )
    return Mapping(tuple(levels), problem.tensor_names)


def judged(record: Record, inside: int = 0) -> tuple[int, int]:
    """Status and excess, where only levels from `inside` inwards have limits."""
    problem = problem_of(record)
    space = MapSpace(problem, accelerator(machine(record["arch"], inside)))
    status, excess = space.status(space.code(mapping_of(record, problem))[None])
    return int(status[0]), int(excess[0])


def test_mappings_are_judged_as_timeloop_judges_them() -> None:
    records = load()
    assert len(records) == 1200
    reasons, judgements = Counter(map(why_not, records)), Counter[str]()
    for record in records:
        if why_not(record):
            continue
        names = [level["name"] for level in record["arch"]["levels"]]
        where, why = record["id"], record.get("why") or ""
        status, _ = judged(record)
        assert (status == STATUS_OK) == record["valid"], (where, why, status)
        overflow = OVERFLOW.match(why)
        if record["valid"]:
            judgements["valid"] += 1
        elif overflow is None:
            assert "expansion" in why or "instances" in why, why
            assert status == STATUS_FANOUT, where
            judgements["fan-out"] += 1
        else:
            level, size, capacity = overflow[1], int(overflow[2]), int(overflow[3])
            index = names.index(level)
            assert judged(record, index + 1) == (STATUS_OK, 0), where
            assert judged(record, index) == (STATUS_CAPACITY + index, size - capacity), where
            assert STATUS_CAPACITY <= status <= STATUS_CAPACITY + index, where
            judgements["capacity"] += 1
    assert reasons == {
        "": 712,
        "second axis of a row": 205,
        "a fan-out exceeded where there are several": 128,
        "output at a sum of dimensions": 95,
        "least utilisation": 60,
    }
    assert judgements == {"valid": 290, "capacity": 352, "fan-out": 70}
