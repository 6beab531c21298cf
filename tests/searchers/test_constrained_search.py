"""Every searcher on a constrained map space: it finds mappings, and all that it asks for obey."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToyPredictor
from searchers import SEARCHERS, Evaluator, make, searcher_class

ENTRIES: list[dict[str, Any]] = [
    {"target": "DRAM", "type": "temporal", "permutation": "K_"},
    {"target": "L2", "type": "spatial", "factors": "M<=4 N>=2", "default_max_factor": 8},
    {"target": "L1", "type": "temporal", "factors": "K>=4", "default_max_factor": 4},
    {"target": "L1", "type": "bypass", "keep": ["Z"], "bypass": ["B"]},
]
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if searcher_class(name).SLOW else [])
    for name in sorted(SEARCHERS)
]
# Why those that do not search here do not, on this machine and on one without bypass.
REFUSALS = {"marvel": ("bypass", "constraints")}


def space() -> MapSpace:
    machine = accelerator({"extends": "mm256", "bypass": "searched"})
    return MapSpace(workload("gemm:M=64,N=64,K=64"), machine, ENTRIES)


def made(name: str, narrow: MapSpace) -> Any:
    extra = dict(searcher_class(name).QUICK)
    if "predictor" in searcher_class(name).USES:
        extra["predictor"] = ToyPredictor(len(narrow.feature_names))
    return make(name, narrow, seed=0, **extra)


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_what_does_not_obey_is_refused(name: str) -> None:
    entries = [{"target": "L1", "type": "temporal", "factors": "K>=4"}]
    without = MapSpace(workload("cnn:N=1,K=8,C=8,P=8,Q=8,R=3,S=3"), accelerator("mm256"), entries)
    for narrow, why in zip((space(), without), REFUSALS[name], strict=True):
        with pytest.raises(ConfigError, match=why) as refused:
            made(name, narrow)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_asks_for_mappings_that_obey(name: str) -> None:
    if name in REFUSALS:
        return
    narrow = space()
    asked: list[Any] = []

    class Model(LoopNestModel):
        def evaluate(self, space: Any, codes: Any, *, detail: bool = False) -> Any:
            asked.append(codes.copy())
            return super().evaluate(space, codes, detail=detail)

    evaluator = Evaluator(Model(), narrow, objective="edp", iterations=300)
    made(name, narrow).run(evaluator)
    result = evaluator.result()
    assert result.best_code is not None
    seen = np.concatenate([*asked, result.best_code[None]])[-100:]
    for code in seen[narrow.feasible(seen)]:
        dram, buffer, element = narrow.describe(code).levels
        assert dram.temporal["K"] == 1 or [d for d in dram.order if dram.temporal[d] > 1][-1] == "K"
        assert buffer.spatial["M"] <= 4
        assert 2 <= buffer.spatial["N"] <= 64
        assert buffer.spatial["K"] <= 8
        assert element.temporal["K"] >= 4
        assert max(element.temporal["M"], element.temporal["N"]) <= 4
        assert "Z" in element.keep
        assert "B" not in element.keep
