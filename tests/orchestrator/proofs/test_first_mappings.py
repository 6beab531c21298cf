"""What a front begins with: a search that takes a moment, in tiny spaces too."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel import MapSpace, accelerator, workload
from orchestrator.proofs.pareto import MOST_LOST, _first_mappings
from searchers.structured import LONGEST_WALK


@pytest.mark.parametrize(("layer", "most"), [("gemm:M=1,N=1,K=2", 1), ("gemm:M=64,N=64,K=8", 0)])
def test_a_tiny_space_is_soon_left(layer: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its walks find no move, and take random mappings: 20,000 of them took seconds."""
    drawn = 0
    sample = MapSpace.sample

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal drawn
        drawn += 1
        return sample(*args, **options)

    space = MapSpace(workload(layer), accelerator("mm256-bw"))
    monkeypatch.setattr(MapSpace, "sample", counted)
    assert len(_first_mappings(space, None)) == 3
    assert drawn <= most * 3 * (MOST_LOST + LONGEST_WALK)
    assert drawn >= most * 3 * MOST_LOST
