"""In which decisions two mappings of one operation differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from costmodel.map_space.mapping import LevelMapping
from costmodel.map_space.mapping import Mapping as LoopNest
from orchestrator.schemas.costs import DecisionAnswer


@dataclass(frozen=True)
class Difference:
    """A decision that two mappings take differently.

    Attributes:
        level: where; empty of the order of the levels themselves.
        what: `loops`, `order`, `spread`, `axis`, `keeps`, `banks` or `levels`.
        first: what the first mapping decides, in words.
        second: what the second does.
    """

    level: str
    what: str
    first: str
    second: str

    def to_dict(self) -> DecisionAnswer:
        """For JSON."""
        return {
            "level": self.level,
            "what": self.what,
            "first": self.first,
            "second": self.second,
        }

    def __str__(self) -> str:
        where = f"{self.level} {self.what}" if self.level else self.what
        return f"{where}: {self.first} -> {self.second}"


def differences(first: LoopNest, second: LoopNest) -> list[Difference]:
    """The decisions in which two mappings differ, outermost level first.

    Args:
        first: a mapping.
        second: of the same operation; its levels may stand in another order, or be others.
    """
    return list(_differences(first, second))


def _differences(first: LoopNest, second: LoopNest) -> Iterator[Difference]:
    names = [[level.name for level in mapping.levels] for mapping in (first, second)]
    if names[0] != names[1]:
        yield Difference("", "levels", ", ".join(names[0]), ", ".join(names[1]))
    others = {level.name: level for level in second.levels}
    for level in first.levels:
        other = others.get(level.name)
        if other is None:
            continue
        for what, said in _SAID.items():
            one, two = said(level), said(other)
            if one != two:
                yield Difference(level.name, what, one, two)


def _loops(level: LevelMapping) -> str:
    return _factors(level.temporal, level.temporal_rests)


def _spread(level: LevelMapping) -> str:
    return _factors(level.spatial, level.spatial_rests)


def _factors(factors: Mapping[str, int], rests: Mapping[str, int]) -> str:
    found = []
    for name in sorted(factors):
        factor, rest = factors[name], rests.get(name, factors[name])
        if factor > 1:
            found.append(f"{name} {factor}" + (f" ({rest} at last)" if rest != factor else ""))
    return " ".join(found) or "none"


def _order(level: LevelMapping) -> str:
    return " ".join(name for name in level.order if level.temporal[name] > 1) or "none"


def _axis(level: LevelMapping) -> str:
    found = [
        f"{name} {'X and Y' if name in level.spatial_height else level.spatial_axis[name]}"
        for name in sorted(level.spatial_axis)
        if level.spatial.get(name, 1) > 1
    ]
    return " ".join(found) or "none"


def _keeps(level: LevelMapping) -> str:
    return ", ".join(sorted(level.keep)) or "nothing"


def _banks(level: LevelMapping) -> str:
    return " ".join(f"{name} {count}" for name, count in sorted(level.banks.items())) or "none"


_SAID = {
    "loops": _loops,
    "order": _order,
    "spread": _spread,
    "axis": _axis,
    "keeps": _keeps,
    "banks": _banks,
}
