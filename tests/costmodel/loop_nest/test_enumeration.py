"""Constrained spaces as Timeloop's exhaustive mapper counts them, and as map spaces have them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_problems import every_mapping, random_parts
from whole_spaces import golden, rules_of_record, space_of_record

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.enumeration import WholeSpace
from costmodel.loop_nest.nest_records import score_nests


def test_valid_points_and_least_energy_are_timeloops() -> None:
    for number, record in enumerate(golden("mapspaces")):
        sizes = rules_of_record(record).sizes_of_parts()
        assert math.prod(sizes.values()) == record["map_space"], number
        found = space_of_record(record).search("energy")
        assert found.valid == record["valid"], number
        least = record["least_energy_pj"]
        assert found.energy_pj == (math.inf if least is None else least), number
        if found.best is None:
            continue
        # The mapping that is shown is the one that was counted.
        shown = {**record, "mapping": [loops.model_dump() for loops in found.best]}
        assert score_nests({0: shown})[0]["energy_pj"] == found.energy_pj


def test_counts_a_space_by_hand() -> None:
    """M=2 on two levels with two units: the loop stands in one of three slots.

    Everything fits, so each of the three factorisations is valid with each of two splits, but the
    spatial loop along a height of 1; B, A and Z may each be kept inside or not.
    """
    record = golden("mapspaces")[11]
    levels = record["arch"]["levels"]
    record = {
        "arch": {
            **record["arch"],
            "levels": [levels[0], {**levels[1], "size_words": 100}],
            "mac": {"name": "MAC", "instances": 2, "meshX": 2, "meshY": 1, "energy_pj": 1.0},
        },
        "problem": {
            "dims": {"M": 2},
            "tensors": [
                {"name": "A", "axes": [[["M", 1]]]},
                {"name": "Z", "axes": [[["M", 1]]], "output": True},
            ],
        },
    }
    space = space_of_record(record)
    assert rules_of_record(record).sizes_of_parts() == {
        "IndexFactorization": 3, "LoopPermutation": 1, "Spatial": 2, "DatatypeBypass": 4,
    }  # fmt: skip
    assert space.count() == (2 * 2 + 1) * 4
    # Different mappings: the split says nothing where the loop is temporal.
    assert space.search().evaluated == 3 * 4


@pytest.mark.parametrize("seed", range(3))
def test_is_the_whole_map_space(seed: int) -> None:
    """The cost model's own spaces have the same mappings."""
    rng = np.random.default_rng(seed)
    while True:
        work, device = random_parts(rng)
        if any("banks" in level for level in device["levels"]):
            continue
        space = MapSpace(workload(work), accelerator(device))
        codes = every_mapping(space, 5_000)
        if codes is not None and len(codes) and len(space.workload.dimensions) < 7:
            break
    costs = LoopNestModel().evaluate(space, codes)
    whole = WholeSpace.of(space.workload, space.accelerator)
    found = [batch.costs for batch in whole.mappings()]
    assert whole.size() >= sum(len(part.status) for part in found if part is not None)
    for name in ("energy_pj", "latency_cycles"):
        ours = np.concatenate([getattr(part, name) for part in found])
        theirs = getattr(costs, name)
        # A space lists a loop of one iteration on either axis of a mesh; a whole space once.
        np.testing.assert_allclose(np.unique(ours.round(6)), np.unique(theirs.round(6)), rtol=1e-12)
