"""The structured searcher: full arrays, full buffers, reuse classes, and proven optima."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, Objective
from costmodel.machines.accelerators import Accelerator, accelerator_names
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToySpace
from searchers import Evaluator, make
from searchers.compiled.cost_function import CompiledCosts, Walk
from searchers.compiled.structured_state import make_hand

# Proven EDP on mm256, pJ x cycles.
OPTIMA = {
    "cnn:N=16,K=256,C=256,P=14,Q=14,R=3,S=3,stride=1": 7.925257e16,
    "cnn:N=8,K=384,C=384,P=13,Q=13,R=3,S=3,stride=1": 7.395732e16,
    "mttkrp:I=128,J=1024,K=4096,L=2048": 3.226108e22,
    "gemm:M=1024,N=1024,K=1024": 3.088396e16,
}


def space(problem: str = next(iter(OPTIMA)), machine: str = "mm256") -> MapSpace:
    return MapSpace(workload(problem), accelerator(machine))


def samples(of: MapSpace, rows: int, seed: int = 0) -> np.ndarray:
    """New mappings, as every chain starts with."""
    searcher = make("structured", of, seed=seed, preset="samples", chains=rows)
    return searcher.ask(rows)


@pytest.mark.parametrize("machine", ["mm256", "mm256-bypass", "gemmini"])
def test_walks_of_any_length_score_the_same_mappings(machine: str) -> None:
    """So the clock may be looked at whenever it is."""
    of = space("gemm:M=96,N=61,K=84", machine)
    scored = []
    for length in (512, 1, 7, 100):
        searcher, parts = make("structured", of, seed=3), list[np.ndarray]()
        evaluate = Evaluator(LoopNestModel(), of, iterations=1500)

        def walk(
            costs: CompiledCosts,
            n: int,
            searcher: Any = searcher,
            length: int = length,
            parts: Any = parts,
        ) -> Any:
            found = searcher.walk(costs, min(n, length))
            parts.append(found[0])
            return found

        while evaluate.remaining > 0 and evaluate.walk(walk):
            pass
        scored.append(np.concatenate(parts))
    assert len(scored[0]) == 1500
    assert all(np.array_equal(one, scored[0]) for one in scored)


@pytest.mark.parametrize("problem", OPTIMA)
def test_it_finds_the_proven_optima(problem: str) -> None:
    """Within 0.5 % in 100,000 queries, and never below: then the cost model would be wrong."""
    found = []
    for seed in range(3):
        evaluator = Evaluator(LoopNestModel(), space(problem), iterations=100_000)
        make("structured", evaluator.space, seed=seed).run(evaluator)
        found.append(evaluator.best_loss / OPTIMA[problem])
    assert max(found) < 1.005
    assert min(found) > 1 - 1e-6


def test_few_queries_go_far() -> None:
    """Geometric mean over problems and seeds after 1,000 queries: 1.0017 when it was tuned."""
    logs = []
    for problem, optimum in OPTIMA.items():
        for seed in range(5):
            evaluator = Evaluator(LoopNestModel(), space(problem), iterations=1000)
            make("structured", evaluator.space, seed=seed).run(evaluator)
            logs.append(np.log(evaluator.best_loss / optimum))
    assert np.exp(np.mean(logs)) < 1.01


def test_samples_use_the_whole_array_and_fill_the_inner_buffer() -> None:
    of = space()
    codes = samples(of, 500)
    t = of.tables
    rows = t.row_start[:-1] + codes[:, : t.sizes.size]
    spatial = t.factors[rows, int(t.spatial_slot[1])]
    elements = spatial.prod(axis=1)
    assert 0.9 < (elements == 256).mean() < 1
    assert elements.min() > 0.9 * 256
    assert len(np.unique(spatial, axis=0)) > 50
    # No prime can still move from DRAM into the innermost buffer.
    for code in codes[:50]:
        factors = t.factors[t.row_start[:-1] + code[: t.sizes.size]]
        for d, prime in set(zip(t.prime_dimension.tolist(), t.prime_value.tolist(), strict=True)):
            if factors[d, 0] % prime:
                continue
            grown = factors[d].copy()
            grown[0] //= prime
            grown[3] *= prime
            table = t.factors[t.row_start[d] : t.row_start[d + 1]]
            moved = code.copy()
            moved[d] = np.flatnonzero((table == grown).all(axis=1))[0]
            assert not of.feasible(moved[None])[0]


def test_sampled_orders_are_reuse_classes() -> None:
    """The loops that a tensor does not depend on run innermost, around one drawn at random."""
    of = space()
    t = of.tables
    innermost = set()
    for code in samples(of, 300):
        factors = t.factors[t.row_start[:-1] + code[: t.sizes.size]]
        loops = [int(d) for d in t.orders[code[t.order_column[0]]] if factors[d, 0] > 1]
        if not loops:
            continue
        innermost.add(loops[-1])
        resting = [x for x in range(3) if not t.relevant[x, loops[-1]]]
        assert any(
            [bool(t.relevant[x, d]) for d in loops]
            == sorted((bool(t.relevant[x, d]) for d in loops), reverse=True)
            for x in resting
        )
    assert len(innermost) >= 4


def test_equal_mappings_have_equal_codes() -> None:
    """Loops of one trip and the innermost order, which change nothing, stand in a fixed place."""
    of = space("gemm:M=64,N=64,K=64")
    codes = samples(of, 400)
    t = of.tables
    assert (codes[:, t.order_column[2]] == 0).all()
    costs = LoopNestModel().evaluate(of, codes).edp
    described = [str(of.describe(code)) for code in codes]
    assert len(set(described)) == len(np.unique(codes, axis=0))
    assert len(set(described)) > 10
    assert np.isfinite(costs).all()


def machine_of(levels: list[dict[str, Any]], **more: Any) -> Accelerator:
    return accelerator({"name": "made", "mac_energy_pj": 1.0, "levels": levels, **more})


DRAM = {"name": "DRAM", "energy_pj": 200.0}
MACHINES = {
    **{
        name: machine
        for name in accelerator_names()
        if (machine := accelerator(name)).further_key is None and len(machine.levels) <= 3
    },
    "one level": machine_of([{**DRAM, "fanout": 16}]),
    "two levels": machine_of([{**DRAM, "fanout": 8}, {**DRAM, "name": "L1", "capacity_words": 99}]),
    "mesh and hops": machine_of(
        [
            DRAM,
            {
                "name": "L2",
                "energy_pj": 2.0,
                "capacity_words": 4096,
                "fanout": 32,
                "mesh": [8, 4],
                "hop_energy_pj": 0.5,
            },
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 64},
        ]
    ),
    "two fan-outs": machine_of(
        [
            DRAM,
            {"name": "L3", "energy_pj": 4.0, "capacity_words": 5000, "fanout": 4},
            {"name": "L2", "energy_pj": 2.0, "capacity_words": 600, "fanout": 4, "mesh": [2, 2]},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 60, "banks": 6, "fanout": 2},
        ],
        bypass="searched",
    ),
    "eyeriss-like": machine_of(
        [
            DRAM,
            {
                "name": "GLB",
                "energy_pj": 6.0,
                "capacity_words": 65536,
                "bypass": ["weight"],
                "fanout": 168,
                "mesh": [14, 12],
            },
            {
                "name": "ifmap",
                "energy_pj": 0.7,
                "capacity_words": 12,
                "keep": ["input"],
                "bypass": ["weight", "output"],
            },
            {
                "name": "filter",
                "energy_pj": 1.1,
                "capacity_words": 192,
                "bypass": ["input", "output"],
            },
            {"name": "psum", "energy_pj": 0.9, "capacity_words": 16, "bypass": ["input", "weight"]},
        ]
    ),
    "three fan-outs with rules": machine_of(
        [
            DRAM,
            {
                "name": "L2",
                "energy_pj": 4.0,
                "capacity_words": 9000,
                "fanout": 16,
                "mesh": [4, 4],
                "spatial": {"x": ["C", "L", "K"], "y": ["K", "P", "J"]},
            },
            {
                "name": "L1",
                "energy_pj": 2.0,
                "capacity_words": 900,
                "fanout": 4,
                "spatial": {"x": ["K", "Q", "I"]},
                "bypass": ["weight"],
            },
            {
                "name": "accumulator",
                "energy_pj": 1.0,
                "capacity_words": 64,
                "fanout": 8,
                "mesh": [1, 8],
                "bypass": ["input", "weight"],
            },
            {
                "name": "register",
                "energy_pj": 0.1,
                "capacity_words": 2,
                "bypass": ["input", "output"],
            },
        ]
    ),
}


@pytest.mark.parametrize("machine", sorted(MACHINES))
@pytest.mark.parametrize(
    "problem", ["cnn:N=4,K=96,C=48,P=14,Q=14,R=3,S=3,stride=2", "mttkrp:I=64,J=96,K=40,L=128"]
)
def test_every_machine_gets_feasible_and_good_proposals(machine: str, problem: str) -> None:
    of = MapSpace(workload(problem), MACHINES[machine])
    model = LoopNestModel()
    searcher = make("structured", of, seed=0, chains=16)
    best, asked = np.inf, 0
    while asked < 4000:
        codes = searcher.ask(1000)
        losses = model.evaluate(of, codes).edp
        assert np.isfinite(losses).all()
        best, asked = min(best, losses.min()), asked + len(codes)
        searcher.tell(losses)
    random = make("random", of, seed=0)
    assert best < 1.01 * model.evaluate(of, random.ask(4000)).edp.min()


@pytest.mark.parametrize("machine", ["tpu-v1", "simba"])
def test_samples_use_every_fan_out_of_a_deep_machine(machine: str) -> None:
    """Also where a mesh is one row high, and where few dimensions may run across."""
    of = space(machine=machine)
    t = of.tables
    searcher = make("structured", of, seed=0, preset="samples", chains=200)
    codes = searcher.ask(200)
    factors = t.factors[t.row_start[:-1] + codes[:, : t.sizes.size]]
    for slot in t.spatial_slot[t.spatial_slot >= 0]:
        used = factors[:, :, slot].prod(axis=1)
        assert (used == t.fanout[t.slot_level[slot]]).mean() > 0.8


def test_searched_attributes_are_searched() -> None:
    """Kept tensors and bank allocations vary where the machine leaves them to the mapping."""
    for machine, kind, least in (("mm256-bypass", "keep", 6), ("mindmappings", "banks", 20)):
        of = space(machine=machine)
        columns = [i for i, k in enumerate(of.attribute_kinds) if k == kind]
        codes = samples(of, 500)
        for column in columns:
            assert len(np.unique(codes[:, column])) >= least


@pytest.mark.parametrize("fanout", [16, 60, 97, 256])
def test_spatial_vectors_are_all_that_use_the_array_well(fanout: int) -> None:
    """Against enumeration."""
    of = MapSpace(workload("gemm:M=15,N=12,K=14"), machine_of([{**DRAM, "fanout": fanout}]))
    choices = make_hand(of.tables, 0.3).choices
    divisors = [[f for f in range(1, size + 1) if size % f == 0] for size in (15, 12, 14)]
    products = {v: math.prod(v) for v in itertools.product(*divisors) if math.prod(v) <= fanout}
    largest = max(products.values())
    end = choices.largest_end[0]
    listed = [tuple(vector) for vector in choices.vectors.tolist()]
    assert sorted(listed[:end]) == sorted(v for v, p in products.items() if p == largest)
    near = {v for v, p in products.items() if 0.9 * largest < p < largest}
    assert sorted(listed[end:]) == sorted(near)


def test_a_problem_of_one_mapping_is_survived() -> None:
    of = space("gemm:M=1,N=1,K=1")
    evaluator = Evaluator(LoopNestModel(), of, iterations=50)
    make("structured", of, seed=0).run(evaluator)
    assert np.isfinite(evaluator.best_loss)


def test_chains_take_turns_and_start_anew_together() -> None:
    searcher = make("structured", space(), seed=0, chains=3, initial=2, length=3)
    sizes = []
    for n in (1, 1, 2, 1000, 1000, 1000, 1000, 1000, 1000):
        codes = searcher.ask(n)
        sizes.append(len(codes))
        searcher.tell(np.arange(1.0, len(codes) + 1))
    # The first round of 15 steps ends after 1 + 1 + 2 and three whole turns, with 2 chains left.
    assert sizes == [1, 1, 2, 3, 3, 3, 2, 3, 3]


class Seen:
    """An evaluator that remembers every mapping it was asked for or a walk scored."""

    def __init__(self, objective: Objective, iterations: int, *, compiled: bool) -> None:
        of = space("cnn:N=2,K=16,C=8,P=6,Q=6,R=3,S=3,stride=1")
        self.evaluator = Evaluator(LoopNestModel(), of, objective=objective, iterations=iterations)
        self.compiled = compiled
        self.codes: list[np.ndarray] = []
        self.losses: list[np.ndarray] = []

    @property
    def remaining(self) -> int:
        return self.evaluator.remaining

    @property
    def seconds_left(self) -> float | None:
        return self.evaluator.seconds_left

    @property
    def elapsed(self) -> float:
        return self.evaluator.elapsed

    @property
    def query_latency(self) -> float:
        return self.evaluator.query_latency

    def __call__(self, codes: np.ndarray, **counting: Any) -> np.ndarray:
        losses = self.evaluator(codes, **counting)
        self.codes.append(codes)
        self.losses.append(losses)
        return losses

    def walk(self, walk: Walk) -> bool:
        def remembered(costs: CompiledCosts, n: int) -> tuple[np.ndarray, np.ndarray]:
            codes, scores = walk(costs, n)
            self.codes.append(codes)
            self.losses.append(scores[:, 0])
            return codes, scores

        return self.compiled and self.evaluator.walk(remembered)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_compiled_walk_is_what_would_be_asked_for(objective: Objective) -> None:
    """The same mappings in the same order, and they cost the same."""
    seen = []
    for compiled in (True, False):
        seen.append(Seen(objective, 1500, compiled=compiled))
        of = seen[-1].evaluator.space
        make("structured", of, seed=5, chains=3).run(seen[-1])
    walked, asked = seen
    assert max(len(codes) for codes in walked.codes) > 500
    np.testing.assert_array_equal(np.concatenate(walked.codes), np.concatenate(asked.codes))
    np.testing.assert_array_equal(np.concatenate(walked.losses), np.concatenate(asked.losses))
    ours, theirs = walked.evaluator.result(), asked.evaluator.result()
    assert ours.iterations == theirs.iterations == 1500
    np.testing.assert_array_equal(ours.curve_loss, theirs.curve_loss)
    np.testing.assert_array_equal(ours.curve_iteration, theirs.curve_iteration)
    np.testing.assert_array_equal(ours.best_code, theirs.best_code)
    assert walked.evaluator.best_tie == asked.evaluator.best_tie


def test_walks_continue_exactly_and_give_way_to_batches() -> None:
    """After a restored state, and for a host that asks in the middle of a walk's round."""
    of = space()
    steps: list[tuple[Any, Any]] = []

    def searched(iterations: int, states: tuple[Any, Any] | None = None) -> Evaluator:
        evaluator = Evaluator(LoopNestModel(), of, iterations=iterations)
        searcher = make("structured", of, seed=3)
        if states is not None:
            searcher.load_state_dict(states[0])
            evaluator.load_state_dict(states[1])
        searcher.run(evaluator, lambda s: steps.append((s.state_dict(), evaluator.state_dict())))
        return evaluator

    undisturbed = searched(3000).result()
    middle = next(states for states in steps if states[1]["iterations_used"] == 1024)
    np.testing.assert_array_equal(
        searched(3000, middle).result().curve_loss, undisturbed.curve_loss
    )
    searcher = make("structured", of, seed=3)
    searcher.load_state_dict(middle[0])
    for n in (1, 300, 7):
        codes = searcher.ask(n)
        assert 1 <= len(codes) <= n
        assert of.feasible(codes).all()
        searcher.tell(LoopNestModel().evaluate(of, codes).edp)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs a MapSpace, got ToySpace"):
        make("structured", ToySpace(), seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": 0},
        {"initial": 0},
        {"length": -1},
        {"temperatures": (0.1, 0.2)},
        {"outer_fill": 1.5},
    ],
)
def test_bad_hyperparameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}"):
        make("structured", space(), seed=0, **wrong)


@pytest.mark.parametrize("sizes", ["M=4,N=4,K=2", "M=1,N=1,K=1"])
def test_a_deep_machine_without_a_fan_out_is_searched(sizes: str) -> None:
    """One core and its caches: there is no spatial slot to draw from, nor perhaps a prime."""
    levels = [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "A", "energy_pj": 6.0, "capacity_words": 64},
        {"name": "B", "energy_pj": 2.0, "capacity_words": 32},
        {"name": "R", "energy_pj": 1.0, "capacity_words": 8},
    ]
    machine = accelerator({"name": "core", "mac_energy_pj": 1.0, "levels": levels})
    space = MapSpace(workload(f"gemm:{sizes}"), machine)
    evaluator = Evaluator(LoopNestModel(), space, iterations=2000)
    make("structured", space, seed=0).run(evaluator)
    assert np.isfinite(evaluator.best_loss)
