"""Counting feasible mappings and drawing them uniformly, against complete enumeration."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_problems import random_problem

from costmodel import MapSpace, accelerator, workload
from costmodel.map_space.constructed_draws import FittingRows, grows_with_extents
from costmodel.map_space.feasible_draws import FeasibleDraws, countable
from mapspace.errors import ConfigError

ORDERS = ("order", "spatial-order")
# Elements of twelve words below a shared buffer: hardly one mapping in ten million fits.
TIGHT: dict[str, Any] = {
    "name": "tight",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 1024, "fanout": 168, "mesh": [14, 12]},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 12},
    ],
}


def without_orders(space: MapSpace, codes: np.ndarray) -> np.ndarray:
    """Codes with every loop order the first one, each once."""
    free = [kind in ORDERS for kind in space.attribute_kinds]
    return np.unique(np.where(free, 0, codes), axis=0)


@pytest.mark.parametrize("seed", range(20))
def test_the_number_is_that_of_the_enumeration(seed: int) -> None:
    space, codes, _ = random_problem(np.random.default_rng(seed), 100_000)
    feasible = without_orders(space, codes[space.feasible(codes)])
    assert FeasibleDraws(space.tables).number == len(feasible)


@pytest.mark.parametrize(
    ("work", "changes"),
    [
        ("gemm:M=4,N=6,K=4", {}),
        ("gemm:M=4,N=4,K=2", {"bypass": "searched"}),
        ("gemm:M=4,N=6,K=2", {"mesh": [2, 3]}),
        ("gemm:M=4,N=4,K=4", {"banks": 4}),
    ],
)
def test_every_feasible_mapping_is_as_likely(work: str, changes: dict[str, Any]) -> None:
    """Chi-square over all feasible mappings of small spaces, with all that a code can hold."""
    shared = {"name": "L2", "energy_pj": 2.0, "capacity_words": 40, "fanout": 6}
    element = {"name": "L1", "energy_pj": 1.0, "capacity_words": 8}
    shared |= {"mesh": changes["mesh"]} if "mesh" in changes else {}
    element |= {"banks": changes["banks"]} if "banks" in changes else {}
    space = MapSpace(
        workload(work),
        accelerator(
            {
                "name": "small",
                "mac_energy_pj": 1.0,
                "bypass": changes.get("bypass", "none"),
                "levels": [{"name": "DRAM", "energy_pj": 9.0}, shared, element],
            }
        ),
    )
    draws = FeasibleDraws(space.tables)
    drawn = space.sample(np.random.default_rng(1), 40 * int(draws.number))
    draws.sample(np.random.default_rng(2), drawn)
    assert space.feasible(drawn).all()
    free = [kind in ORDERS for kind in space.attribute_kinds]
    found, counts = np.unique(np.where(free, 0, drawn), axis=0, return_counts=True)
    assert len(found) == draws.number
    assert 1e-4 < stats.chisquare(counts).pvalue < 1 - 1e-4


def test_a_space_without_a_chance_is_sampled() -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator(TIGHT))
    rng = np.random.default_rng(0)
    assert space.feasible_share(rng, 100_000) < 1e-3
    codes = space.sample(rng, 2000, feasible=True)
    assert space.feasible(codes).all()
    assert len(np.unique(codes, axis=0)) == len(codes)
    again = pickle.loads(pickle.dumps(space))
    assert "_constructed" not in vars(again)
    one = np.random.default_rng(5), np.random.default_rng(5)
    np.testing.assert_array_equal(
        space.sample(one[0], 3, feasible=True), again.sample(one[1], 3, feasible=True)
    )


def test_a_space_without_a_feasible_mapping_says_so() -> None:
    levels = [*TIGHT["levels"][:2], {"name": "L1", "energy_pj": 1.0, "capacity_words": 2}]
    space = MapSpace(workload("gemm:M=64,N=64,K=64"), accelerator({**TIGHT, "levels": levels}))
    with pytest.raises(ConfigError, match=r"^No mapping of .* is feasible .*L1"):
        space.sample(np.random.default_rng(0), 1, feasible=True)


def test_what_would_take_too_much_is_not_counted() -> None:
    size = 720_720
    dimensions = ",".join(f"{name}={size}" for name in "MNK")
    space = MapSpace(workload(f"gemm:{dimensions}"), accelerator("mm256"))
    assert not countable(space.tables)
    assert math.prod(space.cardinality.tolist()) > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"bypass": ["weight"], "spatial": {"x": ["M"], "y": ["N", "K"]}},
        {"min_utilisation": 0.3, "multiple_buffering": 1.5},
        {"keep": ["output"], "spatial": {"x": ["K"], "y": []}},
    ],
)
@pytest.mark.parametrize("bypass", ["none", "searched"])
def test_rules_of_a_level_are_counted(changes: dict[str, Any], bypass: str) -> None:
    machine = {
        "name": "rules",
        "mac_energy_pj": 1.0,
        "bypass": bypass,
        "levels": [
            {"name": "DRAM", "energy_pj": 9.0},
            {
                "name": "L2",
                "energy_pj": 2.0,
                "capacity_words": 40,
                "fanout": 6,
                "mesh": [2, 3],
                **changes,
            },
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 8, "keep": ["output"]},
        ],
    }
    space = MapSpace(workload("gemm:M=4,N=6,K=2"), accelerator(machine))
    counts = [
        1 if kind in ORDERS else int(count)
        for kind, count in zip(space.attribute_kinds, space.cardinality, strict=True)
    ]
    codes = np.stack(np.unravel_index(np.arange(math.prod(counts)), counts), axis=1)
    feasible = space.feasible(codes.astype(np.int32))
    assert 0 < feasible.sum() < len(codes)
    assert FeasibleDraws(space.tables).number == feasible.sum()
    orders = math.prod(space.cardinality.tolist()) // math.prod(counts)
    assert space.size() == orders * distinct(space, codes)
    assert space.feasible_count() == orders * distinct(space, codes[feasible])


def distinct(space: MapSpace, codes: np.ndarray) -> int:
    """How many mappings codes stand for, once what the machine decides is as it decides it."""
    machine, tables = space.tables.machine, space.tables
    settled = codes.copy()
    for level in range(len(space.accelerator.levels)):
        for column, held, barred in (
            (tables.keep_column[level], machine.always_kept, machine.never_kept),
            (tables.spatial_axis_column[level], machine.only_y, machine.only_x),
        ):
            if column >= 0:
                settled[:, column] = (settled[:, column] | held[level]) & ~barred[level]
    return len(np.unique(np.ravel_multi_index(tuple(settled.T), tuple(space.cardinality))))


# Six children fit along its height alone.
NARROW: dict[str, Any] = {
    "name": "narrow",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 40, "fanout": 12, "mesh": [2, 6]},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 5},
    ],
}


@pytest.mark.parametrize("machine", ["gemmini", NARROW], ids=["gemmini", "narrow"])
def test_few_and_many_are_drawn_uniformly_among_the_same(machine: str | dict[str, Any]) -> None:
    """Whatever fits by itself contains all that is feasible, and nothing more often than others."""
    space = MapSpace(workload("gemm:M=2,N=6,K=4"), accelerator(machine))
    draws = FeasibleDraws(space.tables)
    fitting = FittingRows(space)
    assert fitting.share > space.feasible_share(np.random.default_rng(1))
    # A share of those that fit by themselves is all that is feasible, in any loop orders.
    orders = [kind in ORDERS for kind in space.attribute_kinds]
    feasible = int(draws.number) * math.prod(space.cardinality[orders].tolist())
    assert fitting.size * fitting.share == pytest.approx(feasible, rel=0.15)
    drawn = fitting.sample(np.random.default_rng(2), 30 * int(draws.number))
    assert space.feasible(drawn).all()
    free = [kind in ORDERS for kind in space.attribute_kinds]
    found, counts = np.unique(np.where(free, 0, drawn), axis=0, return_counts=True)
    assert len(found) == draws.number
    assert 1e-4 < stats.chisquare(counts).pvalue < 1 - 1e-4


def test_real_machines_are_drawn_from_what_fits_at_once() -> None:
    """Uniformly, with the first draw as with all; the first machines as they always were."""
    space = MapSpace(workload("gemm:M=4,N=6,K=4"), accelerator("gemmini"))
    draws = FeasibleDraws(space.tables)
    assert space._constructed.at_once
    assert not MapSpace(workload("gemm:M=4,N=6,K=4"), accelerator("mm256"))._constructed.at_once
    rng = np.random.default_rng(3)
    parts = [space.sample(rng, n, feasible=True) for n in (0, 1, 7, 20 * int(draws.number))]
    drawn = np.concatenate(parts)
    assert space.feasible(drawn).all()
    free = [kind in ORDERS for kind in space.attribute_kinds]
    found, counts = np.unique(np.where(free, 0, drawn), axis=0, return_counts=True)
    assert len(found) == draws.number
    assert 1e-4 < stats.chisquare(counts).pvalue < 1 - 1e-4
    # Loop orders, which play no part in it, are drawn as evenly.
    for column in np.flatnonzero(free):
        orders = np.bincount(drawn[:, column], minlength=space.cardinality[column])
        assert 1e-4 < stats.chisquare(orders).pvalue < 1 - 1e-4


def test_a_level_that_must_be_filled_may_need_more_than_fits_by_itself() -> None:
    tight = MapSpace(workload("resnet-conv4"), accelerator(TIGHT))
    assert grows_with_extents(tight.tables)
    levels = [*TIGHT["levels"][:1], {**TIGHT["levels"][1], "min_utilisation": 0.3}]
    filled = {**TIGHT, "levels": [*levels, *TIGHT["levels"][2:]]}
    assert not grows_with_extents(MapSpace(workload("resnet-conv4"), accelerator(filled)).tables)
