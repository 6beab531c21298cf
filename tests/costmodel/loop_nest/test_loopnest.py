"""Laws and edges of the loop-nest model: statuses, bypass, banks, bandwidth, bounds, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import (
    Accelerator,
    ContractError,
    LoopNestModel,
    MapSpace,
    accelerator,
    algorithmic_minimum,
    explain_status,
    floor,
    known_optimum,
    workload,
)
from costmodel.map_space.mapping import mapping_from_record
from costmodel.problems.workload_families import cnn, gemm, mttkrp

MODEL = LoopNestModel()
TABLE1 = (
    "resnet-conv3",
    "resnet-conv4",
    "inception-conv2",
    "inception-conv2-c64",
    "vgg-conv2",
    "alexnet-conv2",
    "alexnet-conv4",
    "mttkrp-0",
    "mttkrp-1",
)
# Normalised EDP of the proven optima, as published with them.
NORMALISED_OPTIMUM = {
    "vgg-conv2": 3.85,
    "inception-conv2-c64": 3.96,
    "alexnet-conv2": 4.98,
    "alexnet-conv4": 4.64,
    "resnet-conv3": 4.20,
    "resnet-conv4": 4.78,
    "mttkrp-0": 5.69,
    "mttkrp-1": 6.47,
}


def machine(**changes: object) -> Accelerator:
    return accelerator({"extends": "mm256", "name": "changed", **changes})


def code_of(space: MapSpace, record: dict[str, object]) -> np.ndarray:
    """The code of a record's `mapping`."""
    levels = space.accelerator.levels
    return space.code(
        mapping_from_record(
            record,
            tuple(level.name for level in levels),
            space.workload.dimension_names,
            space.workload.tensor_names,
            tuple(level.fanout > 1 for level in levels),
        )
    )


def capacities(l2: int, l1: int) -> list[dict[str, object]]:
    return [{"name": "L2", "capacity_words": l2}, {"name": "L1", "capacity_words": l1}]


def test_infeasible_mappings_have_a_status() -> None:
    space = MapSpace(gemm(name="g", M=64, N=64, K=64), machine(levels=capacities(4096, 1024)))
    codes = space.sample(np.random.default_rng(0), 5000)
    costs = MODEL.evaluate(space, codes)
    assert set(np.unique(costs.status)) == {0, 1, 3, 4}
    assert np.isinf(costs.edp[~costs.ok]).all()
    assert (costs.excess[~costs.ok] > 0).all()
    assert (costs.excess[costs.ok] == 0).all()
    assert (space.feasible(codes) == costs.ok).all()
    fanned = codes[costs.status == 1][0]
    mapping = space.describe(fanned)
    used = np.prod(list(mapping.levels[1].spatial.values()))
    assert MODEL.evaluate(space, fanned[None]).excess[0] == used - 256
    assert explain_status(3, 7, ("DRAM", "L2", "L1")) == "capacity of L2 exceeded by 7 words"


def test_capacity_excess_is_in_words() -> None:
    # All of a 64^3 GEMM in L1: three tiles of 4096 words against 1024.
    space = MapSpace(gemm(name="g", M=64, N=64, K=64), machine(levels=capacities(1 << 18, 1024)))
    code = np.zeros(space.cardinality.size, np.int32)  # every factor at the innermost slot
    assert space.describe(code).levels[2].temporal == {"M": 64, "N": 64, "K": 64}
    costs = MODEL.evaluate(space, code[None])
    assert costs.status[0] == 4
    assert costs.excess[0] == 3 * 4096 - 1024


@pytest.mark.parametrize(
    ("along_x", "along_y", "excess"),
    [(4, 2, 0), (8, 2, 4), (4, 16, 14), (8, 16, 14), (16, 4, 12), (2, 4, 2), (16, 1, 12)],
)
def test_the_excess_on_a_mesh_is_that_of_the_axis_that_is_most_over(
    along_x: int, along_y: int, excess: int
) -> None:
    levels = [{"name": "L2", "fanout": 8, "mesh": [4, 2]}]
    space = MapSpace(gemm(name="g", M=16, N=16, K=4), machine(levels=levels))
    spatial = {"M": along_x, "N": along_y}
    record = {
        "DRAM": {"temporal": {"M": 16 // along_x, "N": 16 // along_y}},
        "L2": {"temporal": {"K": 4}, "spatial": spatial},
        "L1": {},
        "spatial_axis": {"M": "X", "N": "Y", "K": "X"},
    }
    status, found = space.status(code_of(space, record)[None])
    assert found.tolist() == [excess]
    assert status.tolist() == [1 if excess else 0]


@pytest.mark.parametrize(
    ("m", "n", "k", "excess"),
    [(4, 1, 2, 0), (8, 1, 1, 0), (16, 1, 1, 8), (1, 4, 4, 8), (2, 4, 2, 8)],
)
def test_the_excess_of_a_fan_out_is_that_of_all_dimensions_together(
    m: int, n: int, k: int, excess: int
) -> None:
    space = MapSpace(gemm(name="g", M=16, N=4, K=4), machine(levels=[{"name": "L2", "fanout": 8}]))
    record = {
        "DRAM": {"temporal": {"M": 16 // m, "N": 4 // n, "K": 4 // k}},
        "L2": {"spatial": {"M": m, "N": n, "K": k}},
        "L1": {},
    }
    status, found = space.status(code_of(space, record)[None])
    assert (status.tolist(), found.tolist()) == ([1 if excess else 0], [excess])


@pytest.mark.parametrize("mesh", [None, [4, 2], [2, 4]])
@pytest.mark.parametrize(("inner", "excess"), [(2, 0), (4, 2)])
def test_a_fan_out_that_is_full_hides_no_other_that_is_exceeded(
    mesh: list[int] | None, inner: int, excess: int
) -> None:
    """DRAM's children are all in use, along both axes; what counts then is L2's."""
    width, height = mesh or (8, 1)
    levels = [
        {"name": "DRAM", "energy_pj": 10.0, "fanout": 8, "mesh": mesh},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 4096, "fanout": 2},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 4096},
    ]
    space = MapSpace(
        gemm(name="g", M=8, N=8, K=4),
        accelerator({"name": "two", "mac_energy_pj": 1.0, "levels": levels}),
    )
    record = {
        "DRAM": {
            "temporal": {"M": 8 // width, "N": 8 // height},
            "spatial": {"M": width, "N": height},
        },
        "L2": {"temporal": {"K": 4 // inner}, "spatial": {"K": inner}},
        "L1": {},
        **({"spatial_axis": {"M": "X", "N": "Y", "K": "X"}} if mesh else {}),
    }
    status, found = space.status(code_of(space, record)[None])
    assert (status.tolist(), found.tolist()) == ([1 if excess else 0], [excess])


@pytest.mark.parametrize(
    ("banks", "status", "excess"),
    [((1, 1, 6), 4, 8), ((3, 1, 4), 0, 0), ((2, 1, 5), 4, 4), ((5, 1, 2), 4, 4), ((2, 2, 4), 4, 4)],
)
def test_banks_of_the_inner_buffer_are_its_own(
    banks: tuple[int, int, int], status: int, excess: int
) -> None:
    """8 banks of 4 words in L1, plenty in L2: A and Z have 12 words each, B has 1."""
    levels = [
        {"name": "L2", "capacity_words": 4096, "banks": 4},
        {"name": "L1", "capacity_words": 32, "banks": 8},
    ]
    space = MapSpace(gemm(name="g", M=12, N=1, K=1), machine(levels=levels))
    names = dict(zip("ABZ", banks, strict=True))
    record = {
        "DRAM": {},
        "L2": {"banks": {"A": 1, "B": 2, "Z": 1}},
        "L1": {"temporal": {"M": 12}, "banks": names},
    }
    found = space.status(code_of(space, record)[None])
    assert [part.tolist() for part in found] == [[status], [excess]]


def test_the_outermost_level_overflows_where_others_are_bypassed() -> None:
    levels = [
        {"name": "DRAM", "capacity_words": 100},
        *capacities(1 << 18, 1 << 18),
    ]
    space = MapSpace(gemm(name="g", M=8, N=8, K=8), machine(levels=levels, overflow="bypass"))
    status, excess = space.status(np.zeros((1, space.cardinality.size), np.int32))
    # Three tiles of 64 words against 100.
    assert (status.tolist(), excess.tolist()) == ([2], [92])


@pytest.mark.parametrize(("bank_words", "excess"), [(33, 0), (32, 1), (20, 13)])
def test_a_tensor_has_the_words_of_its_banks_and_not_one_more(bank_words: int, excess: int) -> None:
    levels = [{"name": "L2", "banks": 4, "capacity_words": 4 * bank_words}]
    space = MapSpace(gemm(name="g", M=33, N=1, K=1), machine(levels=levels))
    record = {
        "DRAM": {},
        "L2": {"temporal": {"M": 33}, "banks": {"A": 1, "B": 1, "Z": 2}},
        "L1": {},
    }
    status, found = space.status(code_of(space, record)[None])
    assert found.tolist() == [excess]
    assert status.tolist() == [3 if excess else 0]


def test_overflow_of_any_buffer_bypasses_it() -> None:
    tight = capacities(3 * 4096 - 1, 3 * 4096)
    nest = gemm(name="g", M=64, N=64, K=64)
    space = MapSpace(nest, machine(levels=tight, overflow="bypass"))
    costs = MODEL.evaluate(space, np.zeros((1, space.cardinality.size), np.int32), detail=True)
    assert costs.detail is not None
    # Everything is in L1; L2 has no room for the last of the three.
    assert costs.detail.tile[0, 1:].tolist() == [[4096, 4096, 0], [4096] * 3]
    assert costs.status.tolist() == [0]


def test_overflow_may_bypass_instead() -> None:
    tight = capacities(1 << 18, 1024)
    nest = gemm(name="g", M=64, N=64, K=64)
    skipping = MapSpace(nest, machine(levels=tight, overflow="bypass"))
    searched = MapSpace(nest, machine(levels=tight, bypass="searched"))
    code = np.zeros(skipping.cardinality.size, np.int32)
    costs = MODEL.evaluate(skipping, code[None], detail=True)
    assert costs.status[0] == 0
    assert costs.detail is not None
    assert (costs.detail.tile[0, 2] == 0).all(), "4096-word tiles do not fit 1024 words"
    explicit = np.concatenate([code, [0b111, 0b000]]).astype(np.int32)
    assert MODEL.evaluate(searched, explicit[None]).edp[0] == costs.edp[0]


def test_bypass_searched_covers_keeping_all() -> None:
    nest = cnn(name="c", N=2, K=8, C=8, P=8, Q=8, R=3, S=3)
    plain, searched = MapSpace(nest, machine()), MapSpace(nest, machine(bypass="searched"))
    codes = plain.sample(np.random.default_rng(1), 300)
    keep_all = np.full((300, 2), 0b111, np.int32)
    wide = np.concatenate([codes, keep_all], axis=1)
    assert (MODEL.evaluate(plain, codes).edp == MODEL.evaluate(searched, wide).edp).all()


def test_banks_split_the_capacity() -> None:
    nest = gemm(name="g", M=64, N=64, K=64)
    shared, banked = (
        MapSpace(nest, accelerator("mm256")),
        MapSpace(nest, accelerator("mindmappings")),
    )
    codes = banked.sample(np.random.default_rng(2), 4000)
    ours, unbanked = MODEL.evaluate(banked, codes), MODEL.evaluate(shared, codes[:, :-2])
    assert (ours.edp[ours.ok] == unbanked.edp[ours.ok]).all(), "banks only limit tiles"
    assert (unbanked.ok | ~ours.ok).all()
    assert banked.cardinality[-2] == 105  # ordered splits of 16 banks among 3 tensors


def test_bandwidth_only_adds_cycles() -> None:
    nest = workload("resnet-conv4")
    free, limited = MapSpace(nest, accelerator("mm256")), MapSpace(nest, accelerator("mm256-bw"))
    codes = free.sample(np.random.default_rng(3), 2000, feasible=True)
    plain, slow = MODEL.evaluate(free, codes), MODEL.evaluate(limited, codes)
    assert (plain.energy_pj == slow.energy_pj).all()
    assert (slow.latency_cycles >= plain.latency_cycles).all()
    assert (slow.latency_cycles > plain.latency_cycles).any()


@pytest.mark.parametrize("name", [*TABLE1, "gemm-1024"])
def test_bounds_hold(name: str) -> None:
    nest = workload(name)
    for machine_name in ("mm256", "mm256-bw", "mm256-bypass", "mindmappings-released"):
        space = MapSpace(nest, accelerator(machine_name))
        costs = MODEL.evaluate(space, space.sample(np.random.default_rng(4), 20_000))
        least = floor(nest, space.accelerator)
        assert (costs.energy_pj[costs.ok] >= least.energy_pj).all()
        assert (costs.latency_cycles[costs.ok] >= least.latency_cycles).all()
    optimum = known_optimum(nest, accelerator("mm256"))
    assert optimum is not None
    assert floor(nest, accelerator("mm256")).edp < optimum


def test_the_floor_can_be_reached_and_is_not_undercut() -> None:
    # One tile per tensor in L1, the reduction spread over all 256 PEs: nothing moves twice.
    nest = gemm(name="g", M=4, N=4, K=256)
    space = MapSpace(nest, accelerator("mm256"))
    code = np.zeros(space.cardinality.size, np.int32)
    rows = space.tables.factors[space.tables.row_start[2] : space.tables.row_start[3]]
    code[2] = np.flatnonzero(rows[:, 2] == 256)[0]
    costs = MODEL.evaluate(space, code[None])
    assert costs.edp[0] == floor(nest, space.accelerator).edp


@pytest.mark.parametrize(("name", "normalised"), sorted(NORMALISED_OPTIMUM.items()))
def test_algorithmic_minimum_normalises_as_published(name: str, normalised: float) -> None:
    nest, mm256 = workload(name), accelerator("mm256")
    optimum = known_optimum(nest, mm256)
    assert optimum is not None
    assert round(optimum / algorithmic_minimum(nest, mm256).edp, 2) == normalised


def test_an_access_of_the_algorithmic_minimum_serves_a_block() -> None:
    nest = workload("gemm:M=8,N=8,K=8")
    one = accelerator(
        {"name": "one", "mac_energy_pj": 0.0, "levels": [{"name": "DRAM", "energy_pj": 8.0}]}
    )
    levels = [one.levels[0].model_copy(update={"block_words": 4})]
    blocks = one.model_copy(update={"levels": tuple(levels)})
    assert algorithmic_minimum(nest, one).energy_pj == 3 * 64 * 8.0
    assert algorithmic_minimum(nest, blocks).energy_pj == 3 * 64 * 8.0 / 4


def test_optimum_is_found_by_content() -> None:
    same = mttkrp(name="renamed", I=128, J=1024, K=4096, L=2048)
    assert known_optimum(same, accelerator("mm256")) == known_optimum(
        workload("mttkrp-0"), accelerator("mm256")
    )
    assert known_optimum(same, accelerator("edge-1024")) is None


def test_counts_of_the_largest_preset_are_exact() -> None:
    # Every loop at DRAM: each of the 1.1e12 MACs reads its inputs there.
    nest = workload("mttkrp-0")
    space = MapSpace(nest, accelerator("mm256"))
    code = np.zeros(space.cardinality.size, np.int32)
    code[:4] = space.cardinality[:4] - 1  # lexicographically last: the whole size at DRAM
    costs = MODEL.evaluate(space, code[None], detail=True)
    assert costs.detail is not None
    assert nest.macs == 128 * 1024 * 4096 * 2048 == 2**40
    assert int(costs.detail.reads[0, 2, 0]) == 2**40
    assert costs.latency_cycles[0] == 2.0**40
    assert np.isfinite(costs.edp[0])
    assert costs.edp[0] > 1e26
    words = costs.detail.reads + costs.detail.fills + costs.detail.updates
    per_level = (words * costs.detail.instances[:, :, None]).sum(axis=2)[0]
    exact = sum(
        int(count) * round(level.energy_pj * 100)
        for count, level in zip(per_level, space.accelerator.levels, strict=True)
    )
    exact += nest.macs * 100
    assert costs.energy_pj[0] == pytest.approx(exact / 100, rel=1e-15)


def test_an_edge_sized_workload_does_not_overflow() -> None:
    # 2^55 MACs: counts at and around 2^55 must still be exact and positive.
    nest = gemm(name="huge", M=2**19, N=2**18, K=2**18)
    space = MapSpace(nest, accelerator("mm256"))
    codes = space.sample(np.random.default_rng(5), 20_000)
    codes[0] = 0
    codes[0, :3] = space.cardinality[:3] - 1
    costs = MODEL.evaluate(space, codes, detail=True)
    assert costs.ok[0]
    assert costs.detail is not None
    for counts in (costs.detail.reads, costs.detail.fills, costs.detail.updates):
        assert (counts >= 0).all()
    assert int(costs.detail.reads[0, 2, 0]) == 2**55
    assert (costs.edp > 0).all()


def test_misuse_is_refused() -> None:
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator("mm256"))
    with pytest.raises(ContractError, match=r"shape \[B, 6\]"):
        MODEL.evaluate(space, np.zeros((2, 5), np.int32))
    codes = np.zeros((2, 6), np.int32)
    codes[1, 3] = 6
    with pytest.raises(ContractError, match=r"\[1, 3\] \(order.DRAM\) must lie in 0..5, got 6"):
        MODEL.evaluate(space, codes)
    with pytest.raises(ContractError, match="integer"):
        MODEL.evaluate(space, codes.astype(float))


SIZES = st.sampled_from([1, 2, 3, 4, 6])


@settings(max_examples=60)
@given(
    sizes=st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES),
    window=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 3])),
    stride=st.sampled_from([1, 2, 3]),
    dilation=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**31),
)
def test_laws_of_convolutions(
    sizes: tuple[int, ...], window: tuple[int, int], stride: int, dilation: int, seed: int
) -> None:
    n, k, c, p, q = sizes
    nest = cnn(name="c", N=n, K=k, C=c, P=p, Q=q, R=window[0], S=window[1],
               stride=stride, dilation=dilation)  # fmt: skip
    space = MapSpace(nest, machine(levels=capacities(512, 64)))
    rng = np.random.default_rng(seed)
    codes = space.sample(rng, 64)
    costs = MODEL.evaluate(space, codes, detail=True)
    detail, ok = costs.detail, costs.ok
    assert detail is not None
    if not ok.any():
        return
    # The parts add up to the whole.
    parts = detail.energy_pj.sum(axis=(1, 2)) + detail.mac_energy_pj
    assert np.allclose(parts[ok], costs.energy_pj[ok], rtol=1e-12)
    # Work is conserved: PEs x cycles is the number of MACs, and each reads its weights once.
    assert (detail.instances[ok, 2] * costs.latency_cycles[ok] == nest.macs).all()
    assert (detail.reads[ok, 2, 0] * detail.instances[ok, 2] == nest.macs).all()
    # What enters a level was read above, never more often than it is received.
    for tensor in (0, 1):
        assert (detail.fills[ok, 1, tensor] == detail.reads[ok, 0, tensor]).all()
        received = detail.fills[ok, 2, tensor] * detail.instances[ok, 2]
        assert (detail.reads[ok, 1, tensor] <= received).all()
    # The order of the innermost level's loops is free.
    other = codes.copy()
    column = space.attribute_names.index("order.L1")
    other[:, column] = rng.integers(0, space.cardinality[column], len(other))
    assert np.array_equal(MODEL.evaluate(space, other).edp, costs.edp)
