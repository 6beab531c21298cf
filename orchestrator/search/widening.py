"""What each rule that bounds a map space costs: the best mapping again, with one rule lifted."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from mapspace.errors import ArgumentError, MapspaceError
from orchestrator.answers.request import Request
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import percent, value_text
from orchestrator.schemas.explained import WidenAnswer, WiderAnswer

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from orchestrator.answers.results import SearchResult
    from orchestrator.store.folder import Store

# A difference of sums in floating point.
SAME = 1e-11


class Rule(NamedTuple):
    """A rule of a map space and how it is lifted.

    Attributes:
        name: what it rules, in the words of machines.
        lifted: what it says, and what it says in the wider space.
        machine: keys of the machine that change.
        options: options of the search that change.
    """

    name: str
    lifted: str
    machine: Mapping[str, Any]
    options: Mapping[str, Any]

    def part_of(self, other: Rule) -> bool:
        """Whether another one lifts this rule as well."""
        mine, its = {**self.machine, **self.options}, {**other.machine, **other.options}
        return mine.items() <= its.items()


def rules_of(machine: Accelerator, *, restricted: bool = False) -> list[Rule]:
    """The rules that can be lifted on a machine, the last one all of them together.

    How words are counted is none: another count is no wider space.

    Args:
        machine: the machine.
        restricted: whether what levels keep was asked for beside it.
    """
    found = []
    if machine.factors == "perfect":
        found.append(Rule("factors", "perfect -> imperfect", {}, {"factors": "imperfect"}))
    meshes = [level for level in machine.levels if min(level.width_height) > 1]
    # A level that says so itself, or a machine where such a key cannot be lifted, stays as it is.
    if any(level.axes is None and not machine.takes_both_axes(level) for level in meshes):
        found.append(Rule("axes", "one -> both", {}, {"axes": "both"}))
    inside = machine.levels[1:]
    if any(level.tiles is None and not machine.has_tiles_apart(level) for level in inside):
        found.append(Rule("tiles", "together -> apart", {}, {"tiles": "apart"}))
    if restricted or (machine.bypass == "none" and machine.overflow == "invalid"):
        said = "as asked" if restricted else "as the machine says"
        found.append(Rule("bypass", f"{said} -> searched", {"bypass": "searched"}, {"keep": None}))
    if machine.constraints:
        count = len(machine.constraints)
        found.append(Rule("constraints", f"{count} -> none", {"constraints": ()}, {}))
    # Remainders are counted where all tiles of a level are at one place.
    names = [rule.name for rule in found]
    joined = [rule for rule in found if rule.name != "factors" or "tiles" not in names]
    if len(joined) > 1:
        every = Rule(
            "all of these" if len(joined) == len(found) else "all but factors",
            "together",
            {key: value for rule in joined for key, value in rule.machine.items()},
            {key: value for rule in joined for key, value in rule.options.items()},
        )
        found.append(every)
    return found


@dataclass(frozen=True)
class Wider:
    """The best mapping where a rule is lifted.

    Attributes:
        rule: the rule.
        value: of the objective, the narrower space's best where none is better; None: not searched.
        at_least: by what share the rule raises the objective, at least.
        at_most: likewise at most; None: nothing is certain.
        why: why it was not searched; None where it was.
    """

    rule: Rule
    value: float | None = None
    at_least: float = 0.0
    at_most: float | None = None
    why: str | None = None

    @property
    def proven(self) -> bool:
        """Whether what the rule costs is certain."""
        return self.at_most is not None and self.at_most - self.at_least <= SAME

    def text(self) -> str:
        """What the rule costs, in words."""
        if self.why is not None:
            return f"not searched: {self.why.rstrip('.')}"
        if self.proven:
            return f"costs {percent(self.at_least)} (proven)" if self.at_least else "costs nothing"
        found = f"at least {percent(self.at_least)}" if self.at_least else "nothing was found"
        if self.at_most is None:
            return found
        return f"{found}, at most {percent(self.at_most, up=True)}"

    def to_dict(self) -> WiderAnswer:
        """For JSON."""
        return {
            "rule": self.rule.name,
            "lifted": self.rule.lifted,
            "value": self.value,
            "proven": self.proven,
            "at_least": self.at_least,
            "at_most": self.at_most,
            "why": self.why,
        }


@dataclass(frozen=True, repr=False)
class Widened(Shown):
    """What each rule of a map space costs on a problem.

    Attributes:
        result: the search in the space as it is.
        wider: what became of each rule.
        interrupted: whether an interruption left some out.
    """

    result: SearchResult
    wider: tuple[Wider, ...]
    interrupted: bool = False

    def heading(self) -> str:
        """What is compared with what."""
        proven = "proven optimum" if self.result.searched.proven else "best found"
        return f"what each rule of the space costs, in {self.result.objective} of its {proven}"

    def facts(self) -> Iterator[Fact]:
        """A line per rule."""
        if not self.wider:
            yield "rules", "none that could be lifted"
        for one in self.wider:
            value = "" if one.value is None else f"{self._told(one.value)}, "
            yield one.rule.name, f"{one.rule.lifted}: {value}{one.text()}"

    def text(self) -> str:
        """It in full, for people."""
        lines = (f"  {label:<14} {text}" for label, text in self.facts())
        return "\n".join([self.heading(), *lines])

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per rule."""
        return [dict(one.to_dict()) for one in self.wider]

    def to_dict(self) -> WidenAnswer:
        """What `search --widen --json` adds."""
        return {
            "widen": {
                "objective": self.result.objective,
                "rules": [one.to_dict() for one in self.wider],
                "interrupted": self.interrupted,
            }
        }

    def _told(self, value: float) -> str:
        return value_text(self.result.objective, value, self.result.accelerator.clock_ghz)


def widen(
    result: SearchResult,
    *,
    seconds: float,
    stream: TextIO | None = None,
    store: Store | None = None,
) -> Widened:
    """Searches again with each rule lifted by itself, then with all of them.

    Args:
        result: of a search.
        seconds: the most that all these searches may take together, s; each has an equal part of
            what is left.
        stream: takes the progress; None: standard error.
        store: where answers are read and kept; None: nowhere.

    Raises:
        ConfigError: no such time.
    """
    if not 0 < seconds < math.inf:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds:g}.")
    if not 0 < seconds < math.inf:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds:g}.")
    rules = rules_of(result.accelerator, restricted=result.keep is not None)
    end, found = time.monotonic() + seconds, list[Wider]()
    for place, rule in enumerate(rules):
        share = max(0.1, (end - time.monotonic()) / (len(rules) - place))
        try:
            one = _lifted(result, rule, share, stream or sys.stderr, store)
        except KeyboardInterrupt:
            return Widened(result, tuple(found), interrupted=True)
        if isinstance(one, Wider):
            found.append(one)
            continue
        # What is better with a rule lifted is there, too, where others are lifted beside it.
        less = [part.value for part in found if part.value and part.rule.part_of(rule)]
        found.append(cost_of(rule, result, one, min(less, default=math.inf)))
    return Widened(result, tuple(found))


def _lifted(
    result: SearchResult, rule: Rule, seconds: float, stream: TextIO, store: Store | None
) -> SearchResult | Wider:
    """The best mapping where a rule is lifted, or why none was searched.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    from orchestrator.search.one_workload import search

    options = {"keep": result.keep, **rule.options}
    try:
        again = search(
            Request(
                result.workload,
                result.accelerator.model_copy(update=dict(rule.machine)),
                seconds=seconds,
                objective=result.objective,
                store=store,
                **options,
            ),
            stream,
        )
    except MapspaceError as error:  # rules that exclude each other, or no time to find anything
        return Wider(rule, why=str(error))
    if again.interrupted:
        raise KeyboardInterrupt
    return again


def cost_of(rule: Rule, narrow: SearchResult, wide: SearchResult, known: float = math.inf) -> Wider:
    """What a rule costs, by the best mappings with it and without it.

    Args:
        rule: the rule.
        narrow: what was found where it holds.
        wide: what was found where it is lifted; every mapping of the narrow space is in it.
        known: the objective of another mapping there.
    """
    before, least = narrow.costs.objective(narrow.objective), narrow.searched.lower_bound
    after, bound = wide.costs.objective(wide.objective), wide.searched.lower_bound
    after = min(before, after, known)
    # The narrow optimum lies between its bound and what was found, the wide one likewise.
    at_least = max(0.0, least / after - 1) if after > 0 else 0.0
    at_most = before / bound - 1 if bound > 0 else None
    if at_most is not None and at_most <= SAME:
        at_most = at_least = 0.0
    return Wider(rule, after, at_least if at_least > SAME else 0.0, at_most)
