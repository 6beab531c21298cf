"""The proof under a mapper's constraints, against the real Timeloop's exhaustive mapper."""

from __future__ import annotations

from typing import Any

import pytest
from whole_spaces import golden, rules_of_record

from costmodel import MapSpace
from costmodel.accelerators import Accelerator
from costmodel.affine import Workload
from costmodel.exact.certificate import certify
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.nest_record_models import NestArch
from costmodel.loop_nest.nest_tables import nest_accelerator
from mapspace.errors import DataError

RECORDS = golden("mapspaces")


def space_of(record: dict[str, Any]) -> MapSpace:
    """The map space of a record; what the outermost level bypasses its machine says."""
    machine = nest_accelerator(NestArch.model_validate(record["arch"])).model_dump(mode="json")
    rules, names = rules_of_record(record), [t["name"] for t in record["problem"]["tensors"]]
    passed = [name for t, name in enumerate(names) if (rules.bypass[0] >> t) & 1]
    machine["levels"][0]["bypass"] = passed
    axes = {
        t["name"]: [{"terms": axis} for axis in t["axes"]] for t in record["problem"]["tensors"]
    }
    outputs = [t["name"] for t in record["problem"]["tensors"] if t.get("output")]
    workload = Workload.model_validate(
        {
            "name": "whole",
            "family": "einsum",
            "dimensions": record["problem"]["dims"],
            "tensors": [
                {"name": name, "axes": axes[name], "output": name in outputs} for name in names
            ],
        }
    )
    return MapSpace(workload, Accelerator.model_validate({**machine, "bypass": "searched"}))


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_the_least_energy_is_timeloops(number: int) -> None:
    record = RECORDS[number]
    space = space_of(record)
    prover = AnyProver(space, objective="energy", constraints=rules_of_record(record))
    prover.run()
    least = record["least_energy_pj"]
    if least is None:
        assert prover.best_outcome is None
        return
    best = prover.codes()
    assert prover.allows(best[0])
    assert float(prover.best_outcome[0] * prover.unit_pj) == pytest.approx(least, rel=1e-12)
    with pytest.raises(DataError, match="no certificate"):
        certify(prover, 1.0)
