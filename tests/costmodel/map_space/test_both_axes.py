"""One dimension along both axes of a mesh: counted by hand, and held against plain Python."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from both_axes import check_meshes, fitting, random_meshes, splits

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.prover import AnyProver
from costmodel.independent.check import Claim, look_again
from costmodel.map_space.both_axes import heights_of
from mapspace.errors import ConfigError, ContractError

SLOW_SEEDS = range(100, 360)


def mesh(axes: str = "both", /, **changes: Any) -> dict[str, Any]:
    """A 4 x 4 mesh without hops below a buffer."""
    buffer = {"name": "L2", "capacity_words": 100, "energy_pj": 6.0, "fanout": 16, "mesh": [4, 4]}
    return {
        "name": "mesh",
        "mac_energy_pj": 1.0,
        "axes": axes,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {**buffer, **changes},
            {"name": "L1", "capacity_words": 8, "energy_pj": 1.0},
        ],
    }


POINTS = {"dimensions": {"K": 80}, "tensors": {"A": ["K"], "B": ["K"], "Z": ["K"]}, "output": "Z"}


@pytest.mark.parametrize(("axes", "cycles"), [("one", 20), ("both", 5)])
def test_a_loop_of_80_on_a_mesh_of_4_by_4(axes: str, cycles: int) -> None:
    found = ms.search(POINTS, mesh(axes), objective="latency", store=False)
    assert found.proven
    assert found.costs.latency_cycles == cycles
    # 80 x (MAC 1; L1 read twice for inputs, written thrice and read once: 3 fills or updates,
    # 3 reads; L2 the same; DRAM 240 words): every mapping moves every word once.
    assert found.costs.energy_pj == 80 * (1 + 200 * 3 + 6 * 5 + 5)
    (scored,) = ms.evaluate([found.record], store=False)
    assert (scored["result"]["cycles"], scored["result"]["energy_pj"]) == (cycles, 50_880)
    assert ms.verify(found).holds


def test_two_loops_of_a_dimension_are_shown_and_recorded() -> None:
    found = ms.search(POINTS, mesh(), objective="latency", store=False)
    text = str(found.mapping)
    assert "parallel for K in 4 along Y\n" in text
    assert "parallel for K in 4 along X\n" in text
    assert found.record["mapping"][1]["spatial"] == [["K", 4, "Y"], ["K", 4, "X"]]
    space = MapSpace(POINTS, mesh())
    code = space.code(found.mapping)
    assert space.describe(code) == found.mapping
    with pytest.raises(ContractError, match="whole nest"):
        found.mapping.to_record()


@pytest.mark.parametrize("seed", range(12))
def test_equals_all_mappings(seed: int) -> None:
    check_meshes(seed, 4_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_equals_all_mappings_of_many(seed: int) -> None:
    check_meshes(seed)


def test_most_of_these_meshes_have_split_loops() -> None:
    meshes = [random_meshes(seed, 4_000) for seed in range(12)]
    found = [splits(one.space, one.codes[fitting(one, one.codes)]) for one in meshes]
    assert sum(map(bool, found)) >= 9


@pytest.mark.parametrize("seed", range(12))
def test_what_is_feasible_is_counted_and_drawn(seed: int) -> None:
    meshes = random_meshes(seed, 4_000)
    space = meshes.space
    if (count := space.feasible_count()) is None or space.size() > 100_000:
        return
    grid = list(itertools.product(*map(range, space.cardinality.tolist())))
    codes = np.array(grid, np.int32)
    fits = meshes.rows.feasible(codes) & fitting(meshes, codes)
    assert count == fits.sum()
    if count:
        drawn = space.sample(np.random.default_rng(seed), 500, feasible=True)
        assert fitting(meshes, drawn).all()


def test_a_smaller_space_without_the_axes() -> None:
    one, both = (MapSpace("gemm:M=4,N=1,K=1", mesh(axes)) for axes in ("one", "both"))
    assert "spatial-axis.L2" in one.attribute_names
    assert "spatial-axis.L2" not in both.attribute_names
    assert one.size() == 8 * both.size()


@pytest.mark.parametrize("seed", range(4))
def test_the_independent_check_counts_the_same_mappings(seed: int) -> None:
    space = random_meshes(seed, 1_500).space
    if any(len(a.terms) > 1 for a in space.workload.tensors[-1].axes):
        return
    prover = AnyProver(space, objective="edp")
    while not prover.finished:
        prover.step()
    if prover.best_outcome is None:
        return
    (code,) = prover.codes()
    energy, cycles = prover.best_outcome
    cost = Fraction(energy) * prover.unit_pj, int(cycles)
    look = look_again(
        Claim(
            space.workload, space.accelerator, None, "edp", space.describe(code), cost, cost,
            tolerance=Fraction(1, 10**9),
        )
    )  # fmt: skip
    assert look.holds, look.findings
    assert look.complete


def test_heights_split_as_few_as_can_be() -> None:
    for factors in itertools.product((1, 2, 3, 4, 6, 8, 12), repeat=2):
        for only_x, only_y in ((0, 0), (1, 0), (0, 1), (2, 1)):
            tall = heights_of(factors, (6, 4), only_x, only_y)
            wide = [f // t for f, t in zip(factors, tall, strict=True)]
            assert all(f % t == 0 for f, t in zip(factors, tall, strict=True))
            for d, (t, w) in enumerate(zip(tall, wide, strict=True)):
                assert t == 1 or not (only_x >> d) & 1
                assert w == 1 or not (only_y >> d) & 1
            fits = math.prod(tall) <= 4 and math.prod(wide) <= 6
            possible = any(
                math.prod(some) <= 4 and math.prod(factors) // math.prod(some) <= 6
                for some in itertools.product(
                    *(
                        [1] if (only_x >> d) & 1 else [f] if (only_y >> d) & 1
                        else [t for t in range(1, f + 1) if f % t == 0]
                        for d, f in enumerate(factors)
                    )
                )
            )  # fmt: skip
            assert fits == possible
    assert heights_of((4, 4), (4, 4), 0, 0) == (1, 4) or heights_of((4, 4), (4, 4), 0, 0) == (4, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hop_energy_pj": 0.5}, "this one has hop_energy_pj; give axes: one"),
        ({"router_pj": 0.5}, "this one has router_pj; give axes: one"),
    ],
)
def test_hops_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MapSpace(POINTS, mesh(**changes))
    MapSpace(POINTS, mesh("one", **changes))
    MapSpace(POINTS, mesh(**changes, axes="one"))


def test_remainders_are_refused() -> None:
    with pytest.raises(ConfigError, match="need factors: perfect"):
        MapSpace(POINTS, mesh(), factors="imperfect")


def test_the_key_changes_a_machine_only_where_there_is_a_mesh() -> None:
    one, both = accelerator(mesh("one")), accelerator(mesh())
    unsaid = accelerator({k: v for k, v in mesh().items() if k != "axes"})
    assert one.hash == unsaid.hash != both.hash
    assert one.further_key is None
    assert both.further_key == "levels[1].axes"
    assert accelerator(mesh("one", axes="both")).hash == both.hash
    assert accelerator(mesh(axes="one")).hash == one.hash
    row = accelerator(mesh(mesh=[16, 1]))
    assert row.hash == accelerator(mesh("one", mesh=[16, 1])).hash
    assert row.further_key is None


def test_the_rule_is_said_beside_the_proof() -> None:
    found = ms.search(POINTS, mesh(), store=False)
    rest = "all tiles of a level at one place in the nest; tensors kept as the machine says"
    assert dict(found.facts())["space"] == (
        f"perfect factors; a dimension along one axis of a mesh, or both below L2; {rest}; "
        "Timeloop's counting without link transfers"
    )
    assert any(line.startswith("the space: perfect") for line in ms.verify(found).findings)
    asked = ms.search(POINTS, mesh("one"), axes="both", objective="latency", store=False)
    assert asked.costs.latency_cycles == 5


@pytest.mark.parametrize("searcher", ["structured", "genetic", "primitive-annealing"])
def test_searchers_find_split_loops(searcher: str) -> None:
    one, both = (
        ms.search("gemm:M=1000,N=1,K=1000", "shidiannao", axes=axes, store=False)
        for axes in ("one", "both")
    )
    assert one.proven
    assert both.proven
    assert one.costs.latency_cycles == 5 * both.costs.latency_cycles
    found = ms.search(
        "gemm:M=1000,N=1,K=1000", "shidiannao", axes="both", searcher=searcher, iterations=4000,
        store=False,
    )  # fmt: skip
    assert any(level.spatial_height for level in found.mapping.levels)
    assert found.costs.edp <= 1.01 * both.costs.edp


SPLIT = {"target": "L2", "type": "spatial", "split": 1}


def test_constraints_that_fix_places_hold() -> None:
    # K along the width only, everything else along the height only.
    fixed = [{**SPLIT, "permutation": "KMN"}]
    found = ms.search(
        "gemm:M=4,N=1,K=16", mesh(), objective="latency", constraints=fixed, store=False
    )
    assert found.costs.latency_cycles == 64 / 16
    assert dict(found.mapping.levels[1].spatial) == {"M": 4, "N": 1, "K": 4}
    with pytest.raises(ConfigError, match="how many dimensions run along the height"):
        MapSpace("gemm:M=4,N=2,K=16", mesh(), [SPLIT])
    assert MapSpace(workload("gemm:M=4,N=2,K=16"), mesh("one"), [SPLIT]).size() > 0


def scored(spatial: list[Any], **network: float) -> dict[str, Any]:
    """What a mapping of a product on a 4 x 4 mesh costs, as a record of a whole nest."""
    record = {
        "workload": "gemm:M=16,N=1,K=4",
        "accelerator": mesh("one", **network),
        "mapping": [
            {"level": "DRAM", "temporal": [["K", 2]]},
            {"level": "L2", "spatial": spatial},
            {"level": "L1", "temporal": [["M", 2]]},
        ],
    }
    (found,) = ms.evaluate([record], store=False)
    result: dict[str, Any] = found["result"]
    return result


def test_a_record_with_two_loops_of_a_dimension_is_counted() -> None:
    # 8 of M, 2 of K: 4 columns of M, in rows 2 of K and 2 of M.
    found = scored([["M", 2, "Y"], ["K", 2, "Y"], ["M", 4, "X"]])
    assert found["cycles"] == 4
    # Nothing else than the product matters where hops are free.
    assert scored([["K", 2, "X"], ["M", 2, "X"], ["M", 4, "Y"]])["energy_pj"] == found["energy_pj"]


@pytest.mark.parametrize(
    ("spatial", "hops"),
    [
        # Of B (K, N) rows 2 k and 2 k + 1 hold the same word: along the first row to column 3, then
        # from the centre 1.5 rows up or down each of the 4 columns.
        ([["K", 2, "Y"], ["M", 2, "Y"], ["M", 4, "X"]], 3 + 4 * 1.5),
        # Rows k and k + 2: 1.5 rows to one side and 0.5 to the other.
        ([["M", 2, "Y"], ["K", 2, "Y"], ["M", 4, "X"]], 3 + 4 * (1.5 + 0.5)),
        ([["M", 2, "Y"], ["K", 1, "X"], ["K", 2, "Y"], ["M", 4, "X"]], 3 + 4 * (1.5 + 0.5)),
    ],
)
def test_hops_of_two_loops_of_a_dimension(spatial: list[Any], hops: float) -> None:
    found = scored(spatial, hop_energy_pj=1.0)
    network = found["levels"][1]["network"]["B"]
    # Two groups of 8, each of which gets two words.
    assert network["multicast_scatter_accesses_hops"] == [[8, 2, 2 * 2, 2 * 2 * hops]]


@pytest.mark.parametrize(
    ("spatial", "words"),
    [
        ([["M", 2, "X"], ["K", 2, "Y"], ["M", 4, "X"]], "'M' has two loops along X; join them"),
        (
            [["M", 2, "Y"], ["K", 2, "Y"], ["K", 2, "X"], ["M", 2, "X"]],
            "share K, M stand in two orders; give one",
        ),
    ],
)
def test_loops_that_cannot_be_counted_are_refused(spatial: list[Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        scored(spatial)
