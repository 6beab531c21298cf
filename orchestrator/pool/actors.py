"""Evaluators on Ray actors: each keeps its cost model; one that dies costs its own query alone."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import ray

from costmodel.costs import STATUS_OUTSIDE
from costmodel.space import Codes
from mapspace.errors import ConfigError, MapspaceError
from orchestrator.pool.event_log import Outcome
from orchestrator.pool.remembered import Memory, Scored
from orchestrator.runs.ray_runtime import node_was_lost
from searchers.queries import Query

# The most often that a query is given to an evaluator again whose process died; that its node was
# lost does not count.
DEATHS = 3
# How long no evaluator may come where Ray has what one needs.
START_SECONDS = 120.0
POLL_SECONDS = 1.0


class _Evaluator:
    """The actor: scores one mapping at a time, and remembers what its model remembers."""

    def __init__(self, make: Callable[[], tuple[Any, Any]]) -> None:
        self._make = make
        self._model, self._space = make()
        # Loads what is compiled, so that no query pays for it.
        self._space.feasible(self._space.sample(np.random.default_rng(0), 1))

    def ready(self) -> bool:
        """Answers once it was made."""
        return True

    def forget(self) -> None:
        """Begins with a new model, which remembers nothing."""
        self._model, self._space = self._make()

    def score(self, code: Codes) -> Scored:
        """Energy, latency, status, excess, and why there are none of a failure."""
        failures = getattr(self._model, "failures", 0)
        costs = self._model.evaluate(self._space, code[None])
        failed = getattr(self._model, "failures", 0) > failures
        why = getattr(self._model, "last_failure", "") if failed else ""
        return (
            float(costs.energy_pj[0]),
            float(costs.latency_cycles[0]),
            int(costs.status[0]),
            int(costs.excess[0]),
            why,
        )


class Evaluators:
    """Workers of a pool (`orchestrator.pool.scheduler.Workers`) that are Ray actors.

    A mapping that was scored is not scored again, on whichever actor.

    Attributes:
        deaths: queries that were given out again because an evaluator died.
    """

    def __init__(
        self,
        make: Callable[[], tuple[Any, Any]],
        count: int,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        query_seconds: float | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Starts them; the first queries go to those that come first.

        Args:
            make: makes the cost model and its space, on the actor.
            count: how many there shall be.
            cpus: processors that each takes of Ray.
            gpus: GPUs likewise.
            query_seconds: the most that a query may take; an evaluator that takes longer is started
                anew, and the mapping counts as one that cannot run. None: no limit.
            memory: what is known of before; takes what is scored.

        Raises:
            ConfigError: fewer than one, or Ray has not what even one of them needs.
        """
        if count < 1:
            raise ConfigError(f"workers: expected at least 1, got {count}.")
        there: Mapping[str, float] = ray.cluster_resources()
        for name, needed in (("CPU", cpus), ("GPU", gpus)):
            if needed > there.get(name, 0.0):
                raise ConfigError(
                    f"workers: each needs {needed:g} {name}, and Ray has {there.get(name, 0.0):g}."
                )
        actor = ray.remote(_Evaluator)
        options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": -1}
        self._actors = [actor.options(**options).remote(make) for _ in range(count)]
        self._coming: dict[Any, int] = {}
        self._free: deque[int] = deque()
        # Of before the driver's end: for the first evaluators.
        self._waiting: deque[Query] = deque()
        self._out: dict[Any, tuple[int, Query, float]] = {}
        self._tries: dict[int, int] = {}
        self._known: dict[bytes, Scored] = {}
        self._memory = memory
        self._back: list[Outcome] = []
        self._query_seconds = query_seconds
        self._started = self._seen = time.monotonic()
        self.deaths = 0
        for index in range(count):
            self._come(index)

    @property
    def idle(self) -> int:
        """Evaluators without a query."""
        return len(self._free)

    @property
    def seconds(self) -> float:
        """From any origin."""
        return time.monotonic()

    def submit(self, query: Query) -> None:
        """Gives a query to an evaluator; one that was answered before is back at once."""
        known = self._known.get(query.code.tobytes())
        if known is None and self._memory is not None:
            known = self._memory.find(query.code)
        if known is not None:
            self._back.append(Outcome(query.ticket, *known))
            return
        if not self._free:
            self._waiting.append(query)
            return
        self._give(self._free.popleft(), query)

    def _give(self, index: int, query: Query) -> None:
        reference = self._actors[index].score.remote(query.code)
        self._out[reference] = (index, query, time.monotonic())

    def wait(self, until: float = math.inf) -> Sequence[Outcome]:
        """What is back, in the order in which it came; empty where an evaluator has come instead.

        Args:
            until: when there is no more waiting, by `seconds`; what is back by then is nothing.

        Raises:
            ConfigError: what the cost model refuses, such as a simulator that only fails.
            MapspaceError: no evaluator has come.
        """
        while True:
            if self._back:
                found, self._back = self._back, []
                return found
            left = until - self.seconds
            if left <= 0:
                return []
            ready, _ = ray.wait(
                [*self._out, *self._coming], num_returns=1, timeout=min(left, POLL_SECONDS)
            )
            self._too_long()
            come = [reference for reference in ready if reference in self._coming]
            for reference in come:
                self._arrive(reference)
            if come:
                return []
            for reference in ready:
                self._take(reference)
            if not self._free and not self._out and self._old(self._seen):
                raise MapspaceError(
                    f"No evaluator has come within {START_SECONDS:g} s: has Ray what they need?"
                )

    def gather(self) -> None:
        """Waits until all evaluators are there, or as long as is waited for the first.

        Raises:
            ConfigError: as `wait`.
            MapspaceError: as `wait`.
        """
        while self._coming and not (self._free and self._old(self._started)):
            self.wait()

    def forget(self) -> None:
        """Makes ready for another search: nothing is remembered, nothing is waited for.

        Evaluators that are at a query are started anew.
        """
        self._known.clear()
        self._tries.clear()
        self._waiting.clear()
        self._back.clear()
        out, self._out = self._out, {}
        busy = {index for index, _, _ in out.values()}
        for index, actor in enumerate(self._actors):
            if index in busy:
                ray.kill(actor, no_restart=False)
                self._come(index)
            else:
                # Before whatever it is asked next.
                actor.forget.remote()
        self._started = self._seen = time.monotonic()

    def _old(self, since: float) -> bool:
        return time.monotonic() - since > START_SECONDS

    def _arrive(self, reference: Any) -> None:
        index = self._coming.pop(reference)
        try:
            ray.get(reference)
        except ray.exceptions.ActorUnavailableError:
            self._come(index)  # it is being started anew
            return
        except ray.exceptions.RayActorError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, MapspaceError):
                raise cause from None
            raise MapspaceError(f"An evaluator cannot be made: {_line(error)}") from None
        self._next(index)

    def _come(self, index: int) -> None:
        """Expects an evaluator that is being started."""
        self._coming[self._actors[index].ready.remote()] = index

    def _come_again(self, index: int) -> None:
        """Expects one that was there until now: it has as long as at the beginning."""
        self._seen = time.monotonic()
        self._come(index)

    def _next(self, index: int) -> None:
        if self._waiting:
            self._give(index, self._waiting.popleft())
        else:
            self._free.append(index)

    def _take(self, reference: Any) -> None:
        if reference not in self._out:
            return
        index, query, _ = self._out.pop(reference)
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, MapspaceError | OSError):
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            counted = 0 if node_was_lost(error) else 1
            tries = self._tries[query.ticket] = self._tries.get(query.ticket, 0) + counted
            if tries <= DEATHS:
                # Ray starts it anew; whoever is free first takes the query.
                self.deaths += 1
                self._come_again(index)
                self.submit(query)
                return
            answer = _failure(f"its evaluator died {tries} times: {_line(error)}")
            self._come_again(index)
        else:
            self._next(index)
            if self._memory is not None:
                self._memory.keep(query.code, answer)
        self._known[query.code.tobytes()] = answer
        self._back.append(Outcome(query.ticket, *answer))

    def _too_long(self) -> None:
        """Starts those anew whose query takes too long."""
        if self._query_seconds is None:
            return
        now = time.monotonic()
        for reference, (index, query, since) in list(self._out.items()):
            if now - since <= self._query_seconds:
                continue
            del self._out[reference]
            ray.kill(self._actors[index], no_restart=False)
            answer = _failure(f"no answer within {self._query_seconds:g} s.")
            self._known[query.code.tobytes()] = answer
            self._back.append(Outcome(query.ticket, *answer))
            self._come_again(index)

    def close(self) -> None:
        """Ends the evaluators."""
        for actor in self._actors:
            ray.kill(actor)


def _failure(why: str) -> Scored:
    return (np.inf, np.inf, STATUS_OUTSIDE, 0, why)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
