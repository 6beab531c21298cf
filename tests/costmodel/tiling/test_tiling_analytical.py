"""The analytical cost of tilings by hand, against a walk through the loops, and the loop nests."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from test_tiling_space import every_code, space_of

from costmodel import (
    Accelerator,
    Codes,
    ConfigError,
    ContractError,
    LoopNestModel,
    Mapping,
    MapSpace,
    accelerator,
    workload,
)
from costmodel.map_space.mapping import LevelMapping
from costmodel.tiling import AnalyticalTiling, TilingSpace
from costmodel.tiling.loop_nest import DIMENSIONS, nest
from searchers import Evaluator, make

TENSORS = {"A": ("M", "K"), "B": ("K", "N"), "Z": ("M", "N")}


def machine(*capacities: int, lanes: int = 2, units: int = 1) -> Accelerator:
    """DRAM, caches of so many words, and registers as the last of them."""
    names = ["DRAM", *(f"L{len(capacities) - i}" for i in range(1, len(capacities))), "Registers"]
    levels: list[dict[str, Any]] = [
        {
            "name": name,
            "capacity_words": capacity,
            "energy_pj": 10.0 ** (len(capacities) - i),
            "read_bandwidth": 0.5 + i,
            "write_bandwidth": 1.0 + 0.5 * i,
        }
        for i, (name, capacity) in enumerate(zip(names, (None, *capacities), strict=True))
    ]
    levels[-1] |= {"fanout": lanes * units, "mesh": (lanes, units)}
    return accelerator({"name": "core", "mac_energy_pj": 0.5, "levels": levels})


def held_from(trips: list[tuple[str, int]], capacity: int, line: int, lanes: int) -> int:
    """The first loop inside of which all three tiles fit a level together."""
    for position in range(len(trips) + 1):
        if sum(tile_words(trips, position, t, line, lanes) for t in TENSORS) <= capacity:
            return position
    raise AssertionError("nothing fits")


def tile_words(
    trips: list[tuple[str, int]], position: int, tensor: str, line: int, lanes: int
) -> int:
    """Words of a tensor's tile inside the loops from a position on."""
    extent = {"M": 1, "K": 1, "N": math.ceil(trips[-1][1] / math.ceil(trips[-1][1] / lanes))}
    if position < len(trips):
        extent["N"] = 1
        for name, count in trips[position:]:
            extent[name] *= count
    row, column = TENSORS[tensor]
    return extent[row] * math.ceil(extent[column] / line) * line


def walked(space: TilingSpace, code: Codes, core: Accelerator, line: int) -> tuple[float, float]:
    """Energy and cycles by walking through the loops and noting when a tile changes."""
    trips = [
        (DIMENSIONS[loop.dimension], space.describe(code).factors[DIMENSIONS[loop.dimension]][i])
        for loop in nest(space.splits)
        for i in [loop.depth]
    ]
    lanes, units = core.levels[-1].mesh or (core.levels[-1].fanout, 1)
    steps = math.ceil(trips[-1][1] / lanes)
    width = math.ceil(trips[-1][1] / steps)
    walk = [*trips[:-1], ("N", steps)]
    operations = math.prod(count for _, count in walk)
    entering = {"A": [operations], "B": [operations * width], "Z": [operations * width]}
    before = 0
    for index, level in list(enumerate(core.levels))[1:]:
        words = 1 if level is core.levels[-1] else line
        assert level.capacity_words is not None
        position = max(before, held_from(trips, level.capacity_words, words, lanes))
        before = position
        for tensor, dimensions in TENSORS.items():
            brought, held = 0, None
            for at in itertools.product(*(range(count) for _, count in walk[:position])):
                wanted = [
                    i
                    for i, (name, _) in zip(at, walk[:position], strict=True)
                    if name in dimensions
                ]
                brought += wanted != held
                held = wanted
            total = brought * tile_words(trips, position, tensor, words, lanes)
            entering[tensor].insert(index - 1, total)
    energy, cycles = 0.5 * space.workload.macs, math.ceil(operations / units)
    made = space.workload.words(2)
    for index, level in enumerate(core.levels):
        read = sum(entering[t][index] for t in TENSORS) - made
        written = entering["Z"][index]
        if index:
            written += sum(entering[t][index - 1] for t in TENSORS) - made
        energy += (read + written) * level.energy_pj
        assert level.read_bandwidth is not None
        assert level.write_bandwidth is not None
        cycles = max(cycles, math.ceil(read / level.read_bandwidth))
        cycles = max(cycles, math.ceil(written / level.write_bandwidth))
    return energy, cycles


BY_HAND = np.array([[2, 1, 1, 2, 1, 2, 1, 1, 2, 2]])  # for m0 2, n2 2, k1 2, m3 2, n3 2


def test_a_tiling_by_hand() -> None:
    """Inside m0, 4 + 8 + 8 words fit L1; inside k1, 2 + 2 + 4 fit the registers."""
    space = space_of(4, 2, 4)
    costs = AnalyticalTiling(machine(20, 8), line_words=1).evaluate(
        space, space.codes(BY_HAND), detail=True
    )
    detail = costs.detail
    assert detail is not None
    assert detail.tile[0].tolist() == [[8, 8, 16], [4, 8, 8], [2, 2, 4]]
    # m0 does not change B; k1 does not change Z; two of n3 at once read one word of A.
    assert detail.reads[0].tolist() == [[8, 8, 0], [16, 16, 0], [16, 32, 16]]
    assert detail.fills[0].tolist() == [[0, 0, 0], [8, 8, 0], [16, 16, 0]]
    assert detail.updates[0].tolist() == [[0, 0, 16], [0, 0, 16], [0, 0, 32]]
    assert costs.energy_pj.tolist() == [100 * 32 + 10 * 64 + 1 * 128 + 0.5 * 32]
    # DRAM: 16 / 0.5 read; L1: 32 / 1.5 read, 32 / 1.5 written; registers: 64 / 2.5, 64 / 2.
    assert costs.latency_cycles.tolist() == [32]
    assert detail.utilisation.tolist() == [32 / (2 * 32)]


def test_a_cache_that_is_too_small_spills_by_hand() -> None:
    """One word less, and L1 keeps what n2 steps through: A stays, B comes again with every m0."""
    space = space_of(4, 2, 4)
    costs = AnalyticalTiling(machine(19, 8), line_words=1).evaluate(
        space, space.codes(BY_HAND), detail=True
    )
    assert costs.detail is not None
    assert costs.status.tolist() == [0]
    assert costs.detail.tile[0, 1].tolist() == [4, 4, 4]
    assert costs.detail.reads[0, 0].tolist() == [8, 16, 0]


def test_lines_by_hand() -> None:
    """Two elements of a row of A take a line of four; registers still load words."""
    space = space_of(4, 2, 4)
    model = AnalyticalTiling(machine(24, 8), line_words=4)
    detail = model.evaluate(space, space.codes(BY_HAND), detail=True).detail
    assert detail is not None
    assert detail.tile[0].tolist() == [[16, 8, 16], [8, 8, 8], [2, 2, 4]]
    assert detail.reads[0].tolist() == [[16, 8, 0], [16, 16, 0], [16, 32, 16]]


def test_vectors_by_hand() -> None:
    """Eleven elements in lanes of four are three operations, on two units; one is one."""
    space = space_of(2, 1, 11)
    fast = accelerator(
        {
            "levels": [
                {"name": "DRAM", "energy_pj": 1.0},
                {"name": "Registers", "energy_pj": 1.0, "capacity_words": 99, "fanout": 8,
                 "mesh": [4, 2]},
            ],
            "mac_energy_pj": 1.0,
        }
    )  # fmt: skip
    codes = space.codes(
        np.array([[2, 1, 1, 1, 1, 1, 1, 1, 1, 11], [2, 1, 1, 1, 1, 1, 11, 1, 1, 1]])
    )
    assert AnalyticalTiling(fast).evaluate(space, codes).latency_cycles.tolist() == [3, 11]


@pytest.mark.parametrize(
    ("capacities", "line"), [((90, 33, 13), 1), ((90, 33, 13), 4), ((20, 80), 2)]
)
@pytest.mark.parametrize("sizes", [(8, 4, 8), (6, 4, 10), (5, 1, 12)])
def test_costs_equal_a_walk_through_the_loops(sizes: Any, capacities: Any, line: int) -> None:
    """Also where an inner level is the larger one: what it keeps, the outer one keeps too."""
    space = space_of(*sizes)
    core = machine(*capacities, lanes=3, units=2)
    codes = space.sample(np.random.default_rng(1), 60)
    costs = AnalyticalTiling(core, line_words=line).evaluate(space, codes)
    for code, energy, cycles in zip(codes, costs.energy_pj, costs.latency_cycles, strict=True):
        assert (energy, cycles) == pytest.approx(walked(space, code, core, line), rel=1e-12)


def test_the_best_tiling_equals_brute_force() -> None:
    space = space_of(4, 4, 4, splits=(3, 2, 3))
    core = machine(40, 9, lanes=2)
    codes = every_code(space)
    costs = AnalyticalTiling(core, line_words=2).evaluate(space, codes)
    products = [math.prod(walked(space, code, core, 2)) for code in codes]
    assert costs.edp.min() == pytest.approx(min(products), rel=1e-12)
    assert len(np.unique(costs.edp)) > 20


def as_loop_nest(space: TilingSpace, code: Codes, core: Accelerator, doubled: MapSpace) -> Mapping:
    """The same loops as a mapping: each level's innermost run of one dimension stands apart.

    A level of a mapping has one loop per dimension, a tiling may have several. Only their product
    matters, and which of them stand innermost without another dimension between.
    """
    trips = [
        (DIMENSIONS[loop.dimension], space.describe(code).factors[DIMENSIONS[loop.dimension]][i])
        for loop in nest(space.splits)
        for i in [loop.depth]
    ]
    lanes = core.levels[-1].fanout
    bounds = [0]
    for level in core.levels[1:]:
        assert level.capacity_words is not None
        bounds.append(max(bounds[-1], held_from(trips, level.capacity_words, 1, lanes)))
    bounds.append(len(trips))
    width = min(trips[-1][1], lanes)
    trips[-1] = ("N", trips[-1][1] // width)
    levels = []
    for index in range(len(core.levels)):
        inside = [entry for entry in trips[bounds[index] : bounds[index + 1]] if entry[1] > 1]
        run: list[tuple[str, int]] = []
        while index < len(core.levels) - 1 and inside and (not run or inside[-1][0] == run[0][0]):
            run.append(inside.pop())
        for part, loops in enumerate((inside, run)):
            temporal = dict.fromkeys("MNK", 1)
            for name, count in loops:
                temporal[name] *= count
            last = loops[-1][0] if loops else "K"
            level = doubled.accelerator.levels[min(2 * index + part, 2 * len(core.levels) - 2)]
            spread = level.fanout > 1
            levels.append(
                LevelMapping(
                    name=level.name,
                    temporal=temporal,
                    order=(*(name for name in "MNK" if name != last), last),
                    spatial={"M": 1, "K": 1, "N": width} if spread else {},
                    spatial_order=tuple("MNK") if spread else (),
                    keep=() if part else ("A", "B", "Z"),
                )
            )
    return Mapping(tuple(levels[:-1]), ("A", "B", "Z"))


@pytest.mark.parametrize(
    ("sizes", "capacities", "lanes"),
    [((16, 8, 32), (300, 80, 24), 4), ((12, 6, 15), (120, 40, 7), 1), ((8, 16, 8), (50, 17), 8)],
)
def test_costs_equal_the_loop_nest_model(sizes: Any, capacities: Any, lanes: int) -> None:
    """Count for count, on a machine with a second, bypassed level inside each memory."""
    space = space_of(*sizes)
    core = machine(*capacities, lanes=lanes)
    levels: list[dict[str, Any]] = []
    for level in core.levels:
        levels.append(level.model_dump() | {"mesh": None})
        levels.append({"name": f"{level.name}-run", "capacity_words": 1, "energy_pj": 0.0})
    doubled = MapSpace(
        space.workload,
        accelerator({"levels": levels[:-1], "mac_energy_pj": 0.5, "bypass": "searched"}),
    )
    tilings = np.concatenate([space.sample(np.random.default_rng(2), 150), [space.start]])
    nests = np.array([doubled.code(as_loop_nest(space, c, core, doubled)) for c in tilings])
    theirs = LoopNestModel().evaluate(doubled, nests, detail=True)
    ours = AnalyticalTiling(core, line_words=1).evaluate(space, tilings, detail=True)
    assert theirs.ok.all()
    assert theirs.detail is not None
    assert ours.detail is not None
    for counts in ("tile", "reads", "fills", "updates"):
        expected = getattr(theirs.detail, counts)[:, ::2]
        np.testing.assert_array_equal(getattr(ours.detail, counts), expected, counts)
    np.testing.assert_allclose(ours.energy_pj, theirs.energy_pj, rtol=1e-12)
    # Timeloop divides by the cycles before it multiplies and rounds up: that may make one more.
    np.testing.assert_allclose(ours.latency_cycles, theirs.latency_cycles, rtol=0, atol=1)
    assert len({tuple(row) for row in ours.detail.tile[:, 1]}) > 5


def test_every_tiling_of_64_cubed_on_the_preset() -> None:
    """Bounds hold everywhere, peak is reached, batches do not matter, and annealing comes close."""
    space = space_of(64, 64, 64)
    model = AnalyticalTiling()
    codes = every_code(space)
    costs = model.evaluate(space, codes)
    assert len(codes) == space.size() == 84 * 7 * 84
    assert costs.ok.all()
    peak = 64**3 / 32
    assert costs.latency_cycles.min() == peak
    # Every matrix comes from and goes to memory once; every vector operation reads its operands.
    words = np.array([3 * 64**2, 64**3 / 16 + 2 * 64**3 + 64**3 - 64**2])
    energy = (words * [650.0, 1.0]).sum() + 4.6 * 64**3
    assert costs.energy_pj.min() > energy
    rows = np.random.default_rng(0).permutation(len(codes))[:7000]
    np.testing.assert_array_equal(model.evaluate(space, codes[rows]).edp, costs.edp[rows])
    detail = model.evaluate(space, codes[rows[:50]], detail=True).detail
    assert detail is not None
    total = detail.energy_pj.sum(axis=(1, 2)) + detail.mac_energy_pj
    np.testing.assert_allclose(total, costs.energy_pj[rows[:50]], rtol=1e-12)

    evaluator = Evaluator(model, space, iterations=1500)
    make("annealing", space, seed=0).run(evaluator)
    assert costs.edp.min() <= evaluator.result().best_loss <= 1.1 * costs.edp.min()


def test_measured_order_is_kept() -> None:
    """The start took 80 times as long as two tiled ones, which were close, on a real core."""
    space = TilingSpace(workload("gemm-1024"))
    rows = [[32, 4, 4, 2, 256, 4, 16, 4, 1, 16], [64, 4, 2, 2, 64, 16, 4, 4, 2, 32]]
    codes = np.concatenate([space.codes(np.array(rows)), [space.start]])
    first, second, start = AnalyticalTiling().evaluate(space, codes).latency_cycles
    assert first < second < start / 20


@pytest.mark.usefixtures("ray_runtime")
@pytest.mark.parametrize("name", ["annealing", "ddpg", "genetic", "ppo", "random"])
@pytest.mark.parametrize("sizes", [(12, 7, 16), (1, 7, 1), (1, 1, 1)])
def test_searchers_work_on_tilings(name: str, sizes: Any) -> None:
    space = space_of(*sizes)
    evaluator = Evaluator(AnalyticalTiling(), space, iterations=130)
    make(name, space, seed=0).run(evaluator)
    result = evaluator.result()
    assert result.iterations == 130
    assert result.best_code is not None
    space.check(result.best_code[None])
    assert result.best_loss <= result.curve_loss[0]


def test_one_multiply_add_costs_what_it_must() -> None:
    """One line of each matrix and one operation; a space of a single tiling is a space."""
    space = space_of(1, 1, 1)
    costs = AnalyticalTiling(machine(50, 8), line_words=4).evaluate(space, np.zeros((1, 3), int))
    # DRAM reads 4 + 4 + (4 - 1) and takes in 4; so does L1 from it, and 1 + 1 words leave L1.
    assert costs.energy_pj.tolist() == [100 * 15 + 10 * (11 + 2 + 1) + 1 * (2 + 2 + 1) + 0.5]
    assert costs.latency_cycles.tolist() == [22]


def test_an_empty_batch_has_no_costs() -> None:
    costs = AnalyticalTiling().evaluate(space_of(4, 4, 4), np.zeros((0, 3), np.int32), detail=True)
    assert costs.energy_pj.shape == (0,)
    assert costs.detail is not None
    assert costs.detail.reads.shape == (0, 4, 3)


def test_versions_tell_machines_and_lines_apart() -> None:
    models = [
        AnalyticalTiling(),
        AnalyticalTiling(line_words=8),
        AnalyticalTiling(machine(50, 8), line_words=8),
    ]
    assert len({model.version for model in models}) == 3
    assert AnalyticalTiling().version == models[0].version


def test_what_is_no_core_is_refused() -> None:
    refused = [
        ("mm256", "L2: only the registers"),
        ("mindmappings", "only the registers"),
        ({"extends": "cpu-avx512", "bypass": "searched"}, "bypass: expected none"),
        (
            {"extends": "cpu-avx512", "levels": [{"name": "L1", "capacity_words": 47}]},
            "L1: capacity_words: expected at least 48 .* got 47",
        ),
        (
            {"extends": "cpu-avx512", "levels": [{"name": "L2", "banks": 4}]},
            "L2: a core has no banks",
        ),
        ({"levels": [{"name": "DRAM", "energy_pj": 1.0}], "mac_energy_pj": 1.0}, "got 1 level"),
    ]
    for source, message in refused:
        with pytest.raises(ConfigError, match=message):
            AnalyticalTiling(accelerator(source))  # type: ignore[arg-type]
    for line in (0, 1.5, True):
        with pytest.raises(ConfigError, match="line_words"):
            AnalyticalTiling(line_words=line)  # type: ignore[arg-type]


def test_foreign_spaces_and_codes_are_refused() -> None:
    model = AnalyticalTiling()
    nests = MapSpace(workload("gemm-512"), accelerator("mm256"))
    with pytest.raises(ContractError, match="needs a TilingSpace, got MapSpace"):
        model.evaluate(nests, np.zeros((1, 6), np.int32))  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="must lie in"):
        model.evaluate(space_of(4, 4, 4), np.array([[0, 9, 0]]))
    with pytest.raises(ConfigError, match="too many to count"):
        model.evaluate(space_of(2**20, 2**20, 2**17, (1, 1, 1)), np.zeros((1, 3), np.int32))
