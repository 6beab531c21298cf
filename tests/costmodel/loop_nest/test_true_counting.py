"""Remainders counted element by element: against a walk through every pass of every instance."""

from __future__ import annotations

import gzip
import itertools
import json
from typing import Any

import element_by_element
import numpy as np
import pytest
from paths import GOLDEN

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.nest_records import score_nests
from costmodel.loop_nest.records import mapping_record, score
from mapspace.errors import ConfigError
from searchers import Evaluator, make

MODEL = LoopNestModel()
MACHINE = {
    "name": "three",
    "mac_energy_pj": 1.0,
    "factors": "imperfect",
    "counting": True,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0, "read_bandwidth": 1.5},
        {"name": "L2", "capacity_words": 64, "energy_pj": 6.0, "fanout": 3},
        {"name": "L1", "capacity_words": 16, "energy_pj": 1.0, "write_bandwidth": 0.7},
    ],
}
FANS = {
    **MACHINE,
    "name": "fans",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0, "fanout": 2},
        {"name": "L2", "capacity_words": 64, "energy_pj": 6.0, "fanout": 3},
        {"name": "L1", "capacity_words": 16, "energy_pj": 1.0, "fanout": 2},
    ],
}
RECORDS = GOLDEN / "timeloop-general" / "imperfect.jsonl.gz"


def drawn(space: MapSpace, most: int) -> Any:
    """Feasible mappings of all tilings in turn, each with orders drawn."""
    n = space.tables.sizes.size
    rng = np.random.default_rng(0)
    tilings = np.array(list(itertools.product(*(range(k) for k in space.cardinality[:n]))))
    codes = space.sample(rng, len(tilings))
    codes[:, :n] = rng.permutation(tilings)
    return codes[space.feasible(codes)][:most]


@pytest.mark.parametrize("machine", [MACHINE, FANS], ids=["three", "fans"])
@pytest.mark.parametrize("layer", ["conv1d:P=7,R=3", "gemm:M=5,N=3,K=2", "gemm:M=7,N=5,K=1"])
def test_every_mapping_costs_what_its_elements_do(machine: dict[str, Any], layer: str) -> None:
    space = MapSpace(workload(layer), accelerator(machine))
    codes = drawn(space, 60)
    costs = MODEL.evaluate(space, codes)
    by_timeloop = LoopNestModel(counting="timeloop").evaluate(space, codes)
    less = 0
    for row, code in enumerate(codes):
        mapping = space.describe(code)
        expected = element_by_element.cost(space.workload, space.accelerator, mapping)
        got = (costs.energy_pj[row], costs.latency_cycles[row])
        assert got == pytest.approx(expected, rel=1e-12), str(mapping)
        less += costs.energy_pj[row] < by_timeloop.energy_pj[row]
    assert less > len(codes) // 8


def random_levels(rng: np.random.Generator) -> dict[str, Any]:
    """Two to four levels, of which some fan out."""
    levels: list[dict[str, Any]] = [{"name": "L0", "energy_pj": 20.0}]
    for index in range(1, int(rng.integers(2, 5))):
        energy = float(rng.choice([1.0, 2.0, 3.0]))
        levels.append({"name": f"L{index}", "energy_pj": energy, "capacity_words": 10_000})
    for level in levels:
        if rng.random() < 0.3:
            level["fanout"] = int(rng.choice([2, 3]))
    return {**MACHINE, "name": "random", "bypass": "none", "levels": levels}


def test_products_are_counted_as_a_walk_of_the_nest_counts_them() -> None:
    """Whatever is in a tile when it is visited again is not fetched again, and nothing else is."""
    rests = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        sizes = {name: int(rng.integers(1, 6)) for name in "MNK"}
        space = MapSpace(workload({"gemm": sizes}), accelerator(random_levels(rng)))
        codes = space.sample(rng, 60)
        codes = codes[space.feasible(codes)][:6]
        costs = MODEL.evaluate(space, codes)
        for row, code in enumerate(codes):
            mapping = space.describe(code)
            expected = element_by_element.cost(
                space.workload, space.accelerator, mapping, literal=True
            )
            got = (costs.energy_pj[row], costs.latency_cycles[row])
            assert got == pytest.approx(expected, rel=1e-12), str(mapping)
            rests += any(
                rest != trips and rest == 1
                for level in mapping.levels
                for trips, rest in zip(
                    level.temporal.values(), level.temporal_rests.values(), strict=True
                )
            )
    assert rests > 3


def test_windows_are_fetched_whole_where_they_move_by_another_step_and_only_there() -> None:
    """As docs/guide/map-spaces.md says; the walk of the nest is what it says they cost at least."""
    more = same = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = {"P": int(rng.integers(2, 8)), "R": int(rng.integers(2, 4))}
        space = MapSpace(workload({"conv1d": sizes}), accelerator(random_levels(rng)))
        codes = space.sample(rng, 60)
        codes = codes[space.feasible(codes)][:5]
        for row, energy in enumerate(MODEL.evaluate(space, codes).energy_pj.tolist()):
            mapping = space.describe(codes[row])
            walk = element_by_element.Elements(space.workload, mapping, literal=True)
            least, _ = element_by_element.cost(
                space.workload, space.accelerator, mapping, literal=True
            )
            if walk.moves_alike():
                assert energy == pytest.approx(least, rel=1e-12), str(mapping)
                same += 1
            else:
                assert energy >= least * (1 - 1e-12), str(mapping)
                more += energy > least * (1 + 1e-12)
    assert same > 10
    assert more > 3


def test_a_tile_that_rests_through_a_last_pass_is_not_fetched_again() -> None:
    path = GOLDEN / "wrong-answers" / "fail-11" / "rec.jsonl"
    (found,) = ms.evaluate([json.loads(path.read_text())], counting="true")
    assert found["result"]["energy_pj"] == 3310.0
    inner, innermost = (level["tensors"]["B"] for level in found["result"]["levels"][1:])
    assert inner["reads"] == innermost["fills"] == 63


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "layer"),
    [
        (MACHINE, "conv1d:P=19,R=4"),
        (FANS, "conv1d:P=13,R=5"),
        (MACHINE, "cnn:N=1,K=2,C=1,P=5,Q=4,R=2,S=2"),
    ],
)
def test_longer_loops_cost_what_their_elements_do(machine: dict[str, Any], layer: str) -> None:
    test_every_mapping_costs_what_its_elements_do(machine, layer)


def test_a_case_counted_by_hand() -> None:
    """Seven rows of A[M,K], B[K,N], Z[M,N] on children of four and of three, K = N = 2.

    Timeloop counts eight rows. Rows of A and Z are of one child each, B is read once for both.
    """
    machine = accelerator({**MACHINE, "bypass": "none", "levels": [
        {"name": "DRAM", "energy_pj": 100.0, "fanout": 2},
        {"name": "L1", "capacity_words": 20, "energy_pj": 1.0},
    ]})  # fmt: skip
    space = MapSpace(workload("gemm:M=7,N=2,K=2"), machine)
    row = {name: [1, 1, 1] for name in "MNK"} | {"M": [1, 2, 4], "N": [1, 1, 2], "K": [1, 1, 2]}
    code = np.zeros((1, len(space.cardinality)), dtype=np.int32)
    for d, name in enumerate(space.workload.dimension_names):
        rows = space.tables.factors[space.tables.row_start[d] : space.tables.row_start[d + 1]]
        code[0, d] = rows.tolist().index(row[name])
    # Reads: A 14, B 4 and Z none, updates 14; L1 of both: fills 14 + 8, reads A, B 28 each and
    # 28 - 14 of Z, updates 28.
    energy = 28 + 100.0 * (14 + 4 + 14) + (14 + 8 + 28 + 28 + 14 + 28)
    assert MODEL.evaluate(space, code).energy_pj[0] == energy
    assert MODEL.evaluate(space, code).latency_cycles[0] == 16
    more = LoopNestModel(counting="timeloop").evaluate(space, code)
    # Of 16 words of Z that come back to DRAM, 14 are new there, and two are read.
    assert more.energy_pj[0] == 32 + 100.0 * (16 + 4 + 16 + 2) + (16 + 8 + 32 + 32 + 16 + 32)


def test_perfect_mappings_cost_the_same_by_either_counting() -> None:
    space = MapSpace(workload("cnn:N=2,K=7,C=5,P=13,Q=5,R=3,S=3"), accelerator(MACHINE))
    perfect = MapSpace(space.workload, space.accelerator, factors="perfect")
    codes = perfect.sample(np.random.default_rng(2), 300, feasible=True)
    same = np.array([space.code(perfect.describe(code)) for code in codes])
    expected, got = MODEL.evaluate(perfect, codes), MODEL.evaluate(space, same)
    assert np.array_equal(expected.energy_pj, got.energy_pj)
    assert np.array_equal(expected.latency_cycles, got.latency_cycles)


def test_structured_search_walks_where_elements_are_counted_one_by_one() -> None:
    """The evaluator holds compiled scores against the model; less than perfect is found."""
    best = {}
    for factors in ("perfect", "imperfect"):
        space = MapSpace(
            workload("gemm:M=37,N=41,K=43"),
            accelerator({**MACHINE, "bypass": "none"}),
            factors=factors,
        )  # type: ignore[arg-type]
        evaluator = Evaluator(MODEL, space, objective="edp", iterations=3000)
        make("structured", space, seed=0).run(evaluator)
        best[factors] = evaluator.result().best_loss
    assert best["imperfect"] < 0.9 * best["perfect"]


def test_records_say_which_counting_theirs_is() -> None:
    space = MapSpace(workload("gemm:M=13,N=7,K=5"), accelerator(MACHINE))
    codes = space.sample(np.random.default_rng(1), 40, feasible=True)
    costs = MODEL.evaluate(space, codes)
    records = [mapping_record(space, code) for code in codes]
    for record, energy in zip(score(records, MODEL), costs.energy_pj, strict=True):
        assert record["result"]["energy_pj"] == pytest.approx(energy, rel=1e-12)
    by_timeloop = LoopNestModel(counting="timeloop")
    expected = by_timeloop.evaluate(space, codes).energy_pj
    got = [record["result"]["energy_pj"] for record in score(records, by_timeloop)]
    assert got == pytest.approx(expected.tolist(), rel=1e-12)
    assert (expected > costs.energy_pj).any()


def test_golden_records_counted_truly_have_the_operations_macs() -> None:
    with gzip.open(RECORDS, "rt") as lines:
        records = [json.loads(line) for line in itertools.islice(lines, 24)]
    plain = [r for r in records if not any("network" in lv for lv in r["arch"]["levels"])]
    results = score_nests(dict(enumerate(plain)), counting="true")
    fewer = 0
    for index, record in enumerate(plain):
        sizes = record["problem"]["dims"].values()
        assert results[index]["macs"] == np.prod(list(sizes))
        assert results[index]["cycles"] <= record["result"]["cycles"]
        fewer += results[index]["energy_pj"] < record["result"]["energy_pj"] * (1 - 1e-9)
    assert fewer > 3


def test_evaluate_counts_as_it_is_asked() -> None:
    space = MapSpace(workload("gemm:M=13,N=7,K=5"), accelerator(MACHINE))
    codes = space.sample(np.random.default_rng(3), 20, feasible=True)
    records = [mapping_record(space, code) for code in codes]
    truly, said = (ms.evaluate(records, counting=c) for c in ("true", None))  # type: ignore[arg-type]
    assert truly == said
    assert ms.evaluate(records, counting="timeloop") != said
    with pytest.raises(ConfigError, match="maestro has no counting; loopnest has"):
        ms.evaluate(records, model="maestro", counting="true")


def test_what_is_not_counted_truly_says_so() -> None:
    hops = {**MACHINE, "levels": [{**lv, "hop_energy_pj": 0.1} for lv in FANS["levels"]]}
    with pytest.raises(ConfigError, match="counting: true is for machines whose networks cost no"):
        MapSpace(workload("gemm:M=5,N=3,K=2"), accelerator(hops))
    timeloop = MapSpace(workload("gemm:M=5,N=3,K=2"), accelerator(hops), counting="timeloop")
    with pytest.raises(ConfigError, match="networks cost no energy"):
        LoopNestModel(counting="true").evaluate(
            timeloop, timeloop.sample(np.random.default_rng(0), 1)
        )
