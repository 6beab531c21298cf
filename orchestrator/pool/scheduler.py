"""A search that asks for more whenever an answer is back, on workers of any kind.

The workers are Ray actors (`orchestrator.pool.actors`), or simulated ones in a measurement: this
code is the same. The search's clock stands between events, so that a log of them has it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from costmodel.costs import Costs
from costmodel.space import Codes, Losses
from mapspace.errors import ContractError, DataError
from orchestrator.pool.delivered import DeliveredCosts
from orchestrator.pool.event_log import Event, EventLog, Outcome
from searchers import Evaluator, Searcher, TrialResult
from searchers.queries import Queries, Query


class Workers(Protocol):
    """Who scores queries."""

    @property
    def idle(self) -> int:
        """Queries that could be taken now."""
        ...

    @property
    def seconds(self) -> float:
        """From any origin."""
        ...

    def submit(self, query: Query) -> None:
        """Takes a query."""
        ...

    def wait(self, until: float = math.inf) -> Sequence[Outcome]:
        """Waits until a query is back, a worker has come or a moment is there; what is back."""
        ...


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """The seconds that it was set to."""
        return self.seconds


class PoolSearch:
    """One search, its budget and its log.

    Attributes:
        queries: what the searcher wants scored.
        evaluator: counts what came back; its model is a `DeliveredCosts`, its clock a `Clock`.
        failures: answers that are failures.
        last_failure: why the last of them had no costs.
    """

    def __init__(
        self,
        searcher: Searcher,
        make_evaluator: Callable[[DeliveredCosts, Clock], Evaluator],
        log: EventLog,
        *,
        asynchronous: bool | None = None,
    ) -> None:
        """Takes a searcher that has not been asked.

        Args:
            searcher: proposes.
            make_evaluator: makes the evaluator, with the budget, of its model and its clock.
            log: takes the events.
            asynchronous: as in `Queries`.
        """
        self._model = DeliveredCosts("pool", "1")
        self._clock = Clock()
        self.evaluator = make_evaluator(self._model, self._clock)
        assert self.evaluator.remaining > 0  # its clock starts here, in a replay too
        self.queries = Queries(searcher, self._score, asynchronous=asynchronous)
        self.failures = 0
        self.last_failure = ""
        self._log = log

    def ask(self, wanted: int, seconds: float) -> list[Query]:
        """Queries for so many workers; none where the budget is out or the search waits."""
        before = self._clock.seconds
        found = self._ask(wanted, seconds)
        if found:
            rows = [[query.ticket, *query.code.tolist()] for query in found]
            self._log.asked(seconds, wanted, rows)
        else:
            self._clock.seconds = before  # nothing has happened that a log would have
        return found

    def tell(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Answers that are back at a moment, in this order."""
        self._log.told(seconds, list(outcomes))
        self._tell(outcomes, seconds)

    def replay(self, events: Iterable[Event], where: str) -> None:
        """Lets everything happen again that a log says.

        Raises:
            DataError: the search does something else now.
        """
        for event in events:
            if event.told:
                try:
                    self._tell(event.outcomes, event.seconds)
                except ContractError as error:
                    raise DataError(f"{where}: tells what was not asked: {error}") from error
                continue
            found = self._ask(event.wanted, event.seconds)
            rows = tuple((query.ticket, *query.code.tolist()) for query in found)
            if rows != event.asked:
                raise DataError(
                    f"{where}: at {event.seconds:g} s other mappings are proposed now; was the "
                    "searcher another one?"
                )

    @property
    def seconds(self) -> float:
        """When the last event was."""
        return self._clock.seconds

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: the budget is spent, or nothing more is proposed."""
        limit = self.evaluator.seconds
        if limit is not None and self.seconds >= limit:
            return True
        return self.queries.open == 0 and (self.queries.done or self.evaluator.remaining <= 0)

    def result(self) -> TrialResult:
        """What was found and spent so far."""
        return self.evaluator.result()

    def _ask(self, wanted: int, seconds: float) -> list[Query]:
        self._clock.seconds = seconds
        left = self.evaluator.remaining
        if left <= 0:
            return []
        waiting = self.queries.open if self.queries.asynchronous else 0
        return self.queries.more(wanted, left - waiting)

    def _tell(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        self._clock.seconds = seconds
        for outcome in outcomes:
            if outcome.why:
                self.failures += 1
                self.last_failure = outcome.why
            self.queries.answer(outcome.ticket, outcome)

    def _score(self, codes: Codes, answers: list[Any], surrogate_queries: int) -> Losses:
        if answers:
            self._model.deliver(
                Costs(
                    np.array([answer.energy_pj for answer in answers]),
                    np.array([answer.latency_cycles for answer in answers]),
                    np.array([answer.status for answer in answers], np.int32),
                    np.array([answer.excess for answer in answers], np.int64),
                )
            )
        return self.evaluator(
            codes, surrogate_queries=surrogate_queries, counted=self.queries.searcher.learns
        )


def run(search: PoolSearch, workers: Workers, after: Callable[[], None] | None = None) -> None:
    """Searches until the budget is spent or the searcher has nothing more to propose.

    What is out when a budget of time ends is not waited for.

    Args:
        search: the search; what it has out, after a replay, is scored first.
        workers: score; the clock goes on from where the search's stands when the first has come.
        after: called after every event.
    """
    while not workers.idle:
        workers.wait()
    origin = workers.seconds - search.seconds
    for query in search.queries.unanswered():
        workers.submit(query)
    while True:
        now = workers.seconds - origin
        for query in search.ask(workers.idle, now):
            workers.submit(query)
        if search.queries.open == 0 and (search.queries.done or search.evaluator.remaining <= 0):
            return
        limit = search.evaluator.seconds
        if limit is not None and now >= limit:
            search.tell([], now)  # nothing more has come: the log says that the time is out
            return
        outcomes = workers.wait(math.inf if limit is None else origin + limit)
        if outcomes:
            search.tell(outcomes, workers.seconds - origin)
            if after is not None:
                after()
