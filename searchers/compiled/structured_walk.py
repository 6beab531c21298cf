"""Compiled chains of the structured searcher: they propose, are scored, and take it or stay.

Letters as in `searchers.compiled.structured_moves`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel.arrays.feasibility import check_mapping
from costmodel.compiled import lean, part
from costmodel.costs import STATUS_OK
from costmodel.space import Codes
from searchers.compiled.cost_function import CompiledCosts, score
from searchers.compiled.random_numbers import copy, uniform
from searchers.compiled.structured_deep import attempt_deep
from searchers.compiled.structured_moves import attempt
from searchers.compiled.structured_state import ATTEMPTS, Chains, Hand, Schedule


@part
def _attempt(hand: Hand, deep: int | None, new: bool, code: Codes) -> bool:
    """A new mapping or a move; proposals of other machines are not even compiled."""
    if deep is None:
        attempt(hand.tables, hand.choices, hand.work, new, code)
        return True
    return attempt_deep(hand.tables, hand.choices, hand.work, new, code)


@part
def _propose_one(hand: Hand, held: Codes, fresh: bool, code: Codes) -> bool:
    """A feasible mapping that differs from the one held, into code `[D]`; False: none was found."""
    work = hand.work
    for tried in range(2 * ATTEMPTS):
        copy(held, code)
        # A mapping that finds no move in many attempts gives way to a new one.
        new = fresh or tried >= ATTEMPTS
        if not _attempt(hand, hand.deep, new, code):
            continue
        differs = fresh or (new and hand.deep is not None)
        for i in range(code.size):
            differs |= code[i] != held[i]
        if not differs:
            continue
        if check_mapping(hand.tables, code, work.rows, work.kept, work.tile)[0] == STATUS_OK:
            return True
    return False


@lean
def propose(
    hand: Hand,
    codes: Codes,
    fresh: npt.NDArray[np.bool_],
    streams: npt.NDArray[np.uint64],
    proposals: Codes,
    found: npt.NDArray[np.bool_],
) -> None:
    """One feasible proposal per chain, into proposals `[C, D]` int32.

    Args:
        hand: from `structured_state.make_hand`.
        codes: `[C, D]` int32 where the chains stand; feasible where `fresh` is False.
        fresh: `[C]` bool: a new mapping instead of a move.
        streams: `[C]` uint64 random streams; those that found a proposal are moved on.
        proposals: `[C, D]` int32, overwritten.
        found: `[C]` bool, overwritten: whether the proposal is feasible and new, else of no use.
    """
    stream = hand.work.stream
    for c in range(codes.shape[0]):
        stream[0] = streams[c]
        found[c] = _propose_one(hand, codes[c], fresh[c], proposals[c])
        if found[c]:
            streams[c] = stream[0]


@part
def _settle_one(schedule: Schedule, chains: Chains, c: int, code: Codes, loss: float) -> None:
    """A chain's next step: it takes what it proposed, or stays (Metropolis' rule)."""
    offered = np.log(loss)
    held = chains.losses[c]
    draw = uniform(chains.streams[c : c + 1])
    step = chains.steps[c] - schedule.initial
    chains.steps[c] += 1
    if step < 0 or not np.isfinite(held) or not np.isfinite(offered):
        # While it samples a chain only improves.
        accepted = offered < held
    else:
        done = min(1.0, step / max(1, schedule.length - 1))
        heat = schedule.hottest * (schedule.coldest / schedule.hottest) ** done
        accepted = draw < np.exp(-max(0.0, offered - held) / heat)
    if accepted:
        chains.losses[c] = offered
        copy(code, chains.codes[c])


@lean
def settle(
    schedule: Schedule,
    chains: Chains,
    rows: npt.NDArray[np.int64],
    codes: Codes,
    losses: npt.NDArray[np.float64],
) -> None:
    """Chains `rows` `[m]` take what they proposed, codes `[m, D]` of losses `[m]`, or stay."""
    for i in range(rows.size):
        _settle_one(schedule, chains, rows[i], codes[i], losses[i])


@lean
def walk(
    hand: Hand,
    schedule: Schedule,
    chains: Chains,
    turn: int,
    costs: CompiledCosts,
    spare: Codes,
    codes: Codes,
    scores: npt.NDArray[np.float64],
) -> int:
    """Runs chains in turn until all are at their ends, scoring what they propose.

    Args:
        hand: from `structured_state.make_hand`.
        schedule: of every chain.
        chains: moved on, first chain `turn`.
        turn: a chain that has made no more steps than another.
        costs: how a mapping is scored.
        spare: `[0 or 1, D]` what the first step proposes if it finds nothing.
        codes: `[m, D]` int32, overwritten with what was scored.
        scores: `[m, 2]`, overwritten with losses and tie-breakers.

    Returns:
        How many were scored: m, or fewer where all chains have ended or one finds no proposal.
    """
    stream = hand.work.stream
    for scored in range(codes.shape[0]):
        c = (turn + scored) % chains.steps.size
        if chains.steps[c] == schedule.initial + schedule.length:
            return scored
        code = codes[scored]
        fresh = chains.steps[c] < schedule.initial or chains.losses[c] == np.inf
        stream[0] = chains.streams[c]
        if _propose_one(hand, chains.codes[c], fresh, code):
            chains.streams[c] = stream[0]
        elif scored == 0 and spare.shape[0] > 0:
            copy(spare[0], code)
        else:
            return scored
        score(costs, codes[scored : scored + 1], scores[scored])
        _settle_one(schedule, chains, c, code, scores[scored, 0])
    return codes.shape[0]
