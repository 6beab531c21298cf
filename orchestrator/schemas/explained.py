"""What `mapspace explain`, `diff` and `search --explain`, `--why-not`, `--widen` print."""

from __future__ import annotations

from typing_extensions import TypedDict

from costmodel.explanation.explanation_json import ExplanationAnswer as ExplanationAnswer
from costmodel.explanation.explanation_json import NeighbourAnswer
from orchestrator.schemas.costs import CostsOfRecord, DecisionAnswer, LimitAnswer, Objective


class Unexplained(TypedDict):
    """Nothing is explained, and why."""

    why: str


class KeptAnswer(TypedDict):
    """A decision of one's own mapping, and the best mapping that keeps it."""

    decision: DecisionAnswer
    kept: NeighbourAnswer


class WhyNotPart(CostsOfRecord):
    """What keeps a mapping from the optimum; costs are its own.

    Attributes:
        above: its objective over that of the search's mapping, less 1.
        above_optimum_at_most: likewise over the lower bound; null where that is 0.
        decisions: in which it differs, the dearest first.
    """

    objective: Objective
    above: float
    above_optimum_at_most: float | None
    decisions: list[KeptAnswer]
    interrupted: bool


class WhyNotAnswer(TypedDict):
    """What keeps a mapping from the optimum."""

    why_not: WhyNotPart


class WiderAnswer(TypedDict):
    """What a rule of a map space costs.

    Attributes:
        rule: what it rules, such as `factors`.
        lifted: what it says, and what it says in the wider space.
        value: the objective's least there; null where nothing was searched.
        proven: whether the share is certain: then both limits are one.
        at_least: by what share the rule raises the objective, at least.
        at_most: likewise at most; null: nothing is certain.
        why: why nothing was searched; null where it was.
    """

    rule: str
    lifted: str
    value: float | None
    proven: bool
    at_least: float
    at_most: float | None
    why: str | None


class WidenPart(TypedDict):
    """What each rule of a map space costs on a problem, one after another."""

    objective: Objective
    rules: list[WiderAnswer]
    interrupted: bool


class WidenAnswer(TypedDict):
    """What each rule of a map space costs on a problem."""

    widen: WidenPart


class CauseAnswer(TypedDict):
    """A loop that causes accesses."""

    level: str
    dimension: str
    factor: int


class TransferAnswer(TypedDict):
    """What a tensor costs at a level, and why.

    Attributes:
        into: where its words go.
        energy_pj: energy of the accesses, pJ.
        share: of the whole energy.
        accesses: of all instances.
        words: of the tensor.
        accesses_per_word: accesses over words.
        times: how often every word is sent inwards.
        again: loops for which it is sent again.
        copies: loops across which children share a word.
    """

    level: str
    tensor: str
    into: str
    energy_pj: float
    share: float
    accesses: float
    words: int
    accesses_per_word: float
    times: int
    again: list[CauseAnswer]
    copies: list[CauseAnswer]


class MoveAnswer(TypedDict):
    """The best mapping one move away.

    Attributes:
        moves: mappings one move away.
        feasible: how many of these are feasible; all were evaluated.
        better: whether the best of them is better.
        change: its objective over this mapping's, less 1; null: none is feasible.
        differences: what it decides otherwise.
    """

    moves: int
    feasible: int
    better: bool
    change: float | None
    differences: list[DecisionAnswer]


class ExplainAnswer(CostsOfRecord):
    """Where the costs of a mapping come from.

    Attributes:
        utilisation: share of the elements at work, on average.
        mac_energy_pj: energy of the multiply-accumulates, pJ.
        network_energy_pj: energy of the networks between levels, pJ.
        transfers: energy by level and tensor, the dearest first.
        limits: every bound of the machine with what is used of it.
        best_move: the best mapping one move away.
    """

    workload: str
    accelerator: str
    objective: Objective
    utilisation: float
    mac_energy_pj: float
    network_energy_pj: float
    transfers: list[TransferAnswer]
    limits: list[LimitAnswer]
    best_move: MoveAnswer


class EnergyChangeAnswer(TypedDict):
    """What a tensor costs at a level in both mappings, pJ."""

    level: str
    tensor: str
    first_pj: float
    second_pj: float
    change_pj: float


class DiffAnswer(TypedDict):
    """In what two mappings of one operation differ.

    Attributes:
        accelerators: of the first mapping, and of the second.
        first: costs of the first.
        second: costs of the second.
        change: of every cost, second over first, less 1; 0 where the first is 0.
        energy: by level and tensor, the largest change first.
        decisions: taken differently.
    """

    workload: str
    accelerators: list[str]
    first: CostsOfRecord
    second: CostsOfRecord
    change: dict[str, float]
    energy: list[EnergyChangeAnswer]
    decisions: list[DecisionAnswer]
