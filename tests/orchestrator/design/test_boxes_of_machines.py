"""Boxes of machines and their ideals: no machine of a box is better than its ideal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_design import COMPONENTS, MIXED, machine_grid, machines_of

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.machines import component_tables
from costmodel.machines.accelerators import AcceleratorSource
from costmodel.machines.component_tables import Figures
from costmodel.machines.machine_units import area_mm2
from orchestrator.design.aims import Aim
from orchestrator.design.machine_grid import machines_in
from orchestrator.sweep.config import AreaProxy


def test_keys_have_an_order_only_where_more_is_never_worse() -> None:
    def ordered(base: AcceleratorSource, *keys: str) -> list[bool]:
        values = {"capacity": (64, 128), "fanout": (2, 4), "energy": (1.0, 2.0), "read": (1.0, 2.0)}
        grid = {
            key: next(
                (given for word, given in values.items() if key.split(".")[-1].startswith(word)),
                (8, 16),
            )
            for key in keys
        }
        built = machine_grid(accelerator(base), grid)
        return [axis.ordered for axis in built.axes]

    assert ordered("mm256", "L1.capacity_words", "L2.fanout", "L1.energy_pj") == [True] * 3
    assert ordered("mm256", "L2.capacity_words", "word_bits") == [False, False]
    hops = {"extends": "mm256", "levels": [{"name": "L2", "hop_energy_pj": 1.0}]}
    assert ordered(hops, "L2.fanout", "L1.capacity_words", "L2.read_bandwidth") == [
        False, True, True,
    ]  # fmt: skip
    full = {"extends": "mm256", "levels": [{"name": "L1", "min_utilisation": 0.5}]}
    assert ordered(full, "L1.capacity_words", "L2.capacity_words") == [False, True]
    banked = {"extends": "mm256", "levels": [{"name": "L1", "banks": 4}]}
    assert ordered(banked, "L1.capacity_words") == [False]
    skipping = {"extends": "mm256", "overflow": "bypass"}
    assert ordered(skipping, "L1.capacity_words", "L1.energy_pj") == [False, True]


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "sqrt"]),
)
def test_a_box_is_no_better_than_its_ideal(
    one: list[int], other: list[int], seed: int, scaling: str
) -> None:
    """What a machine of a box can do its ideal can do at no more energy and in no more cycles."""
    grid = machine_grid(
        accelerator("mm256-bw"),
        {
            "L1.capacity_words": (8, 64, 16),
            "L2.capacity_words": (256, 64, 1024),
            "L2.fanout": (4, 2, 8),
            "DRAM.bandwidth": (0.5, None, 2.0),
        },
        energy_scaling=scaling,
    )
    box = tuple((min(a, b), max(a, b) + 1) for a, b in zip(one, other, strict=True))
    machine, ideal = grid.machine(tuple(one)), grid.ideal(grid.corner(box))
    work = workload("gemm:M=8,N=12,K=6")
    space = MapSpace(work, machine)
    code = space.sample(np.random.default_rng(seed), 200)
    costs = LoopNestModel().evaluate(space, code)
    at_best = LoopNestModel().evaluate(MapSpace(work, ideal), code)
    valid = np.isfinite(costs.energy_pj)
    assert (at_best.energy_pj[valid] <= costs.energy_pj[valid] * (1 + 1e-12)).all()
    assert (at_best.latency_cycles[valid] <= costs.latency_cycles[valid]).all()
    at_worst = LoopNestModel().evaluate(MapSpace(work, grid.worst(box)), code)
    kept = np.isfinite(at_worst.energy_pj)
    assert (costs.energy_pj[kept] <= at_worst.energy_pj[kept] * (1 + 1e-12)).all()
    assert (costs.latency_cycles[kept] <= at_worst.latency_cycles[kept]).all()
    assert grid.area_bits(box) <= AreaProxy().bits(machine)
    assert machines_in(box) == len(machines_of(box))


def ragged(seed: int) -> Callable[..., Figures]:
    """A table in which nothing follows the size: what costs least differs from node to node."""

    def sram(node_nm: float, width_bits: int, ports: int, banks: int, bits: int) -> Figures:
        drawn = np.random.default_rng([seed, int(node_nm), width_bits, bits]).uniform(1, 3, 4)
        read, write, area, leakage = drawn.tolist()
        return Figures(read, write, area, leakage * 1e-6, "drawn").rounded()

    return sram


PLACES = st.tuples(*(st.integers(0, len(values) - 1) for values in MIXED.values()))


@settings(max_examples=25)
@given(PLACES, PLACES, PLACES, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_box_of_components_is_no_better_than_its_ideal(
    one: tuple[int, ...], other: tuple[int, ...], third: tuple[int, ...], nodes: bool, seed: int
) -> None:
    """Though energies, leakage and area follow size, fan-out and node together, in any way."""
    # With so many units the base's leakage is the units' to the last digit.
    inner = {**COMPONENTS["levels"][2], "component": "sram", "fanout": 4096}
    base = {**COMPONENTS, "levels": [*COMPONENTS["levels"][:2], inner]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(component_tables, "sram", ragged(seed))
        values = {**MIXED, "node_nm": MIXED["node_nm"] if nodes else [45]}
        grid = machine_grid(accelerator(base), values, area="mm2")
        box = tuple((min(a, b), max(a, b) + 1) for a, b in zip(one, other, strict=True))
        # No order is known of nodes.
        box = (*box[:3], (one[3], one[3] + 1) if nodes else (0, 1))
        ranges = zip(third, box, strict=True)
        within = tuple(min(max(place, first), stop - 1) for place, (first, stop) in ranges)
        alone = tuple((place, place + 1) for place in within)
        machine, ideal = grid.machine(within), grid.ideal(grid.corner(box))
        worst = grid.worst(box)
        size = area_mm2(machine)
        assert size is not None
        assert grid.area_mm2(box) <= size == grid.area_mm2(alone)
        # Ranks that say a corner is no worse say the same of its figures.
        assert (grid.ranks(grid.corner(box)) >= grid.ranks(grid.corner(alone))).all()
    for level, best in zip(machine.levels, ideal.levels, strict=True):
        assert all(a >= b for a, b in zip(level.energies, best.energies, strict=True))
        assert level.leakage_pj >= best.leakage_pj
        assert (level.capacity_words or 0) <= (best.capacity_words or 0)
        assert level.fanout <= best.fanout
    work = workload("gemm:M=8,N=12,K=6")
    code = MapSpace(work, machine).sample(np.random.default_rng(seed), 20)
    costs = LoopNestModel().evaluate(MapSpace(work, machine), code)
    at_best = LoopNestModel().evaluate(MapSpace(work, ideal), code)
    valid = np.isfinite(costs.energy_pj)
    assert (at_best.energy_pj[valid] <= costs.energy_pj[valid] * (1 + 1e-12)).all()
    assert (at_best.latency_cycles[valid] <= costs.latency_cycles[valid]).all()
    at_worst = LoopNestModel().evaluate(MapSpace(work, worst), code)
    kept = np.isfinite(at_worst.energy_pj)
    assert (costs.energy_pj[kept] <= at_worst.energy_pj[kept] * (1 + 1e-12)).all()
    assert (costs.latency_cycles[kept] <= at_worst.latency_cycles[kept]).all()


def test_the_ideal_takes_the_least_energy_whatever_size_has_it() -> None:
    grid = machine_grid(accelerator(COMPONENTS), {"L2.capacity_words": [512, 1024]})
    small, large = (grid.machine((place,)).levels[1] for place in (0, 1))
    assert large.energies[0] < small.energies[0]
    assert large.energies[1] > small.energies[1]
    ideal = grid.ideal(grid.corner(((0, 2),))).levels[1]
    assert ideal.capacity_words == 1024
    assert ideal.energies == (large.energies[0], *small.energies[1:])
    assert ideal.leakage_pj == small.leakage_pj < large.leakage_pj
    assert (ideal.component, ideal.area_mm2) == (None, None)


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e12), st.floats(1, 1e12), st.integers(1, 50)),
        min_size=1,
        max_size=6,
    )
)
def test_totals_are_bounded_whatever_each_layer_gets(
    layers: list[tuple[float, float, int]],
) -> None:
    energy = sum(count * e for e, _, count in layers)
    cycles = sum(count * d for _, d, count in layers)
    counts = [count for *_, count in layers]
    powers: dict[Objective, int] = {"edp": 1, "ed2p": 2}
    for objective, power in powers.items():
        bounds = [e * d**power for e, d, _ in layers]
        assert Aim(objective).least_total(bounds, counts) <= energy * cycles**power
    assert Aim("energy").least_total([e for e, *_ in layers], counts) == pytest.approx(energy)
