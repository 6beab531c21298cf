"""An answer is looked for in the store, and kept there where it had to be searched."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costmodel.exact.restriction import Restriction, restriction
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import record_code
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import DataError, MapspaceError
from mapspace.strict_yaml import StrictModel, validate
from mapspace.version import __version__
from orchestrator.answers.request import ENUMERATION, Request
from orchestrator.answers.results import SearchResult
from orchestrator.answers.standing import Proof, Standing
from orchestrator.search.assess import Certain, best_tilings, describe
from orchestrator.store.address import Question, problem, surrogate_digest
from orchestrator.store.answers import had_budget, is_settled, keep_answers, read_answer
from orchestrator.store.folder import Say, Store
from orchestrator.store.mappings import stored_code
from orchestrator.store.proofs import certificate_of, proof_question
from orchestrator.store.rows import Number, Row, Whole, content_id, finite, row_of
from orchestrator.store.winners import Winner
from searchers import TrialResult

# Losses of equal mappings may differ in rounding where dimensions stand in another order.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Asked:
    """What is asked of the store.

    Attributes:
        request: how to search.
        space: where.
        method: the searcher that the request comes to.
        seconds: its budget of time, s, where none was named the usual one; None: none.
        begins: what a warm start begins from; None: it begins anew.
    """

    request: Request
    space: MapSpace
    method: str
    seconds: float | None
    begins: tuple[Winner, ...] | None = None

    @property
    def question(self) -> Question:
        """Everything that decides the answer.

        Raises:
            ConfigError: the searcher is unknown, or its surrogate cannot be read.
        """
        request, space, model = self.request, self.space, LoopNestModel()
        limits = {"seconds": self.seconds, "iterations": request.iterations, "gap": request.gap}
        if self.method == "exact":
            return proof_question(
                space.workload,
                space.accelerator,
                request.objective,
                self._keep,
                top=request.top,
                seed=request.seed,
                **limits,
            )
        content = {
            "kind": "search",
            "problem": problem(space.workload, space.accelerator, self._keep),
            "objective": request.objective,
            "model": [model.name, model.version],
            "method": method_of(request, self.method, space.workload),
            "seed": request.seed,
            "top": request.top,
        }
        if self.begins:
            content["begins"] = [winner.codes.tolist() for winner in self.begins]
        return Question(content, limits)

    @property
    def _keep(self) -> Restriction | None:
        return restriction(self.space.workload, self.space.accelerator, self.request.keep)

    def is_served_by(self, row: Row) -> bool:
        """Whether a row of this question will do: a proven one, or one with budget enough."""
        request = self.request
        if request.iterations is not None and self.method != "exact":
            # The seed decides what is found, and it is the same for the very same workload alone.
            same = row.workload_hash == self.space.workload.hash
            enough = had_budget(row, self.seconds, math.inf, request.iterations)
            return same and row.budget_iterations == request.iterations and enough
        if row.proven or (self.method == "exact" and is_settled(row, request.gap)):
            return True
        budget = had_budget(row, self.seconds, request.gap, request.iterations)
        return request.continued is None and budget


def read_or_search(asked: Asked, search: Callable[[], SearchResult], say: Say) -> SearchResult:
    """The answer that the store has; else what a search finds, which is then kept there.

    Args:
        asked: what is asked; its request names the store.
        search: searches.
        say: takes a line where the store has the answer.
    """
    found = read(asked)
    if found is not None:
        say(f"answered from the store: {found.stored}")
        return found
    result = search()
    keep(asked, result)
    return result


def read(asked: Asked) -> SearchResult | None:
    """The answer that the store has; None where it has none that will do, or nothing is asked."""
    store, started = asked.request.store, time.monotonic()
    if store is None:
        return None
    try:
        question = asked.question
    except MapspaceError:
        return None  # the search says what is wrong
    result = read_answer(
        store,
        question,
        asked.is_served_by,
        lambda row: (_result if row.kind == "search" else _proven)(asked, row, store),
    )
    return None if result is None else replace(result, wall_seconds=time.monotonic() - started)


def keep(asked: Asked, result: SearchResult | None) -> None:
    """Keeps a result, unless it was cut off before it was proven."""
    store = asked.request.store
    if store is None or result is None:
        return
    cut = result.interrupted or result.failure or asked.request.continued is not None
    if cut and not result.searched.proven:
        return
    certificate = result.certificate
    texts = [] if certificate is None else [certificate.text()]
    keep_answers(store, [_row(asked, asked.question, result, texts)], texts)


def method_of(request: Request, name: str, workload: Workload) -> dict[str, Any]:
    """A method with what it was told, as JSON types."""
    import searchers

    if name == ENUMERATION:
        return {"name": name, "parameters": {}}
    told = request.resolved(name)
    told.pop("threads", None)
    method: dict[str, Any] = {"name": name, "parameters": told}
    method["family"] = workload.family
    method["package"] = searchers.SEARCHERS.package(name) or f"mapspace {__version__}"
    if "predictor" in searchers.searcher_class(name).USES:
        method["surrogate"] = surrogate_digest(request.surrogate)
    return method


def _row(asked: Asked, question: Question, result: SearchResult, texts: list[str]) -> Row:
    parameters = question.content.get("method", {}).get("parameters", {})
    space, request, trial, standing = asked.space, asked.request, result.trial, result.searched
    certificate = content_id(texts[0].encode()) + ".json" if texts else None
    return row_of(
        "search",
        question,
        space.workload,
        space.accelerator,
        LoopNestModel(),
        objective=request.objective,
        method=asked.method,
        parameters=json.dumps(parameters, sort_keys=True),
        seed=request.seed,
        budget_seconds=asked.seconds,
        budget_iterations=request.iterations,
        budget_gap=request.gap,
        value=trial.best_loss,
        energy_pj=result.costs.energy_pj,
        latency_cycles=result.costs.latency_cycles,
        proven=standing.proven,
        lower_bound=finite(standing.lower_bound),
        gap=finite(standing.gap),
        iterations=trial.iterations,
        seconds=trial.seconds,
        certificate=certificate,
        payload=json.dumps(_payload(result)),
    )


def _payload(result: SearchResult) -> dict[str, Any]:
    """What makes a result again, as JSON types; NaN and infinities are null."""
    trial, proof = result.trial, result.proof
    assert trial.best_code is not None  # a result has a mapping
    return {
        "workload": result.workload.model_dump(mode="json"),
        "record": result.record,
        "code": [int(part) for part in trial.best_code],
        "top": [entry.record for entry in result.top],
        "overall": _standing_values(result.overall),
        "restricted": _standing_values(result.restricted),
        "finished": None if proof is None else proof.finished,
        "bounds": None if proof is None else proof.bounds,
        "conclusion": result.conclusion,
        "trial": {
            "true_queries": trial.true_queries,
            "surrogate_queries": trial.surrogate_queries,
            "evaluation": trial.curve_iteration.tolist(),
            "seconds": trial.curve_seconds.tolist(),
            "loss": [finite(loss) for loss in trial.curve_loss.tolist()],
            "counted": trial.curve_counted.tolist(),
        },
    }


def _standing_values(standing: Standing | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {
        key: finite(value) if isinstance(value, float) else value
        for key, value in vars(standing).items()
    }


class _Standing(StrictModel):
    proven: bool
    tie_proven: bool
    lower_bound: float | None
    gap: float | None

    def value(self) -> Standing:
        return Standing(
            self.proven,
            self.tie_proven,
            math.inf if self.lower_bound is None else self.lower_bound,
            math.inf if self.gap is None else self.gap,
        )


class _Trial(StrictModel):
    true_queries: Whole
    surrogate_queries: Whole
    evaluation: tuple[Whole, ...]
    seconds: tuple[Number, ...]
    loss: tuple[Number | None, ...]
    counted: tuple[Whole, ...]


class _Payload(StrictModel):
    """What a row of a search holds."""

    workload: Workload
    record: dict[str, Any]
    code: tuple[Whole, ...]
    top: tuple[dict[str, Any], ...]
    overall: _Standing
    restricted: _Standing | None
    finished: bool | None
    bounds: Whole | None
    conclusion: str | None
    trial: _Trial


def _proven(asked: Asked, row: Row, store: Store) -> SearchResult:
    """The result that a proof of a benchmark or a sweep comes to; it counts no cost queries.

    Raises:
        ConfigError: its mapping is none of the space.
        DataError: the certificate is damaged.
    """
    space = asked.space
    certificate = certificate_of(row, store, space, asked.request.keep)
    code = record_code(space, certificate.record)
    loss = float(LoopNestModel().evaluate(space, code[None]).objective(certificate.objective)[0])
    if not math.isclose(loss, certificate.value, rel_tol=ROUNDING):
        raise DataError(f"expected {certificate.value!r}, the mapping has {loss!r}.")
    trial = TrialResult(
        best_code=code,
        best_loss=loss,
        iterations=0,
        true_queries=0,
        surrogate_queries=0,
        seconds=row.seconds,
        curve_iteration=np.zeros(1, np.int64),
        curve_seconds=np.array([row.seconds]),
        curve_loss=np.array([loss]),
        curve_counted=np.zeros(1, np.int64),
    )
    standing = Standing(
        certificate.proven,
        bool(certificate.tie_proven),
        certificate.lower_bound,
        certificate.gap,
    )
    proof = Proof(certificate.proven, sum(certificate.counts.values()), certificate)
    certain = Certain(standing, None, proof, None)
    return describe(asked.request, asked.method, space, trial, certain, stored=store.where(row))


def _result(asked: Asked, row: Row, store: Store) -> SearchResult:
    """The result of a row, in the names of who asks.

    Raises:
        DataError: the row or its certificate is damaged.
        ConfigError: its mapping is none of the space.
    """
    payload = validate(_Payload, row.content(), f"row {row.name}", DataError)
    space, request, told = asked.space, asked.request, payload.trial
    code = stored_code(space, payload.workload, payload.record, payload.code)
    loss = float(LoopNestModel().evaluate(space, code[None]).objective(request.objective)[0])
    if row.value is None or not math.isclose(loss, row.value, rel_tol=ROUNDING):
        raise DataError(f"expected {request.objective} of {row.value!r}, the mapping has {loss!r}.")
    trial = TrialResult(
        best_code=code,
        best_loss=loss,
        iterations=row.iterations,
        true_queries=told.true_queries,
        surrogate_queries=told.surrogate_queries,
        seconds=row.seconds,
        curve_iteration=np.array(told.evaluation, dtype=np.int64),
        curve_seconds=np.array(told.seconds),
        curve_loss=np.array([math.inf if loss is None else loss for loss in told.loss]),
        curve_counted=np.array(told.counted, dtype=np.int64),
    )
    proof, keep = None, None
    if row.certificate is not None:
        certificate = certificate_of(row, store, space, request.keep)
        keep = certificate.keep
        proof = Proof(bool(payload.finished), payload.bounds or 0, certificate)
    restricted = None if payload.restricted is None else payload.restricted.value()
    top = [stored_code(space, payload.workload, record) for record in payload.top]
    return describe(
        request,
        asked.method,
        space,
        trial,
        Certain(payload.overall.value(), restricted, proof, keep),
        conclusion=payload.conclusion,
        top=best_tilings(space, np.stack(top), request.objective) if top else (),
        stored=store.where(row),
    )
