"""Neighbours of a machine: a little more of something, a constraint less, a decision the other way.

What more of a resource is worth is the optimum of the machine that has it; docs/inside/proof.md
says where more of it can only help.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from costmodel.arrays.machine_tables import sharing, usable_words
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import Mapping
from costmodel.problems.affine import Workload
from costmodel.tile_chains.lattice import divisors_of
from costmodel.tile_chains.rules import Decision, Rules
from costmodel.tile_chains.spatial import keep_choices
from mapspace.strict_yaml import validate

Kind = Literal["capacity", "elements", "bandwidth"]

MOST_WORDS = 2**62 - 1

_BANDWIDTHS = {
    "read_bandwidth": "reads",
    "write_bandwidth": "writes",
    "bandwidth": "accesses",
}


@dataclass(frozen=True)
class Resource:
    """Something that a machine has some of, and could have more of.

    Attributes:
        kind: words held, instances next to each other, or words per cycle.
        name: such as `L1 capacity`, `L2 width` or `DRAM reads`.
        level: the level's position.
        key: of the level, or the mesh's axis: `width` or `height`.
        amount: words, instances, or words per cycle.
        step: the smallest growth.
        only_helps: whether no mapping gets worse or impossible by more of it.
    """

    kind: Kind
    name: str
    level: int
    key: str
    amount: float
    step: float
    only_helps: bool

    @property
    def unit(self) -> str:
        """What it is counted in."""
        units = {"capacity": "words", "elements": "instances", "bandwidth": "words per cycle"}
        return units[self.kind]

    def text_of(self, amount: float) -> str:
        """So much of it, in words."""
        return "without limit" if math.isinf(amount) else f"{amount:.10g} {self.unit}"

    def grown(self, machine: Accelerator, amount: float) -> Accelerator:
        """The machine with another amount of it; inf: a bandwidth without limit."""
        data: dict[str, Any] = machine.model_dump()
        level = data["levels"][self.level]
        if self.kind == "elements":
            width, height = machine.levels[self.level].width_height
            size = (int(amount), height) if self.key == "width" else (width, int(amount))
            level["fanout"] = size[0] * size[1]
            level["mesh"] = None if level["mesh"] is None else size
        elif self.kind == "bandwidth":
            level[self.key] = None if math.isinf(amount) else amount
        else:
            level[self.key] = int(amount)
        if self.kind != "elements":
            # Levels that share a room are one memory.
            for other in data["levels"]:
                if level.get("shares") and other.get("shares") == level["shares"]:
                    other[self.key] = level[self.key]
        return validate(Accelerator, data, machine.name)


def resources(machine: Accelerator) -> list[Resource]:
    """Everything that a machine has a limited amount of, outermost level first."""
    still = not any(entry.kind == "parallelism" for entry in machine.constraints)
    found = []
    rooms = sharing(machine.levels).tolist()
    for index, (level, (first, stop)) in enumerate(zip(machine.levels, rooms, strict=True)):
        memory = level.name if stop == first + 1 else str(level.shares)
        if level.capacity_words and index == first:
            free = level.min_utilisation == 0
            name, step = f"{memory} capacity", level.banks or 1
            words = level.capacity_words
            found.append(
                Resource("capacity", name, index, "capacity_words", words, step, only_helps=free)
            )
        if level.fanout > 1:
            free = still and _is_free(machine)
            sizes = zip(("width", "height"), level.width_height, strict=True)
            found += [
                Resource("elements", f"{level.name} {axis}", index, axis, size, 1, only_helps=free)
                for axis, size in sizes
                if size > 1
            ]
        for key, what in _BANDWIDTHS.items():
            words_per_cycle = getattr(level, key)
            if words_per_cycle is not None and index == first:
                found.append(
                    Resource(
                        "bandwidth", f"{memory} {what}", index, key, words_per_cycle, 1,
                        only_helps=True,
                    )
                )  # fmt: skip
    return found


def _is_free(machine: Accelerator) -> bool:
    """Whether no figure of a mapping depends on instances that are not in use."""
    return not machine.mac_leakage_pj and not any(
        level.hop_energy_pj
        or level.router_pj
        or level.ingress_pj
        or level.leakage_pj
        or level.cluster_size > 1
        for level in machine.levels
    )


def enough(resource: Resource, machine: Accelerator, work: Workload) -> float:
    """An amount that no mapping can use more of; of instances twice as many as there are."""
    if resource.kind == "bandwidth":
        return math.inf
    if resource.kind == "elements":
        return 2 * resource.amount
    level = machine.levels[resource.level]
    words = [work.words(t) for t in range(len(work.tensors))]
    if level.banks is not None:
        return min(level.banks * max(words), MOST_WORDS // level.banks * level.banks)
    return min(math.ceil(sum(words) * level.multiple_buffering), MOST_WORDS)


def amounts(resource: Resource, work: Workload, most: int) -> Sequence[int]:
    """Amounts above the machine's that may allow a mapping that it does not, ascending.

    Args:
        resource: words or instances.
        work: the operation.
        most: the largest amount.
    """
    if resource.kind == "capacity":
        step = int(resource.step)
        return range(int(resource.amount) + step, most + 1, step)
    products = {1}
    for size in work.dimensions.values():
        divisors = divisors_of(size)
        products = {a * b for a, b in itertools.product(products, divisors) if a * b <= most}
    return sorted(product for product in products if product > resource.amount)


def needed(resource: Resource, machine: Accelerator, held: int, most: int) -> int:
    """The least capacity that takes a mapping which fits `most` words and holds so many.

    Args:
        resource: a capacity.
        machine: the machine.
        held: words that all tiles take, each once.
        most: a capacity that takes it.
    """
    level = machine.levels[resource.level]
    if level.banks is not None:
        return most
    least = math.ceil(held * level.multiple_buffering)
    grown = resource.grown(machine, least) if resource.amount < least < most else None
    fits = grown is not None and usable_words(grown.levels[resource.level]) >= held
    return least if fits else most


def decisions(
    space: MapSpace, mapping: Mapping, keep: MappingType[str, Sequence[str]] | None
) -> list[tuple[str, Decision]]:
    """What a mapping decides that it could decide otherwise, in words and as the proof reads it.

    Args:
        space: its map space.
        mapping: the mapping.
        keep: the restriction that it was searched under.
    """
    spaces = (space,) if space.orders is None else space.orders.spaces
    names, tensors = space.accelerator.level_names, space.workload.tensor_names
    choices = [
        (one.accelerator.level_names.index, held)
        for one in spaces
        for held in Rules(one).keeps(keep_choices(one, keep))
    ]
    found = []
    for level in mapping.levels:
        for t, tensor in enumerate(tensors):
            held = tensor in level.keep
            if len({kept[at(level.name)] >> t & 1 for at, kept in choices}) == 2:
                verb = "keeps" if held else "does not keep"
                decision = Decision(names.index(level.name), level.name, tensor=t, held=held)
                found.append((f"{level.name} {verb} {tensor}", decision))
    for position, level in enumerate(mapping.levels):
        for d, (dimension, factor) in enumerate(level.spatial.items()):
            if factor > 1:
                what = f"{level.name} spreads {dimension} ({factor})"
                found.append((what, Decision(position, level.name, dimension=d)))
    return found


def otherwise(mapping: Mapping, decision: Decision, tensors: tuple[str, ...]) -> Mapping:
    """The same mapping but for a decision; it may be infeasible."""
    levels = list(mapping.levels)
    if decision.tensor >= 0:
        at = next(i for i, level in enumerate(levels) if level.name == decision.name)
        tensor, level = tensors[decision.tensor], levels[at]
        held = [name for name in tensors if (name in level.keep) != (name == tensor)]
        levels[at] = replace(level, keep=type(level.keep)(held))
    else:
        level = levels[decision.level]
        dimension = list(level.spatial)[decision.dimension]
        factor = level.spatial[dimension]
        levels[decision.level] = replace(
            level,
            spatial={**level.spatial, dimension: 1},
            temporal={**level.temporal, dimension: level.temporal[dimension] * factor},
        )
    return replace(mapping, levels=type(mapping.levels)(levels))
