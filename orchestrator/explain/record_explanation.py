"""Why a mapping costs what it does: loops that ask for words again, and the best move from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.costs import Objective
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.refetching import Cause, Refetching, refetching
from orchestrator.answers.mapping_figure import mapping_figure
from orchestrator.explain.difference import Difference, differences
from orchestrator.explain.read_mapping import ReadMapping
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import percent
from orchestrator.schemas.explained import CauseAnswer, ExplainAnswer, MoveAnswer, TransferAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Transfers below this share of the energy are not worth a line of text; JSON has all.
_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class Transfer:
    """What a tensor costs at a level, and what sends its words inwards so often.

    Attributes:
        refetching: how often its words leave the level, and the loops that make them.
        energy_pj: of all accesses to it there, fills and updates included, pJ.
        share: of the mapping's energy.
        accesses: words read, filled and updated, all instances together.
    """

    refetching: Refetching
    energy_pj: float
    share: float
    accesses: float

    def to_dict(self) -> TransferAnswer:
        """For JSON."""
        again = self.refetching
        return {
            "level": again.level,
            "tensor": again.tensor,
            "into": again.into,
            "energy_pj": self.energy_pj,
            "share": self.share,
            "accesses": self.accesses,
            "words": again.words,
            "accesses_per_word": self.accesses / again.words,
            "times": again.times,
            "again": [_cause(cause) for cause in again.again],
            "copies": [_cause(cause) for cause in again.copies],
        }

    def __str__(self) -> str:
        again = self.refetching
        each = f"{self.accesses / again.words:,.4g} accesses a word"
        text = f"{percent(self.share)} of the energy, {each}; to {again.into}"
        if again.times == 1:
            text += " every word once"
        else:
            text += f" {again.times:,} times, for {_loops(again.again)}"
        return text + (f"; shared across {_loops(again.copies)}" if again.copies else "")


def _cause(cause: Cause) -> CauseAnswer:
    loop = cause.loop
    return {"level": cause.level, "dimension": loop.dimension, "factor": loop.factor}


def _loops(causes: Sequence[Cause]) -> str:
    return ", ".join(f"{c.loop.dimension} {c.loop.factor} of {c.level}" for c in causes)


@dataclass(frozen=True)
class BestMove:
    """The best mapping one move away.

    Attributes:
        moves: how many mappings are one move away.
        feasible: how many of these are feasible; all were evaluated.
        change: the objective of the best of them over this mapping's, less 1; None: none is
            feasible.
        differences: what it decides otherwise.
    """

    moves: int
    feasible: int
    change: float | None
    differences: tuple[Difference, ...]

    @property
    def better(self) -> bool:
        """Whether it is better than the mapping."""
        return self.change is not None and self.change < 0

    def to_dict(self) -> MoveAnswer:
        """For JSON."""
        return {
            "moves": self.moves,
            "feasible": self.feasible,
            "better": self.better,
            "change": self.change,
            "differences": [one.to_dict() for one in self.differences],
        }


@dataclass(frozen=True, repr=False)
class ExplainedMapping(Shown):
    """Where a mapping's costs come from.

    Attributes:
        read: the mapping.
        objective: what is minimised.
        transfers: energy by level and tensor, the dearest first, with what causes it.
        best_move: the best mapping one move away.
    """

    read: ReadMapping
    objective: Objective
    transfers: tuple[Transfer, ...]
    best_move: BestMove

    def to_dict(self) -> ExplainAnswer:
        """What `mapspace explain --json` prints."""
        detail = self.read.detail
        return {
            "workload": self.read.workload.name,
            "accelerator": self.read.machine.name,
            "objective": self.objective,
            **self.read.costs,
            "utilisation": float(detail.utilisation[0]),
            "mac_energy_pj": detail.mac_energy_pj,
            "network_energy_pj": float(detail.network_energy_pj[0].sum()),
            "transfers": [one.to_dict() for one in self.transfers],
            "limits": [limit.to_dict() for limit in self.read.limits],
            "best_move": self.best_move.to_dict(),
        }

    def heading(self) -> str:
        """The problem."""
        return self.read.heading

    def facts(self) -> Iterator[Fact]:
        """A line per transfer worth one, then the best move."""
        for one in self.transfers:
            if one.share >= _LEAST_SHARE:
                yield f"{one.refetching.tensor} at {one.refetching.level}", str(one)
        yield "one move away", self._move()

    def rows(self) -> Sequence[TransferAnswer]:
        """One row per level and tensor."""
        return [one.to_dict() for one in self.transfers]

    def picture(self) -> str:
        """The loop nest."""
        return str(self.read.mapping)

    def plot(self) -> Figure:
        """The mapping as a drawing."""
        return mapping_figure(self.read.drawn)

    def _move(self) -> str:
        move = self.best_move
        looked = f"{move.feasible:,} of {move.moves:,} mappings one move away are feasible"
        if move.change is None:
            return looked
        if not move.better:
            return f"{looked}, and none has a lower {self.objective} (all were evaluated)"
        what = "; ".join(map(str, move.differences))
        return f"{looked}; the best has {percent(move.change)} {self.objective}: {what}"


def explain_mapping(read: ReadMapping, objective: Objective = "edp") -> ExplainedMapping:
    """Says where a mapping's costs come from.

    Args:
        read: the mapping.
        objective: what a better mapping has less of.
    """
    detail, total = read.detail, read.energy_pj
    machine, tensors = read.space.in_order(read.code)[0].accelerator, read.workload.tensor_names
    found = []
    for entry in refetching(read.nest):
        level = machine.level_names.index(entry.level)
        at = (0, level, tensors.index(entry.tensor))
        energy = float(detail.energy_pj[at])
        counts = (detail.reads[at], detail.fills[at], detail.updates[at])
        accesses = float(sum(counts)) * int(detail.instances[0, level])
        found.append(Transfer(entry, energy, energy / total if total else 0.0, accesses))
    found.sort(key=lambda one: -one.energy_pj)
    return ExplainedMapping(read, objective, tuple(found), _best_move(read, objective))


def _best_move(read: ReadMapping, objective: Objective) -> BestMove:
    space = read.space
    near = space.neighbours(read.code)
    fits = near[space.feasible(near)]
    if not len(fits):
        return BestMove(len(near), 0, None, ())
    losses = LoopNestModel().evaluate(space, fits).objective(objective)
    best = int(np.argmin(losses))
    change = float(losses[best] / read.evaluated.objective(objective)[0] - 1)
    different = differences(read.mapping, space.describe(fits[best]))
    return BestMove(len(near), len(fits), change, tuple(different))
