"""A data set that is generated within a moment."""

from __future__ import annotations

from orchestrator.training.generate import GenerateConfig


def data_config(**changes: object) -> GenerateConfig:
    """120 rows of `mttkrp` in four shards, or what changes make of it."""
    content = {
        "kind": "generate",
        "name": "test",
        "problems": {"family": "mttkrp"},
        "rows": 120,
        "mappings_per_problem": 10,
        "problems_per_shard": 3,
    }
    return GenerateConfig.model_validate({**content, **changes})
