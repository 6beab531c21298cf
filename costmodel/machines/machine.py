"""What a machine file says: a hierarchy of memories above an array of multiply-accumulate units.

Levels are listed outermost first; what a level may say stands in `costmodel.machines.levels`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from costmodel.machines.component_entries import MacComponent, MachineSources
from costmodel.machines.components import with_components
from costmodel.machines.constraint_entries import Entries
from costmodel.machines.levels import NETWORK_KEYS, SHARED_KEYS, Axes, Level, Packing, Tiles
from mapspace.arguments import explained
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Name, NonNegativeNumber, PositiveNumber, Size, StrictModel

MOST_LEVELS = 16
"""Factors of every dimension are listed over all of them."""

MOST_UNITS = 2**62
"""What numbers of instances must stay below, so that 64-bit integers hold them."""

# Keys that the first machine files had not.
_WRITTEN_IF_SAID = (
    "cycles_per_mac", "output_fills", "factors", "counting", "orders", "constraints", "node_nm",
    "mac_component", "mac_leakage_pj", "mac_area_mm2", "sources", "packing", "axes",
    "tiles", "link_transfers",
)  # fmt: skip

# Those that say which mappings count, and change no figure of one.
_OF_MAPPINGS = frozenset({"orders", "constraints"})
# Those that say what the machine is made of; what follows stands in its levels.
_OF_COMPONENTS = frozenset({"node_nm", "mac_component", "mac_area_mm2", "sources"})
# Packing changes nothing of tensors that are of words, axes nothing where there is no mesh.
_NO_FIGURE = _OF_MAPPINGS | _OF_COMPONENTS | {"packing", "axes", "tiles"}

Counting = Annotated[
    Literal["timeloop", "true"],
    # YAML reads `true` as a truth value.
    BeforeValidator(lambda value: "true" if value is True else value),
]


@explained
class Machine(StrictModel):
    """A memory hierarchy, its processing elements and what the mapper may decide on it."""

    name: Name
    """How reports call it."""
    levels: tuple[Level, ...] = Field(min_length=1)
    """Outermost (DRAM) first."""
    mac_energy_pj: NonNegativeNumber
    """Energy of one multiply-accumulate, pJ."""
    node_nm: PositiveNumber | None = None
    """Technology node of the components, nm."""
    mac_component: MacComponent | None = None
    """What a multiply-accumulate unit is made of; tables or a library then give its numbers."""
    mac_leakage_pj: NonNegativeNumber = 0.0
    """Leakage of one unit over one cycle, pJ, while it is in use."""
    mac_area_mm2: NonNegativeNumber | None = None
    """Area of one unit, mm2; null: not known."""
    sources: MachineSources = MachineSources()
    """Where the units' numbers come from that were looked up."""
    cycles_per_mac: Size = 1
    """Cycles that a unit needs for one multiply-accumulate."""
    output_fills: Literal["elided", "charged"] = "elided"
    """Whether words of an output that nobody has produced yet are filled into a level as well."""
    word_bits: Size = 16
    """Width of a word, bits."""
    packing: Packing = "whole"
    """How values lie in words, of tensors whose bits the workload says."""
    axes: Axes = "one"
    """How many axes of a mesh a dimension may run along at once, where a level does not say."""
    tiles: Tiles = "together"
    """Whether tensors of a level are stored at loops of their own, where a level does not say."""
    clock_ghz: PositiveNumber = 1.0
    """Cycles per nanosecond."""
    overflow: Literal["invalid", "bypass"] = "invalid"
    """A tile that exceeds its level: the mapping is infeasible, or the tensor skips the level."""
    bypass: Literal["none", "searched"] = "none"
    """Whether the map space decides which tensors skip which level."""
    constraints: Entries = ()
    """What mappings must obey, in the words of Timeloop's mapper."""
    factors: Literal["perfect", "imperfect"] = "perfect"
    """Whether factors multiply to a size, or loops may have a shorter last pass."""
    counting: Counting = "timeloop"
    """Of mappings with remainders: all children as the first, or every element its own work."""
    link_transfers: Annotated[bool, Field(strict=True)] = False
    """Whether children on a mesh hand words to their neighbours, as Timeloop counts them."""

    orders: Literal["searched", "file"] = "searched"
    """Whether buffers side by side may stand in every order, or in that of the file."""

    @model_validator(mode="before")
    @classmethod
    def _hand_down_word_bits(cls, value: object) -> object:
        """A level's capacity in bits or bytes is of its own words, or else of the machine's.

        Components' numbers are filled in by the same words.
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("levels"), list | tuple):
            return value
        if len(value["levels"]) > MOST_LEVELS:
            count = len(value["levels"])
            raise ValueError(f"levels: expected at most {MOST_LEVELS}, got {count:,}.")
        bits = value.get("word_bits", cls.model_fields["word_bits"].default)
        levels = [
            {**level, "word_bits": bits}
            if isinstance(level, Mapping)
            and level.get("word_bits") is None
            and (level.get("capacity_bits") or level.get("capacity_bytes"))
            else level
            for level in value["levels"]
        ]
        return with_components({**value, "levels": levels})

    @field_validator("levels")
    @classmethod
    def _check_levels(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        names = [level.name for level in levels]
        for position, level in enumerate(levels):
            if names.index(level.name) != position:
                raise ValueError(f"the name {level.name!r} is given to two levels.")
            if position and level.capacity_words is None and level.technology is None:
                raise ValueError(
                    f"{level.name}: capacity_words may be null at the outermost level "
                    f"({names[0]}) only."
                )
        return levels

    @model_validator(mode="after")
    def _check_together(self) -> Machine:
        problem = self._problem_together()
        if problem:
            raise ValueError(problem)
        return self

    def with_rules(self, **said: Any) -> Self:
        """This machine with other rules of its map space, such as `factors` or `link_transfers`.

        Raises:
            ConfigError: what it has is not counted under them.
        """
        changed = self.model_copy(update=said)
        problem = changed._problem_together()
        if problem:
            raise ConfigError(f"accelerator {self.name}: {problem}")
        return changed

    def _problem_together(self) -> str | None:
        """What does not go together, in one line, or None."""
        problem = _problem(self.levels) or _sharing_problem(self.levels, self.word_bits)
        shared = [level.shares for level in self.levels if level.shares is not None]
        if self.overflow == "bypass" and len(set(shared)) < len(shared):
            problem = problem or (
                "overflow: expected invalid where levels share one room, got bypass: which tensor "
                "would go is not said."
            )
        problem = problem or self._array_problem() or self._transfer_problem()
        return problem or self._link_problem()

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what says nothing: machines keep the hash that they were filed under."""
        written: dict[str, Any] = handler(self)
        for key in _WRITTEN_IF_SAID:
            if getattr(self, key) == type(self).model_fields[key].default:
                written.pop(key, None)
        return written

    def _array_problem(self) -> str | None:
        """What is wrong with passes through arrays, in one line, or None."""
        for position, level in enumerate(self.levels):
            if level.array is None:
                continue
            where = f"levels[{position}].array"
            if self.factors == "imperfect" or self.counting == "true":
                return f"{where}: passes are counted with perfect factors, not with remainders."
            if self.overflow == "bypass":
                return f"{where}: expected overflow: invalid, got bypass."
            for name in level.array.stationary:
                if all(name in inner.bypass for inner in self.levels[position + 1 :]):
                    return (
                        f"{where}.stationary: expected a level inside {level.name} that keeps "
                        f"{name}."
                    )
        return None

    def _transfer_problem(self) -> str | None:
        """What is wrong with start-ups and single buffers, in one line, or None."""
        for position, level in enumerate(self.levels):
            for key in ("startup", "buffering"):
                if not getattr(level, key):
                    continue
                where = f"levels[{position}].{key}"
                if position == 0:
                    return f"{where}: {level.name} is outermost and asks nobody for tiles."
                if self.factors == "imperfect" or self.counting == "true":
                    return f"{where}: tiles are counted with perfect factors, not with remainders."
                if level.shares is not None or self.has_tiles_apart(level):
                    return f"{where}: {level.name} shares its room; expected one with its own."
        return None

    def _link_problem(self) -> str | None:
        """What is not counted with link transfers, in one line, or None."""
        if not self.link_transfers:
            return None
        for position, level in enumerate(self.levels):
            for key in ("array", "startup", "buffering", "beside", "shares"):
                if getattr(level, key):
                    return (
                        f"levels[{position}].{key}: not counted with link transfers; leave it or "
                        "link_transfers out."
                    )
        return None

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, outermost first."""
        return tuple(level.name for level in self.levels)

    @property
    def processing_elements(self) -> int:
        """Multiply-accumulate units: the product of all fan-outs."""
        return math.prod(level.fanout for level in self.levels)

    def takes_both_axes(self, level: Level) -> bool:
        """Whether a dimension may run along the width and the height below a level at once."""
        return (level.axes or self.axes) == "both" and min(level.width_height) > 1

    def has_tiles_apart(self, level: Level) -> bool:
        """Whether the tensors of a level are stored at loops of their own: never the outermost."""
        return (level.tiles or self.tiles) == "apart" and level is not self.levels[0]

    @property
    def skips(self) -> bool:
        """Whether a mapping decides that tensors skip levels."""
        return self.bypass == "searched" or self.overflow == "bypass"

    @property
    def further_key(self) -> str | None:
        """The first key beyond those of the first machine files that changes a figure."""
        for position, level in enumerate(self.levels):
            key = level.further_key
            if key is None and self.takes_both_axes(level):
                key = "axes"
            if key is None and self.has_tiles_apart(level):
                key = "tiles"
            if key:
                return f"levels[{position}].{key}"
        fields = type(self).model_fields
        keys = (key for key in _WRITTEN_IF_SAID if key not in _NO_FIGURE)
        return next((key for key in keys if getattr(self, key) != fields[key].default), None)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of everything but the name."""
        content = self.model_dump(exclude={"name", "orders"})
        groups = [level.beside for level in self.levels if level.beside is not None]
        # What was counted otherwise once has another hash: nothing of then is taken for it.
        if self.mac_leakage_pj:
            content["mac_leakage"] = "of units in use"
        if self.skips and any(level.hop_energy_pj for level in self.levels):
            content["hops"] = "of the level below"
        if self.orders == "searched" and len(set(groups)) < len(groups):
            # In the order of the file they are what they were before there was a choice.
            content["orders"] = self.orders
        content.pop("axes", None)
        content.pop("tiles", None)
        for said, level in zip(self.levels, content["levels"], strict=True):
            level.pop("axes", None)
            level.pop("tiles", None)
            if self.has_tiles_apart(said):
                level["tiles"] = "apart"
            if self.takes_both_axes(said):
                level["axes"] = "both"
            level["mesh"] = level["mesh"] or (level["fanout"], 1)
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _problem(levels: tuple[Level, ...]) -> str | None:
    """What is wrong with levels beside each other, in one line, or None."""
    instances = 1
    for position, level in enumerate(levels):
        if instances % level.cluster_size:
            return (
                f"levels[{position}].cluster_size: expected a divisor of the {instances} instances "
                f"of {level.name}, got {level.cluster_size}."
            )
        instances *= level.fanout
        if instances >= MOST_UNITS:
            return (
                f"levels[{position}].fanout: expected less than 2^62 instances in all, "
                f"got {float(instances):.3g} below {level.name}."
            )
    for name in sorted({name for level in levels for name in level.bypass}):
        if all(name in level.bypass for level in levels):
            first = levels[0].name
            return (
                f"levels[{first}].bypass: every level bypasses {name!r}; one at least must hold "
                "it: take it out of one of them."
            )
    groups = [level.beside for level in levels]
    for position, level in enumerate(levels):
        following = groups[position + 1 :]
        if level.beside is None or level.beside not in following:
            continue
        if following[0] != level.beside:
            return (
                f"levels[{position}].beside: {level.beside!r} stands at levels that are not "
                "consecutive; list them one after another."
            )
        if position == 0:
            return (
                f"levels[0].beside: {level.name} is outermost and lies beside nothing; take it out "
                f"of {level.beside!r}."
            )
        for key in NETWORK_KEYS:
            if key != "mesh" and getattr(level, key) != Level.model_fields[key].default:
                return (
                    f"levels[{position}].{key}: {level.name} lies beside the level below it; only "
                    f"the last level of {level.beside!r} fans out."
                )
    return None


def _sharing_problem(levels: tuple[Level, ...], word_bits: int) -> str | None:
    """What is wrong with levels that share one room, in one line, or None.

    Args:
        levels: the levels.
        word_bits: of a level that says nothing else.
    """
    for position, (level, inner) in enumerate(itertools.pairwise(levels)):
        where = f"levels[{position}]"
        named = [later.shares for later in levels[position + 1 :]]
        if level.shares is None or level.shares not in named:
            continue
        if inner.shares != level.shares:
            return (
                f"{where}.shares: {level.shares!r} stands at levels that are not consecutive; list "
                "them one after another."
            )
        for key in SHARED_KEYS:
            its, other = getattr(level, key), getattr(inner, key)
            if key == "word_bits":
                its, other = its or word_bits, other or word_bits
            if its != other:
                return (
                    f"{where}.{key}: {level.name} and {inner.name} share one room; expected the "
                    f"same of both, got {its} and {other}."
                )
        if level.banks is not None:
            return f"{where}.banks: levels that share one room have no banks; leave them out."
        if level.fanout > 1:
            return (
                f"{where}.fanout: {level.name} shares the room of the level below it; only the "
                f"last level of {level.shares!r} fans out."
            )
    return None
