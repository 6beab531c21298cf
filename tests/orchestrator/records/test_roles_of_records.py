"""Roles that a workload gives its tensors are part of its records and certificates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mapspace as ms
from costmodel.loop_nest.records import problem_record, workload_from_record

ATTENTION = {
    "name": "scores",
    "dimensions": {"H": 2, "M": 8, "N": 8, "K": 4},
    "tensors": {"A": ["H", "M", "K"], "B": ["H", "K", "N"], "Z": ["H", "M", "N"]},
    "output": "Z",
    "roles": {"B": "weight"},
}


@pytest.mark.parametrize("machine", ["mm256", "eyeriss"])
def test_a_certificate_of_a_workload_with_roles_holds(machine: str, tmp_path: Path) -> None:
    result = ms.search(ATTENTION, machine)
    result.save(tmp_path / "best.jsonl")
    assert ms.verify(tmp_path / "best.certificate.json").holds
    (again,) = ms.evaluate(tmp_path / "best.jsonl")
    assert again["result"]["cycles"] == result.costs.latency_cycles


def test_a_record_has_the_roles_that_were_said() -> None:
    work = ms.workload(ATTENTION)
    record = problem_record(work)
    assert record["roles"] == {"B": "weight"}
    assert workload_from_record(json.loads(json.dumps(record))).hash == work.hash
    plain = ms.workload({key: value for key, value in ATTENTION.items() if key != "roles"})
    assert "roles" not in problem_record(plain)
    assert plain.hash != work.hash
