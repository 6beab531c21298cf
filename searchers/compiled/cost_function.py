"""Cost models in the form that a compiled search can call between two of its steps.

Python between a proposal and its cost takes a hundred times as long as either. A searcher whose
proposals are compiled may therefore walk for a while by itself: the evaluator lends it the model's
compiled form, and counts, times and checks what it scored (`Evaluator.walk`).

Letters: m mappings scored, D attributes of a code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.remainders import Remainders, WalkScratch, make_walk
from costmodel.arrays.scratch import Scratch, make_scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.compiled.by_reference import by_reference
from costmodel.costs import POWERS, FloatArray
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.cost_kernel import (
    CostArrays,
    DetailArrays,
    evaluate_mappings,
    make_costs,
    make_details,
)
from costmodel.loop_nest.link_transfers import Links, make_links
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.remainder_kernel import evaluate_imperfect
from costmodel.map_space.map_space import MapSpace

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.space import CostModel, Space


@by_reference
class ImperfectCosts(NamedTuple):
    """What it needs besides where factors are imperfect.

    place `[rows]` is below 0 where a factorisation is none of the space: its loss is infinite.
    """

    remainders: Remainders
    walk: WalkScratch
    macs: FloatArray
    place: npt.NDArray[np.int64]


@by_reference
class CompiledCosts(NamedTuple):
    """What compiled code passes to `cost_kernel.evaluate_mappings` to score one mapping.

    The loss is energy ^ energy_power x latency ^ latency_power, infinite where infeasible. All but
    the tables and the powers is overwritten by every call.
    """

    tables: NestTables
    scratch: Scratch
    energy_power: int
    latency_power: int
    costs: CostArrays
    details: DetailArrays
    imperfect: ImperfectCosts | None = None
    added: bool | None = None
    links: Links | None = None


def compiled_costs(model: CostModel, space: Space, objective: Objective) -> CompiledCosts | None:
    """A model in a form that compiled code can call; None where it has none."""
    # No subclass: what it changes compiled code would not see.
    if type(model) is not LoopNestModel or not isinstance(space, MapSpace):
        return None
    if model.link_transfers is not None or model.counting is not None:
        return None
    return CompiledCosts(
        space.tables,
        make_scratch(space.tables),
        *POWERS[objective],
        costs=make_costs(1),
        details=make_details(space.tables, 0),
        imperfect=imperfect_costs(space),
        added=adds_cycles(space.tables),
        links=make_links(space.tables) if space.accelerator.link_transfers else None,
    )


def imperfect_costs(space: MapSpace) -> ImperfectCosts | None:
    """What the compiled costs of a space need where its factors are imperfect."""
    if space.remainders is None:
        return None
    walk = make_walk(space.tables, space.remainders)
    rows = len(space.tables.factors)
    return ImperfectCosts(space.remainders, walk, np.zeros(1), np.zeros(rows, np.int64))


@part
def _evaluate(
    costs: CompiledCosts,
    imperfect: ImperfectCosts | None,
    added: bool | None,
    links: Links | None,
    codes: npt.NDArray[np.int32],
) -> None:
    """Costs of codes `[1, D]`; the model that is not asked for is not even compiled."""
    if imperfect is None:
        evaluate_mappings(
            costs.tables, costs.scratch, codes, costs.costs, costs.details, links, added
        )
    else:
        for d in range(costs.tables.sizes.size):
            if imperfect.place[costs.tables.row_start[d] + codes[0, d]] < 0:
                costs.costs.energy[0] = costs.costs.latency[0] = np.inf
                return
        evaluate_imperfect(
            costs.tables, imperfect.remainders, costs.scratch, imperfect.walk, codes, costs.costs,
            costs.details, imperfect.macs,
        )  # fmt: skip


@part
def score(
    costs: CompiledCosts, codes: npt.NDArray[np.int32], scores: npt.NDArray[np.float64]
) -> None:
    """Scores codes `[1, D]` in compiled code.

    Args:
        costs: how a mapping is scored.
        codes: `[1, D]` int32 the mapping.
        scores: `[2]`, overwritten: the loss, and what decides between equal losses
            (`costmodel.costs.TIE_BREAKERS`); both inf where infeasible.
    """
    _evaluate(costs, costs.imperfect, costs.added, costs.links, codes)
    loss: float = costs.costs.energy[0] ** costs.energy_power
    for _ in range(costs.latency_power):
        loss *= costs.costs.latency[0]
    scores[0] = loss
    scores[1] = costs.costs.latency[0] if costs.latency_power == 0 else costs.costs.energy[0]


# Takes the costs and the iterations left; returns the codes `[m, D]` scored and, `[m, 2]`, their
# losses and what decides between equal ones.
Walk = Callable[[CompiledCosts, int], tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]]
