"""Rows of the DOSA project's files: mappings on Gemmini-like machines, as records and as causes.

docs/inside/testing.md says where they come from.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.scratch import make_scratch
from costmodel.costs import STATUS_OK, Costs, Detail
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.cost_kernel import evaluate_mappings, make_costs, make_details
from costmodel.loop_nest.nest_record_models import HasNestArch, HasNestMapping, HasNestProblem
from costmodel.loop_nest.nest_tables import nest_accelerator, nest_tables
from mapspace.strict_yaml import validate
from searchers.shared.causes import Causes, join, nest_causes

TENSORS = {"W": "Weights", "I": "Inputs", "O": "Outputs"}
Row = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, compressed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return list(csv.DictReader(lines))


def level(name: str, instances: int, mesh: tuple[int, int], bandwidth: float | None) -> Any:
    return {
        "name": name,
        "class": "DRAM" if name == "L3" else "SRAM",
        "instances": instances,
        "meshX": mesh[0],
        "meshY": mesh[1],
        "shared_bandwidth": bandwidth,
        "energy_pj": {"read": 1.0, "fill": 1.0, "update": 1.0},
    }


def as_record(row: Row, fills: str) -> dict[str, Any]:
    """A row as a record; without capacities, which the mappings were made for."""
    side = int(row["arch.meshX"])
    size = {key[5:]: int(row[key]) for key in row if key.startswith("prob.") and len(key) == 6}
    wide, high = int(row["prob.Wstride"]), int(row["prob.Hstride"])
    far, deep = int(row["prob.Wdilation"]), int(row["prob.Hdilation"])
    mapping = []
    for part in row["mapping.mapping"].split(" - "):
        name, kept = re.findall(r"(L\d)\[(\w*)\]", part)[0]
        loops = re.findall(r" ([A-Z])(\d+)(X?)", part)
        mapping.append(
            {
                "level": name,
                "keep": [TENSORS[letter] for letter in kept],
                "temporal": [[d, int(f)] for d, f, x in loops if not x and f != "1"],
                # Columns lie side by side, and rows below each other.
                "spatial": [
                    [d, int(f), "X" if name == "L2" else "Y"] for d, f, x in loops if x and f != "1"
                ],
            }
        )
    # The file of one machine says words per cycle read and written apart.
    shared = row.get("arch.mem2_shared_bandwidth") or 2 * int(row["arch.mem2_read_bandwidth"])
    return {
        "arch": {
            "levels": [
                level("L3", 1, (1, 1), 8.0),
                level("L2", 1, (1, 1), float(shared)),
                level("L1", side, (side, 1), 2.0),
                level("L0", side * side, (side, side), None),
            ],
            "mac": {
                "name": "MAC", "instances": side * side, "meshX": side, "meshY": side,
                "energy_pj": 1.0,
            },
            "output_fills": fills,
        },
        "problem": {
            "dims": size,
            "tensors": [
                {"name": "Weights", "axes": [[["R", 1]], [["S", 1]], [["C", 1]], [["K", 1]]]},
                {
                    "name": "Inputs",
                    "axes": [
                        [["N", 1]], [["C", 1]],
                        [["P", wide], ["R", far]], [["Q", high], ["S", deep]],
                    ],
                },
                {
                    "name": "Outputs", "output": True,
                    "axes": [[["N", 1]], [["K", 1]], [["P", 1]], [["Q", 1]]],
                },
            ],
        },
        "mapping": mapping,
    }  # fmt: skip


class Measured(NamedTuple):
    """Designs that were simulated as hardware.

    Attributes:
        causes: what the analytic model says of them.
        cycles: `[N]` of the RTL.
        analytic: `[N]` cycles of the analytic model.
        machines: `[N]` a number per machine.
        layers: `[N]` a number per layer.
    """

    causes: Causes
    cycles: npt.NDArray[np.float64]
    analytic: npt.NDArray[np.float64]
    machines: npt.NDArray[np.int64]
    layers: npt.NDArray[np.int64]


def measured(rows: Sequence[Row], machines_of: Sequence[Row] | None = None) -> Measured:
    """Rows with cycles of the RTL.

    Args:
        rows: the designs.
        machines_of: other rows, of which the machines' capacities are taken: a control.
    """
    parts = [_causes(row, other) for row, other in zip(rows, machines_of or rows, strict=True)]
    causes = join(parts)
    sizes = [tuple(row[key] for key in row if key.startswith("prob.")) for row in rows]
    capacities = [(row["arch.mem1_entries"], row["arch.mem2_entries"]) for row in rows]
    return Measured(
        causes=causes,
        cycles=np.array([float(row["target.gemmini_cycle"]) for row in rows]),
        analytic=np.exp(causes.latency),
        machines=np.unique(np.array(capacities), axis=0, return_inverse=True)[1].reshape(-1),
        layers=np.unique(np.array(sizes), axis=0, return_inverse=True)[1].reshape(-1),
    )


def _causes(row: Row, machine: Row) -> Causes:
    record = as_record(row, "charged")
    arch = validate(HasNestArch, {"arch": record["arch"]}, "").arch
    problem = validate(HasNestProblem, {"problem": record["problem"]}, "").problem
    mapping = validate(HasNestMapping, {"mapping": record["mapping"]}, "").mapping
    tables, _, codes = nest_tables(problem, nest_accelerator(arch), [mapping])
    costs, details = make_costs(1), make_details(tables, 1)
    added = adds_cycles(tables)
    evaluate_mappings(tables, make_scratch(tables), codes, costs, details, None, added)
    assert costs.status[0] == STATUS_OK
    counts = details.counts
    detail = Detail(
        details.tiles, counts[:, 0], counts[:, 1], counts[:, 2], details.instances,
        details.charges[:, 0], details.network, 0.0, np.ones(1),
    )  # fmt: skip
    # Capacities are words of one level; an accumulator is one column's.
    capacity = np.array(
        [-1, int(machine["arch.mem2_entries"]), int(machine["arch.mem1_entries"]), 1]
    )
    return nest_causes(tables._replace(capacity=capacity), codes, Costs(*costs, detail))
