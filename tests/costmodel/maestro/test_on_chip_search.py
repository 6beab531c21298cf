"""The enumeration of on-chip mappings against plain loops, every code, and MAESTRO."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from on_chip_cases import (
    DENSE,
    EDGE,
    EYERISS,
    SMALL,
    SQUARE,
    STRIDED,
    all_codes,
    machine,
    table_3,
    whole,
)

from costmodel import ConfigError, accelerator
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import (
    DATAFLOWS,
    MaestroModel,
    OnChipOptimum,
    Pruning,
    mappings_from_records,
    on_chip_search,
)
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.on_chip_search import OBJECTIVES, _Record, model_of
from costmodel.maestro.platform import Platform


def in_plain_loops(layer: Layer, platform: Accelerator) -> dict[str, dict[str, float]]:
    """Every mapping by nested loops and records; the least of every objective by family."""
    limits = Platform.of(platform)
    k, c, r, s, p, q = layer.bounds
    bounds = dict(zip("KCPQ", (k, c, p, q), strict=True))
    pairs = {
        d: [(t, f) for t in range(1, n + 1) for f in range(1, n + 1) if n % (t * f) == 0]
        for d, n in bounds.items()
    }
    records = []
    for choice in itertools.product(*pairs.values()):
        tile = {d: t for d, (t, _) in zip(bounds, choice, strict=True)}
        factors = {d: f for d, (_, f) in zip(bounds, choice, strict=True) if f > 1}
        width = (tile["P"] - 1) * layer.stride + s
        height = (tile["Q"] - 1) * layer.stride + r
        if layer.stride > s:
            width, height = tile["P"], tile["Q"]
        held = tile["C"] * width * height + tile["K"] * tile["C"] * r * s
        held += tile["C" if layer.depthwise else "K"] * tile["P"] * tile["Q"]
        used = np.prod(list(factors.values()), dtype=int)
        if len(factors) > 3 or used > limits.processing_elements or 2 * held > limits.l1_capacity:
            continue
        records += [
            {
                "maestro_type": "DSCONV" if layer.depthwise else "CONV",
                "l3_tile": dict(zip("KCRSPQ", layer.bounds, strict=True)),
                "stride": layer.stride,
                "platform": {"noc_bw": limits.noc_bandwidth},
                "style": "generic",
                "order": list(order),
                "t1": tile,
                "par": [[d, factors[d]] for d in nesting],
                "hop_latency": 1,
            }
            for nesting in itertools.permutations(factors)
            for order in itertools.permutations("KCPQ")
        ]
    costs = MaestroModel().cost(mappings_from_records(records))
    least: dict[str, dict[str, float]] = {}
    for row, record in enumerate(records):
        names = {d for d, _ in record["par"]}
        family = least.setdefault("".join(d for d in "KCPQ" if d in names) or "none", {})
        runtime = float(costs.counts.runtime_cycles[row])
        energy = float(costs.energies.total[row])
        for name, value in zip(OBJECTIVES, (runtime, energy, runtime * energy), strict=True):
            family[name] = min(value, family.get(name, np.inf))
    return least


def by_family(found: OnChipOptimum) -> dict[str, dict[str, float]]:
    return {
        label: {name: best.value for name, best in kept.items()}
        for label, kept in found.families.items()
    }


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_equals_plain_loops(layer: Layer) -> None:
    expected = in_plain_loops(layer, machine())
    found = on_chip_search(layer, layer.bounds, machine())
    assert found.proven
    assert by_family(found) == expected
    for name in OBJECTIVES:
        assert found.best[name].value == min(family[name] for family in expected.values())


@given(
    sizes=st.sampled_from([(6, 2, 2, 1), (4, 3, 2, 1), (4, 2, 2, 2)]).flatmap(st.permutations),
    window=st.sampled_from([(1, 1), (3, 3), (3, 1)]),
    stride=st.integers(1, 2),
    depthwise=st.booleans(),
    elements=st.integers(2, 20),
    l1=st.integers(60, 200),
    bandwidth=st.integers(1, 9),
    fidelity=st.sampled_from(["maestro", "corrected"]),
)
@settings(max_examples=25)
def test_equals_every_code(
    sizes: list[int],
    window: tuple[int, int],
    stride: int,
    depthwise: bool,
    elements: int,
    l1: int,
    bandwidth: int,
    fidelity: Any,
) -> None:
    k, c, p, q = sizes
    layer = Layer("drawn", 1 if depthwise else k, c, *window, p, q, stride, depthwise)
    platform, model = machine(elements, l1, bandwidth), MaestroModel(fidelity=fidelity)
    space = whole(layer, platform)
    costs = model.evaluate(space, all_codes(space))
    found = on_chip_search(layer, layer.bounds, platform, model=model)
    assert found.evaluated <= found.mappings <= space.size()
    for name, values in zip(
        OBJECTIVES, (costs.latency_cycles, costs.energy_pj, costs.edp), strict=True
    ):
        assert found.best[name].value == values.min()
        # What is reported is what the mapping costs.
        again = model.cost(found.best[name].mapping)
        assert again.counts.runtime_cycles[0] == found.best[name].runtime_cycles
        assert again.energies.total[0] == found.best[name].energy


@pytest.mark.parametrize("row", ["l3", "l9"])
def test_bounds_and_symmetry_lose_nothing(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, tile = table_3(row)
    with_ = on_chip_search(layer, tile, EDGE)
    monkeypatch.setattr(_Record, "_bounds", lambda _, costs, mappings, reads: 0.0)
    without = on_chip_search(layer, tile, EDGE, pruning=Pruning(symmetry=False))
    assert with_.evaluated < without.evaluated == without.mappings
    assert by_family(with_) == by_family(without)


@pytest.mark.parametrize(
    ("row", "platform", "bar", "least"),
    [
        ("l5", EYERISS, 3_824, 3_824),
        ("l5", EDGE, 496, 496),
        ("l8", EYERISS, 40_092, 39_396),
        ("l8", EDGE, 5_962, 5_960),
        ("l12", EYERISS, 14_848, 14_752),
        ("l12", EDGE, 1_838, 1_838),
    ],
)
def test_no_worse_than_sampling_with_maestro(
    row: str, platform: Accelerator, bar: int, least: int
) -> None:
    # Bars: the least cycles that sampling with the real MAESTRO found, per level-3 tile.
    found = on_chip_search(*table_3(row), platform)
    assert found.proven
    assert found.best["runtime"].runtime_cycles == least <= bar
    for name in DATAFLOWS:
        flow = on_chip_search(*table_3(row), platform, dataflow=name)
        assert flow.best["runtime"].value >= found.best["runtime"].value
        assert flow.best["energy"].value >= found.best["energy"].value


def test_reference_dataflows() -> None:
    layer = Layer("flow", K=8, C=4, R=3, S=3, P=4, Q=6)
    flows = {
        name: on_chip_search(layer, layer.bounds, machine(l1=400), dataflow=name)
        for name in DATAFLOWS
    }
    for name, found in flows.items():
        for best in found.best.values():
            described = best.described
            assert described.order == ("K", "C", "Q", "P")
            assert described.row_stationary == (name == "QR")
            assert set(described.family) <= set(name) or described.family == "none"
            assert all(described.tile[d] == 1 for d in DATAFLOWS[name].single)
            assert int(best.mapping.elements[0]) <= 8
    # Without a filter to keep rows of, row-stationary is parallel over Q.
    found = on_chip_search(STRIDED, STRIDED.bounds, machine(), dataflow="QR")
    assert not found.best["runtime"].described.row_stationary


def test_symmetry_keeps_the_optimum() -> None:
    with_, without = (
        on_chip_search(SQUARE, SQUARE.bounds, machine(), pruning=Pruning(symmetry=on))
        for on in (True, False)
    )
    assert with_.mappings < without.mappings
    assert by_family(with_) == by_family(without)
    oblong = [
        on_chip_search(DENSE, DENSE.bounds, machine(), pruning=Pruning(symmetry=on)).mappings
        for on in (True, False)
    ]
    assert oblong[0] == oblong[1]


def test_utilisation_bound() -> None:
    found = on_chip_search(DENSE, DENSE.bounds, machine(), pruning=Pruning(utilisation_bound=0.9))
    full = on_chip_search(DENSE, DENSE.bounds, machine())
    assert found.fitting < full.fitting
    for best in found.best.values():
        assert best.mapping.elements[0] == 8
    assert found.best["energy"].value >= full.best["energy"].value
    with pytest.raises(ConfigError, match="no mapping passes the pruning"):
        on_chip_search(
            DENSE, DENSE.bounds, machine(elements=500), pruning=Pruning(utilisation_bound=1.0)
        )
    with pytest.raises(ConfigError, match="utilisation_bound: expected 0 to 1, got 2"):
        Pruning(utilisation_bound=2)


def test_remainders_need_corrected_counts() -> None:
    layer, model = Layer("odd", K=7, C=2, R=1, S=1, P=3, Q=1), MaestroModel(fidelity="corrected")
    off = Pruning(no_remainders=False)
    with pytest.raises(ConfigError, match="no_remainders: fidelity maestro needs it on"):
        on_chip_search(layer, layer.bounds, machine(4), pruning=off)
    dividing = on_chip_search(layer, layer.bounds, machine(4), model=model)
    found = on_chip_search(layer, layer.bounds, machine(4), model=model, pruning=off)
    assert found.best["runtime"].value < dividing.best["runtime"].value
    space = whole(layer, machine(4), remainders=True)
    costs = model.evaluate(space, all_codes(space))
    assert found.best["edp"].value == costs.edp.min()


def test_finite_l1() -> None:
    free = on_chip_search(DENSE, DENSE.bounds, machine(l1=40), pruning=Pruning(finite_l1=False))
    held = on_chip_search(DENSE, DENSE.bounds, machine(l1=40))
    assert free.fitting > held.fitting
    assert free.best["energy"].value < held.best["energy"].value


@pytest.mark.parametrize("name", ["unroll_filter", "batch_one"])
def test_what_is_always_on(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: always on in this model"):
        Pruning(**{name: False})


def test_limits_and_progress() -> None:
    layer, tile = table_3("l5")
    seen: list[tuple[int, float]] = []
    found = on_chip_search(
        layer, tile, EYERISS, seconds=0, progress=lambda *state: seen.append(state)
    )
    assert not found.proven
    assert seen == [(found.evaluated, 1.0)]
    assert set(found.best) == set(OBJECTIVES)
    only = on_chip_search(layer, tile, EYERISS, objectives=("runtime",))
    assert set(only.best) == {"runtime"}
    assert only.proven
    with pytest.raises(ConfigError, match="Unknown objective 'latency'; known: runtime"):
        on_chip_search(layer, tile, EYERISS, objectives=("latency",))
    with pytest.raises(ConfigError, match="Unknown dataflow 'NVDLA'; known: KC"):
        on_chip_search(layer, tile, EYERISS, dataflow="NVDLA")


def test_the_accelerators_energies_count() -> None:
    dear = accelerator({"extends": "eyeriss-168", "name": "dear", "mac_energy_pj": 3.0})
    assert (model_of(dear).mac_units, model_of(dear).l2_access_units) == (3.0, 18.61)
    cheap, costly = (on_chip_search(DENSE, DENSE.bounds, m) for m in (EYERISS, dear))
    more = costly.best["energy"].value - cheap.best["energy"].value
    assert more == pytest.approx(2.0 * DENSE.macs)
