"""Small random problems on hierarchies of any depth, held against all of their mappings."""

from __future__ import annotations

from typing import Any

import numpy as np
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, Workload, accelerator, workload
from costmodel.costs import OBJECTIVES, STATUS_OK, TIE_BREAKERS, Objective
from costmodel.exact_any.front import FrontProver, prove_front
from costmodel.exact_any.problem import why_not_any
from costmodel.exact_any.prover import AnyProver
from costmodel.problems.bits import with_bits
from costmodel.tile_chains.spatial import keep_choices
from mapspace.errors import ConfigError

MOST_MAPPINGS = 60_000
ROLES = ("input", "weight", "output")


def random_machine(rng: np.random.Generator) -> dict[str, Any]:
    """A machine of 2 to 6 levels as a file says it; every key turns up in some of them."""
    count = int(rng.integers(2, 7))
    fanning = set(rng.choice(count, size=min(count, int(rng.integers(0, 4))), replace=False))
    levels: list[dict[str, Any]] = []
    for index in range(count):
        level: dict[str, Any] = {"name": f"L{index}", "energy_pj": _energy(rng, index)}
        if index > 0:
            level["capacity_words"] = int(rng.choice([3, 4, 6, 8, 12, 24, 48, 200]))
        if index in fanning:
            _fan_out(rng, level)
        if rng.random() < 0.15:
            level["block_words"] = int(rng.choice([2, 4]))
        if rng.random() < 0.15:
            level["leakage_pj"] = float(rng.choice([0.1, 2.0]))
        if rng.random() < 0.1:
            level["address_pj"] = 0.25
        if index > 0 and rng.random() < 0.35:
            key = rng.choice(["keep", "bypass"])
            level[str(key)] = [
                str(role) for role in rng.choice(ROLES, int(rng.integers(1, 3)), False)
            ]
        if index > 0 and rng.random() < 0.1:
            level["multiple_buffering"] = float(rng.choice([1.5, 2.0]))
        if index > 0 and rng.random() < 0.08:
            level["min_utilisation"] = 0.25
        levels.append(level)
    if rng.random() < 0.25:
        for level in levels:
            for key in ("read_bandwidth", "write_bandwidth", "bandwidth"):
                if rng.random() < 0.4:
                    level[key] = float(rng.choice([0.5, 1.0, 2.0, 0.7, 8.0]))
    if rng.random() < 0.12:
        for level in levels:
            for key in ("hop_energy_pj", "router_pj", "ingress_pj"):
                if rng.random() < 0.4:
                    level[key] = float(rng.choice([0.5, 3.0]))
    if rng.random() < 0.1:
        levels[-1]["fill_latency"] = 3
    return {
        "name": "random",
        "levels": levels,
        "mac_energy_pj": float(rng.choice([0.0, 1.0])),
        "cycles_per_mac": int(rng.choice([1, 1, 1, 2])),
        "bypass": "searched" if rng.random() < 0.2 else "none",
        "output_fills": "charged" if rng.random() < 0.1 else "elided",
    }


def _energy(rng: np.random.Generator, index: int) -> Any:
    word = float(rng.choice([200.0, 10.0, 6.0, 2.5, 1.0, 0.3, 0.0]))
    if rng.random() < 0.3:
        return {"read": word, "fill": float(rng.choice([0.5, 4.0])), "update": word * 1.5}
    return word


def _fan_out(rng: np.random.Generator, level: dict[str, Any]) -> None:
    level["fanout"] = int(rng.choice([2, 3, 4, 6]))
    if level["fanout"] in (4, 6) and rng.random() < 0.4:
        level["mesh"] = [level["fanout"] // 2, 2]
    if rng.random() < 0.3:
        rules: dict[str, Any] = {}
        if rng.random() < 0.5:
            rules["x"] = [str(d) for d in rng.choice(list("NKCPQRSMIJ"), 5, False)]
        if rng.random() < 0.4:
            rules["multicast"] = False
        if rng.random() < 0.4:
            rules["reduction"] = False
        level["spatial"] = rules


def random_hierarchy(
    rng: np.random.Generator,
    most: int = MOST_MAPPINGS,
    *,
    networks: bool = False,
    bits: bool = False,
    links: bool = False,
) -> tuple[MapSpace, Codes, Objective]:
    """A map space of at most so many mappings, the feasible ones, and an objective.

    Args:
        rng: draws it.
        most: mappings that it may have.
        networks: there are fan-outs, and to cross them costs energy.
        bits: tensors have values of so many bits.
        links: there are fan-outs, one below the innermost level in half of them, and neighbours
            hand words to each other.
    """
    while True:
        work, _ = random_parts(rng)
        try:
            operation = workload(smaller(rng, work))
            machine = random_machine(rng)
            if networks:
                _charge_networks(rng, machine["levels"])
            if links:
                _hand_on(rng, machine)
            if bits:
                operation = _draw_bits(rng, operation, machine)
            space = MapSpace(operation, accelerator(machine))
        except ConfigError:
            continue
        if links and why_not_any(space) is not None:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes):
            return space, codes, OBJECTIVES[int(rng.choice(len(OBJECTIVES)))]


def _draw_bits(rng: np.random.Generator, operation: Workload, machine: dict[str, Any]) -> Workload:
    """Gives one tensor at least bits, levels words of their own, and machines ways to pack."""
    machine["word_bits"] = int(rng.choice([8, 16]))
    machine["packing"] = str(rng.choice(["whole", "dense", "word"]))
    for level in machine["levels"]:
        if rng.random() < 0.3:
            level["word_bits"] = int(rng.choice([4, 8, 12, 32]))
        if rng.random() < 0.3:
            level["packing"] = str(rng.choice(["whole", "dense", "word"]))
        if rng.random() < 0.3:
            level["block_words"] = int(rng.choice([2, 3, 4]))
    names = rng.permutation(operation.tensor_names)[: int(rng.integers(1, 4))]
    return with_bits(operation, {str(name): int(rng.integers(1, 25)) for name in names})


def random_ports(seed: int, most: int, *, leakage: float | None = None) -> tuple[MapSpace, Codes]:
    """A map space whose levels all have limited ports, and its feasible mappings.

    Args:
        seed: decides it.
        most: mappings that it may have.
        leakage: of every level, pJ per cycle; None: of some.
    """
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        for level in machine["levels"]:
            for key in ("read_bandwidth", "write_bandwidth", "bandwidth"):
                level.pop(key, None)
            level["bandwidth"] = 0.3
            if leakage is not None:
                level["leakage_pj"] = leakage
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes) > most / 10:
            return space, codes


def _charge_networks(rng: np.random.Generator, levels: list[dict[str, Any]]) -> None:
    only_hops = rng.random() < 0.5
    for index, level in enumerate(levels):
        if "fanout" not in level and (index < 2 or rng.random() < 0.3):
            _fan_out(rng, level)
        for key in ("hop_energy_pj", "router_pj", "ingress_pj"):
            if key == "hop_energy_pj" or not only_hops:
                level[key] = float(rng.choice([0.5, 3.0, 50.0]))


def _hand_on(rng: np.random.Generator, machine: dict[str, Any]) -> None:
    levels = machine["levels"]
    machine["link_transfers"] = True
    if rng.random() < 0.5:
        _fan_out(rng, levels[-1])
    if not any("fanout" in level for level in levels):
        _fan_out(rng, levels[int(rng.integers(len(levels)))])


def smaller(rng: np.random.Generator, work: dict[str, Any]) -> dict[str, Any]:
    """The operation with sizes that deep hierarchies leave countable."""
    most = int(rng.choice([2, 3, 4, 6, 12]))
    (key, sizes), *_ = work.items()
    if key != "dimensions":
        fixed = {"stride", "dilation"}
        return {key: {d: v if d in fixed else min(v, most) for d, v in sizes.items()}}
    return {**work, "dimensions": {d: min(v, most) for d, v in sizes.items()}}


def check_hierarchy(seed: int, most: int = MOST_MAPPINGS) -> int:
    """Holds the proof of one random problem against all of its mappings.

    Args:
        seed: decides the problem.
        most: mappings that it may have.

    Returns:
        How many mappings it has.
    """
    space, codes, objective = random_hierarchy(np.random.default_rng(seed), most)
    check_proof(space, codes, objective)
    return len(codes)


def check_proof(space: MapSpace, codes: Codes, objective: Objective) -> None:
    """Holds a proof against all feasible mappings `[B, D]` of a map space, perhaps none."""
    prover = AnyProver(space, objective=objective)
    first = float(prover.value_of(prover.lower_outcome))
    while not prover.finished:
        before = prover.lower_outcome
        prover.step()
        assert prover.rank_of(before) <= prover.rank_of(prover.lower_outcome), "the bound fell"
    if not len(codes):
        assert prover.best_outcome is None
        return
    costs = LoopNestModel().evaluate(space, codes)
    values = costs.objective(objective)
    assert (costs.status == STATUS_OK).all()
    winner = prover.codes()
    assert len(winner) == 1, "no mapping was found"
    reached = float(LoopNestModel().evaluate(space, winner).objective(objective)[0])
    least = float(values.min())
    where = f"{objective} on {space.accelerator.model_dump()} of {space.workload}"
    unit = 1.0 if objective == "latency" else float(prover.unit_pj)
    assert first * unit <= least, f"certain before anything is bounded: {first * unit}, {where}"
    assert reached <= least * (1 + 2e-12), f"{reached} is not the least, {least}: {where}"
    tie = costs.objective(TIE_BREAKERS[objective])[values <= least * (1 + 1e-12)].min()
    its = LoopNestModel().evaluate(space, winner).objective(TIE_BREAKERS[objective])[0]
    assert its <= tie * (1 + 2e-12), f"of equal ones {tie} is better than {its}: {where}"
    # A limit just above the optimum lets every bound that is too high cut the optimum off.
    best = int(values.argmin())
    limit = float(costs.energy_pj[best]) * (1 + 1e-9) + 1e-9, float(costs.latency_cycles[best])
    assert AnyProver(space, objective=objective).finds_below(limit), f"a bound is too high: {where}"


def loses_searched(seed: int, most: int = 800) -> bool:
    """Whether a random problem whose bypass is searched is proven wrongly."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        try:
            machine = {**random_machine(rng), "bypass": "searched"}
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes) and len(keep_choices(space)) > 1:
            break
    try:
        check_proof(space, codes, OBJECTIVES[seed % len(OBJECTIVES)])
    except AssertionError:
        return True
    return False


def check_front(seed: int, most: int = MOST_MAPPINGS) -> int:
    """Holds the proven front of one random problem against all of its mappings.

    Args:
        seed: decides the problem.
        most: mappings that it may have.

    Returns:
        How many points the front has.
    """
    space, codes, _ = random_hierarchy(np.random.default_rng(seed), most)
    return check_front_of(space, codes)


def check_front_of(space: MapSpace, codes: Codes) -> int:
    """Holds the proven front of a space against all of its mappings, and counts its points."""
    prover = FrontProver(space)
    while not prover.finished:
        prover.step()
    points = prover.points()
    costs = LoopNestModel().evaluate(space, codes)
    order = np.lexsort((costs.energy_pj, costs.latency_cycles))
    cycles, energy = costs.latency_cycles[order], costs.energy_pj[order]
    # Nobody as fast needs less: what is less by a rounding error is no point of its own.
    before = np.concatenate([[np.inf], np.minimum.accumulate(energy)[:-1]])
    front = np.isfinite(energy) & (energy < before * (1 - 1e-11))
    where = f"{space.accelerator.model_dump()} of {space.workload}"
    assert [point.latency_cycles for point in points] == cycles[front].tolist(), where
    np.testing.assert_allclose([p.energy_pj for p in points], energy[front], rtol=1e-11)
    # Where no mapping is feasible it says so.
    found = prove_front(space) if len(points) else []
    assert [point.latency_cycles for point in found] == cycles[front].tolist(), where
    np.testing.assert_allclose([p.energy_pj for p in found], energy[front], rtol=1e-11)
    proven = np.array([point.code for point in points], np.int32).reshape(-1, codes.shape[1])
    again = LoopNestModel().evaluate(space, proven)
    assert again.energy_pj.tolist() == [point.energy_pj for point in points]
    assert again.latency_cycles.tolist() == [point.latency_cycles for point in points]
    return len(points)
