"""What `search --simulator` prints for people: the mapping itself, and what it took."""

from __future__ import annotations

import numpy as np

from costmodel.machines.accelerators import accelerator
from costmodel.models import cost_model_entry
from costmodel.problems.workloads import workload
from orchestrator.search.own_simulator import OwnResult


def test_the_mapping_is_printed_and_one_worker_is_one() -> None:
    entry = cost_model_entry("command")
    device = accelerator("eyeriss")
    assert entry.space is not None
    assert entry.record is not None
    space = entry.space(workload("gemm:M=8,N=8,K=8"), device)
    record = entry.record(
        space, space.sample(np.random.default_rng(0), 1, feasible=True)[0], device
    )
    summary = {
        "objective": "edp",
        "model": "command 1",
        "searcher": "random",
        "iterations": 1200,
        "seconds": 2.0,
        "workers": 1,
        "failures": 2,
        "last_failure": "no answer within 1 s",
    }
    text = OwnResult(record, 12.5, summary).text()
    assert "Z[m][n] += A[m][k] * B[k][n]" in text
    assert "edp 12.5 by command 1" in text
    assert "random: 1,200 simulations in 2.0 s on 1 worker\n" in text
    assert text.endswith("2 failed and count as unable to run; the last: no answer within 1 s")
