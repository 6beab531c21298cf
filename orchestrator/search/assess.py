"""From what a searcher and a proof know about a mapping to the result of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from costmodel.costs import times
from costmodel.exact.certificate import certify
from costmodel.exact.restriction import problem_hash
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.machines.bounds import algorithmic_minimum, floor
from orchestrator.answers.limits import limits_of
from orchestrator.answers.results import RankedMapping, SearchResult
from orchestrator.answers.standing import Proof, Standing
from orchestrator.records.found_mapping import MappingCosts

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.exact.face import AnyProof
    from costmodel.exact.restriction import Restriction
    from costmodel.map_space.map_space import MapSpace
    from costmodel.space import Codes
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
    assert trial.best_code is not None
    lower = floor(space.workload, space.accelerator).objective(request.objective)
    # The floor is a true lower bound, so a mapping on it is optimal.
    on_floor = prover is None and trial.best_loss <= lower * (1 + 1e-9)
    above_floor = trial.best_loss / lower - 1 if lower > 0 else math.inf
    overall, restricted, proof = Standing(on_floor, False, lower, above_floor), None, None
    if prover is not None:
        certificate = certify(prover, trial.seconds, trial.best_code)
        proof = Proof(prover.finished, prover.bounds_computed, certificate)
        if prover.keep is None:
            overall = _proven(prover, trial)
        else:
            restricted = _proven(prover, trial)
    return describe(
        request,
        name,
        space,
        trial,
        Certain(overall, restricted, proof, None if prover is None else prover.keep),
        conclusion=searcher.conclusion,
        top=best_tilings(space, prover.codes(), prover.objective)
        if prover is not None and request.top > 1
        else (),
        failure=searcher.failure,
    )


@dataclass(frozen=True)
class Certain:
    """What is certain of a winner, as `SearchResult` has it."""

    overall: Standing
    restricted: Standing | None
    proof: Proof | None
    keep: Restriction | None


def describe(
    request: Request,
    name: str,
    space: MapSpace,
    trial: TrialResult,
    certain: Certain,
    **further: Any,
) -> SearchResult:
    """Evaluates a winner of which it is known what is certain.

    Args:
        request: what was asked.
        name: the searcher's name.
        space: the map space.
        trial: what was found; there is a mapping.
        certain: what is certain of it.
        further: attributes of the result.
    """
    code, model, clock = trial.best_code, LoopNestModel(), space.accelerator.clock_ghz
    assert code is not None
    evaluated = model.evaluate(space, code[None], detail=True)
    assert evaluated.detail is not None
    costs = MappingCosts(float(evaluated.energy_pj[0]), float(evaluated.latency_cycles[0]), clock)
    hashes = space.workload.hash, space.accelerator.hash
    return SearchResult(
        workload=space.workload,
        accelerator=space.accelerator,
        objective=request.objective,
        model=model.name,
        model_version=model.version,
        searcher=name,
        preset=request.preset,
        hyperparameters=request.resolved(name),
        seed=request.seed,
        mapping=space.describe(code),
        record=mapping_record(space, code),
        costs=costs,
        detail=evaluated.detail,
        limits=limits_of(space, code, evaluated.detail, costs.latency_cycles),
        minimum_edp=algorithmic_minimum(space.workload, space.accelerator).edp,
        floor=floor(space.workload, space.accelerator).objective(request.objective),
        overall=certain.overall,
        restricted=certain.restricted,
        keep=certain.keep,
        problem_hash=problem_hash(
            *hashes, request.objective, certain.keep, every_order=space.orders is not None
        ),
        proof=certain.proof,
        trial=trial,
        **further,
    )


def _proven(prover: AnyProof, trial: TrialResult) -> Standing:
    """What a proof says of a winner, in its whole numbers."""
    assert trial.best_code is not None
    reached = prover.outcomes(trial.best_code[None])[0]
    assert reached is not None  # a winner is feasible
    certain, gap = prover.value_of(prover.lower_outcome), prover.gap_of(reached)
    unit = 1 if prover.objective == "latency" else prover.unit_pj
    return Standing(
        proven=gap == 0,
        tie_proven=prover.ties and reached == prover.lower_outcome,
        lower_bound=float(certain * unit),
        gap=gap,
    )


def best_tilings(space: MapSpace, codes: Codes, objective: Objective) -> tuple[RankedMapping, ...]:
    """The best tilings that a proof found, from their codes `[k, D]`, the best first."""
    costs = LoopNestModel().evaluate(space, codes)
    values = costs.objective(objective)
    clock = space.accelerator.clock_ghz
    return tuple(
        RankedMapping(
            space.describe(code),
            mapping_record(space, code),
            MappingCosts(float(costs.energy_pj[i]), float(costs.latency_cycles[i]), clock),
            times(float(values[i]), float(values[0])) - 1,
        )
        for i, code in enumerate(codes)
    )
