"""What may change about a problem, and what its answers must then do: the registry of laws.

A law is one line of `LAWS`. It is tried on machines of `small_hierarchies.random_machine`, in which
every key of machines turns up, and at every door of `test_laws.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, MapSpace, accelerator, workload
from costmodel.machines.levels import SHARED_KEYS, Level
from costmodel.machines.machine import Machine
from mapspace.errors import MapspaceError

Data = dict[str, Any]
ROLES = ["input", "weight", "output"]


class Problem(NamedTuple):
    """A workload and a machine, as files say them."""

    workload: Data
    machine: Data


class Law(NamedTuple):
    """A change of a problem.

    Attributes:
        change: draws a changed problem, or None where the law says nothing of this one.
        energy: energies are so many times those of before; latencies stay.
        same_mappings: mappings stay what they were, so that they can be scored under either.
    """

    change: Callable[[np.random.Generator, Problem], Problem | None]
    energy: float = 1.0
    same_mappings: bool = True


def _machine(change: Callable[[np.random.Generator, Data, Problem], bool]) -> Any:
    """A law that changes a copy of the machine, where it returns True."""

    def changed(rng: np.random.Generator, problem: Problem) -> Problem | None:
        machine = copy.deepcopy(problem.machine)
        return problem._replace(machine=machine) if change(rng, machine, problem) else None

    return changed


@_machine
def energies_by_action(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    plain = [level for level in machine["levels"] if not isinstance(level["energy_pj"], dict)]
    if plain:
        level = plain[rng.integers(len(plain))]
        level["energy_pj"] = dict.fromkeys(("read", "fill", "update"), level["energy_pj"])
    return bool(plain)


@_machine
def loose_bandwidth(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    level = machine["levels"][rng.integers(len(machine["levels"]))]
    missing = [key for key in ("read_bandwidth", "write_bandwidth") if key not in level]
    if "bandwidth" not in level and not {"read_bandwidth", "write_bandwidth"} & level.keys():
        missing.append("bandwidth")
    elif "bandwidth" in level:
        missing = []
    if missing:
        # JSON of a float that is as large would be text to a reader of YAML.
        level[missing[rng.integers(len(missing))]] = 10**18
    # Work waits for what enters single buffers however fast that is: a whole cycle at least.
    return bool(missing) and not any("buffering" in level for level in machine["levels"])


@_machine
def idle_level(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    place = int(rng.integers(1, len(machine["levels"]) + 1))
    idle = {"name": "idle", "capacity_words": 8, "energy_pj": 3.0, "bypass": ROLES}
    machine["levels"].insert(place, idle)
    return not any("beside" in level for level in machine["levels"])


@_machine
def loose_constraint(rng: np.random.Generator, machine: Data, problem: Problem) -> bool:
    sizes = workload(problem.workload).dimensions
    names = list(sizes)
    name = names[rng.integers(len(names))]
    # Constraints of buffers side by side keep them in the order of the file, tiles apart have none.
    apart = [level for level in machine["levels"] if not {"beside", "tiles"} & level.keys()]
    level = apart[rng.integers(len(apart))]
    bound = f"{name}>=1" if rng.random() < 0.5 else f"{name}<={sizes[name]}"
    kind = "spatial" if level.get("fanout", 1) > 1 and rng.random() < 0.5 else "temporal"
    entry = {"target": level["name"], "type": kind, "factors": bound}
    machine["constraints"] = [entry]
    return machine.get("factors") != "imperfect"


@_machine
def large_outer_capacity(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    machine["levels"][0]["capacity_words"] = 10**9
    # A memory with a capacity is on the chip, unless it says what it is made of.
    machine["levels"][0]["technology"] = "DRAM"
    return True


@_machine
def capacity_in_bits(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    level = machine["levels"][rng.integers(1, len(machine["levels"]))]
    level["capacity_bits"] = level.get("word_bits", 16) * level.pop("capacity_words")
    return True


@_machine
def flat_mesh(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    flat = [
        level for level in machine["levels"] if level.get("fanout", 1) > 1 and "mesh" not in level
    ]
    for level in flat:
        level["mesh"] = [level["fanout"], 1]
    return bool(flat)


@_machine
def written_out(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    whole = accelerator(machine)
    machine |= {"overflow": whole.overflow, "factors": whole.factors}
    for key, field in Machine.model_fields.items():
        if key not in NOT_DRAWN and not field.is_required():
            machine.setdefault(key, getattr(whole, key))
    nothing = {
        key: field.default
        for key, field in Level.model_fields.items()
        if key not in NOT_DRAWN and not field.is_required() and field.default not in (None, ())
    }
    for level in machine["levels"]:
        alone = not {"shares", "tiles"} & level.keys() and "link_transfers" not in machine
        if level is not machine["levels"][0] and alone:
            level.setdefault("startup", 0)
            level.setdefault("buffering", "double")
        for key, none in nothing.items():
            level.setdefault(key, none)
    return True


@_machine
def passes_of_no_cycles(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    fanning = [level for level in machine["levels"] if level.get("fanout", 1) > 1]
    if not fanning or {"array", "link_transfers"} & said_keys(machine):
        return False
    inside = machine["levels"][machine["levels"].index(fanning[0]) + 1 :]
    if not inside or any({"bypass", "keep"} & level.keys() for level in inside):
        return False  # what is stationary is kept inside
    fanning[0]["array"] = {"stationary": "output", "load": 0, "fill": 0, "drain": 0}
    return True


@_machine
def all_energies_doubled(rng: np.random.Generator, machine: Data, _: Problem) -> bool:
    machine["mac_energy_pj"] *= 2
    if "mac_leakage_pj" in machine:
        machine["mac_leakage_pj"] *= 2
    per_word = ("hop_energy_pj", "router_pj", "ingress_pj", "address_pj", "leakage_pj")
    for level in machine["levels"]:
        said = level["energy_pj"]
        level["energy_pj"] = (
            {key: 2 * value for key, value in said.items()} if isinstance(said, dict) else 2 * said
        )
        for key in per_word:
            if key in level:
                level[key] *= 2
    return True


def renamed(rng: np.random.Generator, problem: Problem) -> Problem | None:
    found = workload(problem.workload)
    spatial = any((level.get("spatial") or {}).get("x") for level in problem.machine["levels"])
    if spatial or problem.machine.get("constraints"):
        return None
    new = {name: f"D{place}" for place, name in enumerate(found.dimensions)}
    tensors = {
        f"T{place}": [
            " + ".join(f"{factor}*{new[name]}" for name, factor in axis.terms)
            for axis in tensor.axes
        ]
        for place, tensor in enumerate(found.tensors)
    }
    roles = {f"T{place}": role for place, role in enumerate(found.roles.values())}
    work = {
        "dimensions": {new[name]: size for name, size in found.dimensions.items()},
        "tensors": tensors,
        "output": f"T{len(tensors) - 1}",
        "roles": {name: role for name, role in roles.items() if role != "output"},
        **bits_of(problem, dict(zip(found.tensor_names, tensors, strict=True))),
    }
    return problem._replace(workload=work)


def exchanged_inputs(rng: np.random.Generator, problem: Problem) -> Problem | None:
    """The same operation with its dimensions and input tensors listed the other way round.

    Words per cycle are summed tensor by tensor in floating point and rounded up, as in Timeloop:
    where bandwidths are limited another order may take a cycle more or less, and tensors stay.
    """
    if problem.machine.get("overflow") == "bypass" or set(problem.workload) & {"dimensions"}:
        return None
    found = workload(problem.workload)
    inputs = found.tensors[:-1]
    keys = ("read_bandwidth", "write_bandwidth", "bandwidth")
    limited = any(key in level for level in problem.machine["levels"] for key in keys)
    listed = inputs if limited else tuple(reversed(inputs))
    axes = {
        tensor.name: [" + ".join(f"{f}*{d}" for d, f in axis.terms) for axis in tensor.axes]
        for tensor in (*listed, found.tensors[-1])
    }
    work = {
        "dimensions": dict(reversed(found.dimensions.items())),
        "tensors": axes,
        "output": found.tensors[-1].name,
        "roles": {tensor.name: found.roles[tensor.name] for tensor in inputs},
        **bits_of(problem, {name: name for name in found.tensor_names}),
    }
    return problem._replace(workload=work)


def bits_of(problem: Problem, names: Data) -> Data:
    """The bits of values, where the workload has any, by new names of its tensors."""
    bits = problem.workload.get("bits", {})
    return {"bits": {names[name]: size for name, size in bits.items()}} if bits else {}


def bits_of_a_word(rng: np.random.Generator, problem: Problem) -> Problem | None:
    """Values of 16 bits, which are words: however they are packed it is the same."""
    machine = copy.deepcopy(problem.machine)
    words = "word_bits" in machine or any("word_bits" in level for level in machine["levels"])
    if words or "bits" in problem.workload:
        return None
    machine["packing"] = str(rng.choice(["whole", "dense", "word"]))
    names = workload(problem.workload).tensor_names
    return Problem({**problem.workload, "bits": dict.fromkeys(names, 16)}, machine)


LAWS: dict[str, Law] = {
    "energies by action": Law(energies_by_action),
    "a bandwidth that never binds": Law(loose_bandwidth),
    "a level that nobody may use": Law(idle_level, same_mappings=False),
    "a constraint that excludes nothing": Law(loose_constraint),
    "a capacity that is never full": Law(large_outer_capacity),
    "a capacity in bits": Law(capacity_in_bits),
    "a mesh of one row": Law(flat_mesh),
    "defaults written out": Law(written_out),
    "passes that take no cycles": Law(passes_of_no_cycles),
    "bits of a word": Law(bits_of_a_word),
    "energies doubled": Law(all_energies_doubled, energy=2.0),
    "other names": Law(renamed, same_mappings=False),
    "another order of tensors and dimensions": Law(exchanged_inputs, same_mappings=False),
}


# Keys that say the same in other words (components stand for energies), or speak of the map space;
# of `overflow: bypass` there is no proof.
NOT_DRAWN = {
    *("name", "component", "mac_component", "node_nm", "sources", "area_mm2", "mac_area_mm2"),
    *("clock_ghz", "capacity_bits", "capacity_bytes", "technology"),
    *("constraints", "factors", "counting", "orders", "overflow"),
}


def draw(rng: np.random.Generator, most: int | None = None) -> tuple[Problem, MapSpace, Codes]:
    """A problem, its map space, and feasible mappings: all of at most so many, or 200 of any."""
    while True:
        work, three_levels = random_parts(rng)
        machine = three_levels if rng.random() < 0.4 else random_machine(rng)
        add_keys(rng, machine)
        work = smaller(rng, work)
        if rng.random() < 0.15:
            work["bits"] = draw_bits(rng, work, machine)
        problem = Problem(work, machine)
        try:
            space = MapSpace(workload(problem.workload), accelerator(machine))
            codes = every_mapping(space, most) if most else space.sample(rng, 200, feasible=True)
        except MapspaceError:
            continue
        if codes is not None and len(codes):
            return problem, space, codes


def add_keys(rng: np.random.Generator, machine: Data) -> None:
    """What the machines of other tests do not have, or too rarely."""
    levels = machine["levels"]
    instances = 1
    for level in levels:
        if level.get("fanout", 1) > 1 and rng.random() < 0.4:
            level["hop_energy_pj"] = float(rng.choice([0.5, 3.0]))
            machine["bypass"] = str(rng.choice(["searched", "searched", "none"]))
        if instances % 2 == 0 and rng.random() < 0.3:
            level["cluster_size"] = 2
        instances *= level.get("fanout", 1)
    if rng.random() < 0.3:
        machine["mac_leakage_pj"] = 0.7
    if rng.random() < 0.2:
        levels[0]["drain_latency"] = 5
    if rng.random() < 0.3:
        machine["axes"] = "both"
    if len(levels) > 3 and rng.random() < 0.2:
        levels[1]["beside"] = levels[2]["beside"] = "group"
        if rng.random() < 0.3:
            levels[1]["shares"] = levels[2]["shares"] = "group"
            for key in SHARED_KEYS:
                levels[1].pop(key, None)
            levels[1] |= {key: value for key, value in levels[2].items() if key in SHARED_KEYS}
    elif rng.random() < 0.15 and "banks" not in levels[-1]:
        levels[-1]["tiles"] = "apart"
    fanning = [level for level in levels[:-1] if level.get("fanout", 1) > 1]
    if fanning and rng.random() < 0.4:
        fanning[0]["array"] = {
            "stationary": str(rng.choice(["input", "weight", "output"])),
            "load": int(rng.integers(0, 3)),
            "fill": "rows + columns - 2",
            "drain": int(rng.integers(0, 2)),
        }
    uncounted = {"array", "beside", "tiles", "startup", "buffering"} & set(said_keys(machine))
    if machine.get("axes") != "both" and not uncounted and rng.random() < 0.3:
        machine["link_transfers"] = True
        return
    if "shares" not in said_keys(machine) and "tiles" not in said_keys(machine):
        for level in levels[1:]:
            if rng.random() < 0.15:
                level["startup"] = {"weight": 3, "output": 1}
            if rng.random() < 0.1:
                level["buffering"] = "single"


def draw_bits(rng: np.random.Generator, work: Data, machine: Data) -> Data:
    """Bits of values of some tensors; the machine gets ways to pack them, and other words."""
    machine["packing"] = str(rng.choice(["whole", "dense", "word"]))
    for level in machine["levels"][1:]:
        if rng.random() < 0.3:
            level["packing"] = str(rng.choice(["whole", "dense", "word"]))
        if rng.random() < 0.2 and "shares" not in level:
            level["word_bits"] = int(rng.choice([8, 32]))
    names = rng.permutation(workload(work).tensor_names)[: int(rng.integers(1, 4))]
    return {str(name): int(rng.choice([4, 8, 12, 24])) for name in names}


def said_keys(machine: Data) -> set[str]:
    """The keys that a machine's file says, of levels as well."""
    return {*machine, *(key for level in machine["levels"] for key in level)}


def drawn_keys() -> set[str]:
    """All keys that machines have, but for those that say nothing of their own."""
    return {*Machine.model_fields, *Level.model_fields} - NOT_DRAWN


def changed(seed: int, most: int | None = None) -> Iterator[tuple[str, Law, Problem, Problem]]:
    """Name, law and both problems, for all laws that say something of what a seed draws."""
    rng = np.random.default_rng(seed)
    problem, _, _ = draw(rng, most)
    for name, law in LAWS.items():
        other = law.change(rng, problem)
        if other is not None:
            yield name, law, problem, other
