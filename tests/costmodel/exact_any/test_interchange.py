"""Dimensions that may change places (lemma 16), against all mappings of every spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken
from small_hierarchies import check_proof, random_machine
from small_problems import every_mapping

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact_any import assignments
from costmodel.exact_any.layout import lay_out
from costmodel.space import Codes
from costmodel.tile_chains import interchange
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.spatial import vectors
from mapspace.errors import ConfigError

# What a broken rule would claim: (function, what it says there, what it becomes).
BREAKS = {
    "steps are all alike": ("_axes", "(renamed[d], step)", "(renamed[d], 1)"),
    "any two dimensions of a tensor are alike": (
        "interchanges",
        "_axes(space, renamed) == axes",
        "True",
    ),
    "what is its own image is needless": (
        "first_of_alike",
        "np.take_along_axis(more, first[:, None], axis=1)[:, 0] >= 0",
        "np.take_along_axis(more, first[:, None], axis=1)[:, 0] > 0",
    ),
}


def _problem(seed: int, most: int) -> tuple[MapSpace, Codes]:
    """A window operation, often as high as wide, on a machine with fan-outs; its mappings."""
    rng = np.random.default_rng(seed)
    while True:
        a, b = rng.choice([1, 2, 4], 2) if rng.random() < 0.3 else [int(rng.integers(1, 3))] * 2
        plain, window = int(rng.choice([2, 3, 4])), int(rng.choice([1, 2, 2]))
        work = {
            "dimensions": {"A": plain, "B": plain, "C": window, "D": window},
            "tensors": {"X": [f"{a}*A + C", f"{b}*B + D"], "Y": ["C", "D"], "Z": ["A", "B"]},
            "output": "Z",
        }
        try:
            space = MapSpace(workload(work), accelerator(random_machine(rng)))
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes) and space.tables.fanout.max() > 1:
            return space, codes


def _check(seed: int, most: int) -> int:
    """Holds the proof of a problem, and what images cost; returns how many spreads are left out."""
    space, codes = _problem(seed, most)
    check_proof(space, codes, OBJECTIVES[seed % len(OBJECTIVES)])
    one, every = lay_out(0, space, None), lay_out(0, space, None, each=True)
    listed, all_of = one.spreads.choices(), every.spreads.choices()
    costs = LoopNestModel().evaluate(space, codes)
    names = space.workload.dimension_names
    found: dict[bytes, list[float]] = {}
    for code, *cost in zip(codes, costs.energy_pj, costs.latency_cycles, strict=True):
        levels = space.describe(code).levels
        factors = np.array([[level.spatial.get(d, 1) for d in names] for level in levels])
        known = found.setdefault(factors.tobytes(), [np.inf, np.inf])
        found[factors.tobytes()] = [min(one) for one in zip(known, cost, strict=True)]
    for renamed in interchange.interchanges(space, every.spreads.vectors):
        for factors in every.spreads.spatial(all_of):
            here, there = (found.get(f.tobytes()) for f in (factors, factors[:, renamed]))
            assert (here is None) == (there is None)
            assert here is None or here == pytest.approx(there, rel=1e-12), seed
    return len(all_of) - len(listed)


def test_images_cost_the_same_and_nothing_is_lost() -> None:
    fewer = [_check(seed, 3000) for seed in range(30)]
    assert sum(left > 0 for left in fewer) >= 8
    assert sum(left == 0 for left in fewer) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_images_cost_the_same(block: int) -> None:
    for seed in range(1000 + 30 * block, 1030 + 30 * block):
        _check(seed, 20_000)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "broken"}
    exec(compile(broken(Path(interchange.__file__).read_text(), *BREAKS[name]), "b", "exec"), names)
    for module in (assignments, interchange):
        for function in ("interchanges", "first_of_alike"):
            monkeypatch.setattr(module, function, names[function])

    def lost(seed: int) -> bool:
        try:
            _check(seed, 3000)
        except AssertionError:
            return True
        return False

    assert any(lost(seed) for seed in range(60))


def _renamings(work: Any, machine: Any) -> list[list[int]]:
    space = MapSpace(workload(work), accelerator(machine))
    rules = Rules(space)
    rows = [
        rules.vectors(level, vectors(space, level)) for level in range(space.tables.capacity.size)
    ]
    return [renamed.tolist() for renamed in interchange.interchanges(space, rows)]


def test_rows_and_columns_of_a_square_layer_change_places_together() -> None:
    work = workload("inception-conv2")
    names = list(work.dimension_names)
    swapped = {"P": "Q", "Q": "P", "R": "S", "S": "R"}
    expected = [names.index(swapped.get(name, name)) for name in names]
    assert _renamings("inception-conv2", "register256") == [expected]
    oblong = {"cnn": {"N": 1, "K": 4, "C": 4, "P": 4, "Q": 8, "R": 3, "S": 3}}
    assert _renamings(oblong, "register256") == []
    along = {"x": ["N", "K", "C", "Q", "R", "S"], "y": ["N", "K", "C", "Q", "R", "S"]}
    one_side = {"extends": "register256", "levels": [{"name": "L2", "spatial": along}]}
    assert _renamings("inception-conv2", one_side) == []
