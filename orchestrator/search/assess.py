"""From what a searcher and a proof know about a mapping to the result of a search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from costmodel.bounds import algorithmic_minimum, floor
from costmodel.exact.certificate import certify
from costmodel.exact.restriction import problem_hash
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from orchestrator.answers.limits import limits_of
from orchestrator.answers.results import RankedMapping, SearchResult
from orchestrator.answers.standing import Proof, Standing
from orchestrator.records.found_mapping import MappingCosts

if TYPE_CHECKING:
    from costmodel.exact.face import AnyProof
    from costmodel.map_space.map_space import MapSpace
    from orchestrator.answers.request import Request
    from searchers import TrialResult


class Concluded(Protocol):
    """What a searcher says at its end."""

    @property
    def conclusion(self) -> str | None:
        """What it is certain of itself; None: nothing more."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it stopped before its budget; None where it did not."""
        ...


def assess(
    request: Request,
    name: str,
    searcher: Concluded,
    space: MapSpace,
    trial: TrialResult,
    prover: AnyProof | None,
) -> SearchResult:
    """Evaluates the winner of a search, and says what is certain about it.

    Args:
        request: what was asked.
        name: the searcher's name.
        searcher: the searcher, at its end.
        space: the map space.
        trial: what it found; there is a mapping.
        prover: the proof, as far as it came; None where there is none.
    """
    code, model, clock = trial.best_code, LoopNestModel(), space.accelerator.clock_ghz
    assert code is not None
    evaluated = model.evaluate(space, code[None], detail=True)
    assert evaluated.detail is not None
    costs = MappingCosts(float(evaluated.energy_pj[0]), float(evaluated.latency_cycles[0]), clock)
    lower = floor(space.workload, space.accelerator).objective(request.objective)
    # The floor is a true lower bound, so a mapping on it is optimal.
    on_floor = prover is None and trial.best_loss <= lower * (1 + 1e-9)
    above_floor = trial.best_loss / lower - 1 if lower > 0 else math.inf
    overall, restricted, proof = Standing(on_floor, False, lower, above_floor), None, None
    if prover is not None:
        certificate = certify(prover, trial.seconds, code)
        proof = Proof(prover.finished, prover.bounds_computed, certificate)
        if prover.keep is None:
            overall = _proven(prover, trial)
        else:
            restricted = _proven(prover, trial)
    keep = None if prover is None else prover.keep
    hashes = space.workload.hash, space.accelerator.hash
    return SearchResult(
        workload=space.workload,
        accelerator=space.accelerator,
        objective=request.objective,
        model=model.name,
        model_version=model.version,
        searcher=name,
        seed=request.seed,
        mapping=space.describe(code),
        record=mapping_record(space, code),
        costs=costs,
        detail=evaluated.detail,
        limits=limits_of(space, code, evaluated.detail, costs.latency_cycles),
        minimum_edp=algorithmic_minimum(space.workload, space.accelerator).edp,
        floor=lower,
        overall=overall,
        restricted=restricted,
        keep=keep,
        problem_hash=problem_hash(
            *hashes, request.objective, keep, every_order=space.orders is not None
        ),
        proof=proof,
        trial=trial,
        conclusion=searcher.conclusion,
        top=_best(space, prover) if prover is not None and request.top > 1 else (),
        failure=searcher.failure,
    )


def _proven(prover: AnyProof, trial: TrialResult) -> Standing:
    """What a proof says of a winner, in its whole numbers."""
    assert trial.best_code is not None
    reached = prover.outcomes(trial.best_code[None])[0]
    assert reached is not None  # a winner is feasible
    certain, value = prover.value_of(prover.lower_outcome), prover.value_of(reached)
    unit = 1 if prover.objective == "latency" else prover.unit_pj
    return Standing(
        proven=value == certain,
        tie_proven=prover.ties and reached == prover.lower_outcome,
        lower_bound=float(certain * unit),
        gap=(value - certain) / max(1, certain),
    )


def _best(space: MapSpace, prover: AnyProof) -> tuple[RankedMapping, ...]:
    """The best tilings that a proof found."""
    codes = prover.codes()
    costs = LoopNestModel().evaluate(space, codes)
    values = costs.objective(prover.objective)
    clock = space.accelerator.clock_ghz
    return tuple(
        RankedMapping(
            space.describe(code),
            mapping_record(space, code),
            MappingCosts(float(costs.energy_pj[i]), float(costs.latency_cycles[i]), clock),
            float(values[i]) / float(values[0]) - 1,
        )
        for i, code in enumerate(codes)
    )
