"""A small sweep."""

from __future__ import annotations

from typing import Any

from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import SweepPlan, prepare_sweep

SMALL = "gemm:M=16,N=16,K=16"
OTHER = "gemm:M=8,N=32,K=16"


def content_for(**changes: object) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": "sweep",
        "name": "test",
        "grid": {"L1.capacity_words": [16, 64], "L2.fanout": [4, 8, 16]},
        "workloads": [SMALL, OTHER],
        "points_per_task": 2,
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def plan_for(**changes: object) -> SweepPlan:
    return prepare_sweep(Sweep.model_validate(content_for(**changes)), "test.yaml")
