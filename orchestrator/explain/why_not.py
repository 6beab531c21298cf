"""How far a mapping of one's own is from the optimum, and which of its decisions loses most."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from costmodel.exact_any.choice import load_prover, make_prover, why_not_proven
from costmodel.explanation.explained import Neighbour
from costmodel.explanation.explanation import neighbour_of
from costmodel.loop_nest.records import record_code
from costmodel.machines.accelerators import constrained
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import LevelMapping
from costmodel.map_space.mapping import Mapping as LoopNest
from costmodel.problems.workloads import workload
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.explain.difference import Difference, differences
from orchestrator.explain.read_mapping import (
    ReadMapping,
    at_code,
    check_same_operation,
    read_mapping,
    whole_record,
)
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import percent, signed_percent, value_text
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.schemas.explained import KeptAnswer, WhyNotAnswer, WhyNotPart

if TYPE_CHECKING:
    from costmodel.exact.face import AnyProof
    from orchestrator.answers.request import Request
    from orchestrator.answers.results import SearchResult


@dataclass(frozen=True)
class KeptDecision:
    """A decision of one's own mapping that the optimum takes differently.

    Attributes:
        decision: what one's own mapping decides, and that which it is held against.
        kept: the best mapping that decides so, everything else free.
        against: what that is: `optimum`, or `best found` where none is proven.
    """

    decision: Difference
    kept: Neighbour
    against: str

    def to_dict(self) -> KeptAnswer:
        """For JSON."""
        return {"decision": self.decision.to_dict(), "kept": self.kept.to_dict()}

    def __str__(self) -> str:
        return f"{_words(self.decision, self.against)}: {_loss(self.kept)}"


@dataclass(frozen=True, repr=False)
class WhyNot(Shown):
    """What keeps a mapping from the optimum.

    Attributes:
        read: the mapping, in the map space of the search.
        result: the search, whose mapping it is held against.
        above: its objective over that of the search's mapping, less 1.
        decisions: in which it differs, the dearest first.
        interrupted: whether an interruption ended the proofs.
    """

    read: ReadMapping
    result: SearchResult
    above: float
    decisions: tuple[KeptDecision, ...]
    interrupted: bool = False

    def to_dict(self) -> WhyNotAnswer:
        """What `search --why-not --json` adds."""
        bound = self.result.searched.lower_bound
        found: WhyNotPart = {
            "objective": self.result.objective,
            **self.read.costs,
            "above": self.above,
            "above_optimum_at_most": self._value / bound - 1 if bound > 0 else None,
            "decisions": [one.to_dict() for one in self.decisions],
            "interrupted": self.interrupted,
        }
        return {"why_not": found}

    @property
    def _value(self) -> float:
        return float(self.read.evaluated.objective(self.result.objective)[0])

    def heading(self) -> str:
        """What is compared with what."""
        best = "the proven optimum" if self.result.searched.proven else "the best found"
        objective, clock = self.result.objective, self.result.accelerator.clock_ghz
        value = value_text(objective, self._value, clock)
        if self.above <= 1e-11:
            return f"your mapping has {objective} {value}: as good as {best}"
        return f"your mapping has {objective} {value}: {percent(self.above)} above {best}"

    def facts(self) -> Iterator[Fact]:
        """A line per decision."""
        for one in self.decisions:
            yield "keeping", str(one)

    def text(self) -> str:
        """It in full, for people."""
        lines = [self.heading()]
        if self.decisions:
            lines.append("what each decision costs when all others are free, the dearest first")
        return "\n".join([*lines, *(f"  {one}" for one in self.decisions)])

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per decision."""
        return [{**one.decision.to_dict(), **one.kept.to_dict()} for one in self.decisions]


def _words(decision: Difference, against: str) -> str:
    where = f"{decision.level} {decision.what}" if decision.level else decision.what
    also = " with its loops" if decision.what == "order" else ""
    return f"{where} {decision.first}{also} ({against}: {decision.second})"


def _loss(kept: Neighbour) -> str:
    if kept.why is not None:
        return f"not looked at: {kept.why.rstrip('.')}"
    if kept.proven and kept.value is None:
        return "no mapping is feasible with it (proven)"
    if kept.change is not None and abs(kept.change) <= 1e-11:
        return "costs nothing (proven)"
    if kept.proven and kept.change is not None:
        return f"{signed_percent(kept.change)} (proven)"
    least = f"{signed_percent(kept.change_at_least)} at least"
    return least if kept.change is None else f"{least}, {signed_percent(kept.change)} at most"


def check_own(request: Request, record: dict[str, Any]) -> None:
    """Refuses what could not be held against the result of a search, before it is searched.

    Raises:
        ConfigError: as `explain_why_not`; or sizes may be padded, to those of another operation.
    """
    if request.pad:
        raise ConfigError("why-not: compares mappings of the sizes as they are, so not with pad.")
    _own(MapSpace(workload(request.workload), request.device), record)


def _own(space: MapSpace, record: dict[str, Any]) -> ReadMapping:
    check_same_operation(read_mapping(record).workload, space.workload)
    return at_code(space, record_code(space, whole_record(record)), record)


def explain_why_not(
    result: SearchResult,
    record: dict[str, Any],
    *,
    seconds: float,
    stream: TextIO | None = None,
) -> WhyNot:
    """Holds a mapping against the result of a search.

    Args:
        result: the search.
        record: the mapping, of the same operation on the same machine.
        seconds: the most that the proofs of its decisions may take together.
        stream: takes the progress; None: standard error.

    Raises:
        ConfigError: the record cannot be read, or is of another operation or machine.
    """
    if not 0 < seconds < math.inf:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds:g}.")
    read = _own(MapSpace(result.workload, result.accelerator), record)
    value = result.costs.objective(result.objective)
    own = float(read.evaluated.objective(result.objective)[0])
    above = own / value - 1 if value > 0 else 0.0
    different = differences(read.mapping, result.mapping)
    live = Live(stream or sys.stderr)
    found: list[KeptDecision] = []
    against = "optimum" if result.searched.proven else "best found"
    ends = time.monotonic() + seconds
    with interruptible() as stop:
        for number, decision in enumerate(different):
            if stop.is_set():
                break
            live.update(partial("  keeping {}".format, decision))
            share = max(0.0, ends - time.monotonic()) / (len(different) - number)
            kept = _keep(read, result, decision, share, stop)
            found.append(KeptDecision(decision, kept, against))
        interrupted = stop.is_set()
    live.end()
    found.sort(key=lambda one: -one.kept.change_at_least)
    return WhyNot(read, result, above, tuple(found), interrupted)


def _keep(
    read: ReadMapping,
    result: SearchResult,
    decision: Difference,
    seconds: float,
    stop: threading.Event,
) -> Neighbour:
    """The best mapping that keeps a decision."""
    value = result.costs.objective(result.objective)
    entry = _entry(read.mapping, decision, read.workload.tensor_names)
    if entry is None:
        return neighbour_of("no constraint says it", value)
    try:
        space = MapSpace(read.workload, constrained(read.machine, [entry]))
    except ConfigError as error:
        return neighbour_of(str(error), value)
    why = why_not_proven(space)
    if why is not None:
        return neighbour_of(why, value)
    load_prover(space)
    prover = make_prover(space, objective=result.objective, keep=result.keep, build=False)
    for mapping in (read.mapping, result.mapping):
        with contextlib.suppress(ConfigError):  # the optimum decides otherwise
            prover.offer(space.code(mapping)[None])

    def after_step(_: AnyProof) -> None:
        if stop.is_set():
            raise _StopError

    with contextlib.suppress(_StopError):
        prover.run(seconds, after_step=after_step)
    return neighbour_of(prover, value)


class _StopError(Exception):
    """Leaves a proof that is interrupted."""


def _entry(
    mapping: LoopNest, decision: Difference, tensors: Sequence[str]
) -> dict[str, Any] | None:
    """A decision as a constraint in the words of Timeloop's mapper; None: it has none for it."""
    level = next((one for one in mapping.levels if one.name == decision.level), None)
    if level is None:
        return None
    target = {"target": level.name}
    if decision.what == "spread":
        return {**target, "type": "spatial", "factors": _factors(level.spatial)}
    if decision.what in ("loops", "order"):
        entry = {**target, "type": "temporal", "factors": _factors(level.temporal)}
        return entry | ({"permutation": _inside_out(level)} if decision.what == "order" else {})
    if decision.what == "keeps":
        others = [name for name in tensors if name not in level.keep]
        return {**target, "type": "bypass", "keep": list(level.keep), "bypass": others}
    return None


def _factors(factors: dict[str, int]) -> list[str]:
    return [f"{name}={factor}" for name, factor in factors.items()]


def _inside_out(level: LevelMapping) -> str:
    """An order as Timeloop writes it, innermost first; its names may have several letters."""
    return ",".join(reversed(level.order))
