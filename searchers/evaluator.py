"""The evaluator: it scores mappings, owns the budget and the clock, and remembers the best.

Every method is counted here, by the same code, wherever it runs. An *iteration* is one cost query
of a searcher: a true one, or one of its surrogate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.arrays.scratch import most_children
from costmodel.arrays.tables import NestTables
from costmodel.costs import Objective
from costmodel.space import UNLIMITED, Codes, CostModel, Losses, Space
from mapspace.arguments import checked, explained
from mapspace.errors import ConfigError, ContractError, together
from searchers.compiled.cost_function import Walk, compiled_costs


@dataclass(frozen=True)
class TrialResult:
    """What a search found and what it spent.

    Attributes:
        best_code: `[D]` int32 the best mapping, None if none was feasible; of several with the
            same objective the one of least energy (of least energy: of least latency).
        best_loss: its objective, inf if none was feasible.
        iterations: surrogate queries plus counted true queries.
        true_queries: mappings that the cost model scored, counted or only recorded.
        surrogate_queries: surrogate queries of the searcher.
        seconds: search time, virtual query latency included.
        curve_iteration: `[E]` int64 iterations spent at each improvement, and at the end.
        curve_seconds: `[E]` float64 seconds of search at the same moments.
        curve_loss: `[E]` float64 best objective at the same moments.
        curve_counted: `[E]` int64 counted true queries at the same moments.
    """

    best_code: Codes | None
    best_loss: float
    iterations: int
    true_queries: int
    surrogate_queries: int
    seconds: float
    curve_iteration: npt.NDArray[np.int64]
    curve_seconds: npt.NDArray[np.float64]
    curve_loss: npt.NDArray[np.float64]
    curve_counted: npt.NDArray[np.int64]


def check_budget(iterations: int | None, seconds: float | None) -> None:
    """Refuses a budget that is not positive; None is unlimited.

    Raises:
        ConfigError: it says what a budget must be and what came.
    """

    def check_iterations() -> None:
        if iterations is not None and iterations < 1:
            raise ConfigError(f"A budget must be at least 1 iteration, got {iterations}.")

    def check_seconds() -> None:
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"A budget must be above 0 seconds, got {seconds}.")

    together(check_iterations, check_seconds)


LOOK_CHILDREN = 2**20
"""Children that are counted apart until the clock is looked at: a fraction of a second."""


def in_a_look(tables: NestTables) -> int:
    """Mappings that a walk may score until the clock is looked at.

    On a network of millions of children that costs energy each takes a second.
    """
    machine = tables.machine
    if not (tables.hop_energy.any() or machine.router.any() or machine.ingress.any()):
        return UNLIMITED
    return max(1, LOOK_CHILDREN // most_children(tables))


@explained
class Evaluator:
    """Scores mappings with a cost model under a budget of iterations, of seconds, or of both.

    The clock starts at the first look at `remaining` and counts the searcher's own computation,
    the cost queries and their virtual latency. It stands while something is only recorded and
    inside `paused()`; what prepares a searcher is counted inside `running()`. Nothing that ends
    after the last second is recorded, so a search by time never reports what it could not have
    had.

    Attributes:
        best_code: `[D]` the best mapping so far, None before the first feasible one.
        best_loss: its objective, inf before the first feasible one.
        best_tie: what decides between mappings of that objective (`costmodel.costs.TIE_BREAKERS`).
        true_queries: mappings scored so far within the budget.
        surrogate_queries: surrogate queries so far.
        iterations_used: surrogate queries plus counted true queries so far.
        virtual_seconds: virtual query latency so far.
    """

    @checked
    def __init__(
        self,
        model: CostModel,
        space: Space,
        *,
        objective: Objective = "edp",
        iterations: int | None = None,
        seconds: float | None = None,
        query_latency: float = 0.0,
        largest_batch: int = UNLIMITED,
        clock: Callable[[], float] = time.perf_counter,
        beside: Callable[[], float] | None = None,
        on_improvement: Callable[[Evaluator], None] | None = None,
    ) -> None:
        """Prepares a search.

        Args:
            model: the true cost model.
            space: where the mappings live.
            objective: what to minimise.
            iterations: budget of cost queries.
            seconds: budget of search time.
            query_latency: virtual seconds that every counted true query takes.
            largest_batch: what `remaining` says at most under a budget of time: where queries take
                real seconds, what is asked beyond the budget takes them in vain.
            clock: seconds from any origin.
            beside: another clock, which runs and stands with it and limits nothing.
            on_improvement: called with this object, off the clock, after a batch that improved.

        Raises:
            ConfigError: no budget, or one that is not positive, or a negative latency.
        """
        if iterations is None and seconds is None:
            raise ConfigError("A search needs a budget: iterations, seconds or both.")
        check_budget(iterations, seconds)
        if not query_latency >= 0:
            raise ConfigError(f"query_latency must be 0 or more seconds, got {query_latency}.")
        self.model = model
        self.space = space
        self.objective: Objective = objective
        self.iterations = iterations
        self.seconds = seconds
        self.query_latency = query_latency
        self.largest_batch = largest_batch
        self.on_improvement = on_improvement
        self._clock = clock
        self._beside = beside
        self._beside_at = self._beside_spent = self.virtual_seconds = 0.0
        self._compiled = compiled_costs(model, space, objective)
        self._resumed_at: float | None = None
        self._spent = 0.0
        self.best_code: Codes | None = None
        self.best_loss = float("inf")
        self.best_tie = float("inf")
        self.true_queries = 0
        self.surrogate_queries = 0
        self.iterations_used = 0
        self._curve: list[tuple[int, float, float, int]] = []

    @property
    def elapsed(self) -> float:
        """Seconds of search so far, virtual latency included."""
        running = 0.0 if self._resumed_at is None else self._clock() - self._resumed_at
        return self._spent + running

    @property
    def seconds_beside(self) -> float | None:
        """The same by the other clock, without virtual latency; None where there is none."""
        if self._beside is None:
            return None
        running = 0.0 if self._resumed_at is None else self._beside() - self._beside_at
        return self._beside_spent + running

    @property
    def remaining(self) -> int:
        """Iterations left, 0 when the budget is spent.

        Under a budget of time it is at most `largest_batch`, and without one of iterations stays
        large until the time is spent. The first look starts the clock.
        """
        if self._resumed_at is None:
            self._start()
        if self.seconds is not None and self.elapsed >= self.seconds:
            return 0
        left = UNLIMITED
        if self.iterations is not None:
            left = self.iterations - self.iterations_used
        return left if self.seconds is None else min(left, self.largest_batch)

    @property
    def seconds_left(self) -> float | None:
        """Seconds of search left, 0 or less when they are spent; None where time is no budget."""
        return None if self.seconds is None else self.seconds - self.elapsed

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lets the clock run, before the first look at `remaining`: for a searcher's preparation.

        It stands afterwards, until that look.
        """
        self._start()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the clock: for checkpoints, reports and all else that is not searching."""
        was_running = self._resumed_at is not None
        self._stop()
        try:
            yield
        finally:
            if was_running:
                self._start()

    def _start(self) -> None:
        self._resumed_at = self._clock()
        if self._beside is not None:
            self._beside_at = self._beside()

    def _stop(self) -> None:
        self._spent = self.elapsed
        self._beside_spent = self.seconds_beside or 0.0
        self._resumed_at = None

    def _wait(self, rows: int) -> None:
        """Lets so many counted queries take their virtual time."""
        self._spent += rows * self.query_latency
        self.virtual_seconds += rows * self.query_latency

    def __call__(self, codes: Codes, *, surrogate_queries: int = 0, counted: bool = True) -> Losses:
        """Scores mappings.

        Args:
            codes: `[m, D]` mappings; m may be 0 when only surrogate queries are to be counted.
            surrogate_queries: surrogate queries that were made to find them.
            counted: False if the losses are only recorded: their queries then cost neither
                iterations nor time.

        Returns:
            `[m]` float64 objective, inf where infeasible.

        Raises:
            ContractError: the call would exceed the budget of iterations.
        """
        rows = len(codes)
        iterations = surrogate_queries + (rows if counted else 0)
        left = self.remaining
        if self.iterations is not None and iterations > self.iterations - self.iterations_used:
            raise ContractError(
                f"{iterations} iterations were spent in one call, but {left} were left."
            )
        started = self.elapsed
        if counted:
            scores = self._score(codes)
            self._wait(rows)
        with self.paused():
            if counted:
                seconds = self._spread(started, rows)
                steps = self.iterations_used + surrogate_queries + np.arange(1, rows + 1)
            else:
                scores = self._score(codes)
                seconds = np.full(rows, started)
                # Recorded mappings were visited while the surrogate was queried: spread them over
                # it.
                done = -(-surrogate_queries * np.arange(1, rows + 1) // max(rows, 1))
                steps = self.iterations_used + done
            self._count(codes, scores, steps, seconds, surrogate_queries, counted)
        return scores[:, 0].copy()

    def walk(self, walk: Walk) -> bool:
        """Lets compiled code search by itself for a while, and counts all that it scored.

        What improves is scored once more by the model itself, off the clock.

        Args:
            walk: is given the model's compiled form and the iterations left; returns the codes
                `[m, D]` that it scored, in that order, and `[m, 2]` their losses and what decides
                between equal ones.

        Returns:
            False, with nothing done, where the model has no compiled form.

        Raises:
            ContractError: more was scored than was left, or a score is not the model's.
        """
        if self._compiled is None:
            return False
        left, started = self.remaining, self.elapsed
        if self.seconds is not None:
            left = min(left, in_a_look(self._compiled.tables))
        codes, scores = walk(self._compiled, left)
        rows = len(codes)
        if rows > left:
            raise ContractError(f"{rows} iterations were spent in one call, but {left} were left.")
        self._wait(rows)
        with self.paused():
            seconds = self._spread(started, rows)
            losses = scores[:, 0]
            better = losses < np.minimum.accumulate(np.append(self.best_loss, losses))[:-1]
            better[self._best_row(scores)] = True
            if not np.array_equal(self._score(codes[better]), scores[better]):
                raise ContractError("A compiled search reported a loss that is not the model's.")
            self._count(codes, scores, self.iterations_used + np.arange(1, rows + 1), seconds)
        return True

    def _spread(self, started: float, rows: int) -> npt.NDArray[np.float64]:
        """`[rows]` seconds of a batch's queries: evenly from its start until now."""
        return started + (self._spent - started) * np.arange(1, rows + 1) / max(rows, 1)

    def _score(self, codes: Codes) -> Losses:
        """`[m, 2]` objective of the codes `[m, D]`, and what decides between equal ones."""
        if len(codes) == 0:
            return np.empty((0, 2))
        costs = self.model.evaluate(self.space, codes)
        objective = self.objective
        return np.column_stack([costs.objective(objective), costs.tie_breaker(objective)])

    def _best_row(self, scores: Losses) -> npt.NDArray[np.int64]:
        """`[0 or 1]` the row of the scores `[m, 2]` that the best so far gives way to."""
        rows = np.flatnonzero(scores[:, 0] == scores[:, 0].min(initial=np.inf))
        best = rows[np.argmin(scores[rows, 1])][None] if rows.size else rows
        loss, tie = scores[best].T
        better = (loss < self.best_loss) | (loss == self.best_loss) & (tie < self.best_tie)
        row: npt.NDArray[np.int64] = best[better]
        return row

    def _count(
        self,
        codes: Codes,
        scores: Losses,
        steps: npt.NDArray[np.int64],
        seconds: npt.NDArray[np.float64],
        surrogate_queries: int = 0,
        counted: bool = True,
    ) -> None:
        """Takes a scored batch into the best, the curve and the counts."""
        scored_before = self.true_queries
        true_before = self.iterations_used - self.surrogate_queries
        if self.seconds is None and scores[:, 0].min(initial=np.inf) > self.best_loss:
            # Nearly all batches: to look for more would take a twentieth of an annealing's time.
            self.true_queries, improved = self.true_queries + len(codes), False
        else:
            queried = true_before + np.arange(1, len(codes) + 1) * counted
            improved = self._record(codes, scores, steps, seconds, queried)
        in_time = self.true_queries - scored_before
        self.surrogate_queries += surrogate_queries
        self.iterations_used += surrogate_queries + (in_time if counted else 0)
        if improved and self.on_improvement is not None:
            self.on_improvement(self)

    def _record(
        self,
        codes: Codes,
        scores: Losses,
        steps: npt.NDArray[np.int64],
        seconds: npt.NDArray[np.float64],
        queried: npt.NDArray[np.int64],
    ) -> bool:
        """Takes what came within the time into the best and the curve; True if the curve fell."""
        within, losses = len(scores), scores[:, 0]
        if self.seconds is not None:
            within = int(np.searchsorted(seconds, self.seconds, side="right"))
        self.true_queries += within
        best_before = np.minimum.accumulate(np.append(self.best_loss, losses[:within]))[:-1]
        improvements = np.flatnonzero(losses[:within] < best_before)
        for row in improvements:
            self._curve.append(
                (int(steps[row]), float(seconds[row]), float(losses[row]), int(queried[row]))
            )
        for row in self._best_row(scores[:within]):
            self.best_code = codes[row].copy()
            self.best_loss, self.best_tie = (float(number) for number in scores[row])
        return bool(improvements.size)

    def result(self) -> TrialResult:
        """What was found and spent so far; the curve ends with a point at this moment."""
        seconds = self.elapsed if self.seconds is None else min(self.elapsed, self.seconds)
        queried = self.iterations_used - self.surrogate_queries
        curve = [*self._curve, (self.iterations_used, seconds, self.best_loss, queried)]
        iteration, second, loss, counted = zip(*curve, strict=True)
        return TrialResult(
            best_code=None if self.best_code is None else self.best_code.copy(),
            best_loss=self.best_loss,
            iterations=self.iterations_used,
            true_queries=self.true_queries,
            surrogate_queries=self.surrogate_queries,
            seconds=seconds,
            curve_iteration=np.array(iteration, dtype=np.int64),
            curve_seconds=np.array(second),
            curve_loss=np.array(loss),
            curve_counted=np.array(counted, dtype=np.int64),
        )

    def state_dict(self) -> dict[str, Any]:
        """What was found and spent, as copies: arrays, numbers and None."""
        curve = zip(*self._curve, strict=True) if self._curve else ((), (), (), ())
        iteration, second, loss, counted = curve
        return {
            "best_code": None if self.best_code is None else self.best_code.copy(),
            "best_loss": self.best_loss,
            "best_tie": self.best_tie,
            "true_queries": self.true_queries,
            "surrogate_queries": self.surrogate_queries,
            "iterations_used": self.iterations_used,
            "seconds": self.elapsed,
            "seconds_beside": self.seconds_beside,
            "virtual_seconds": self.virtual_seconds,
            "curve_iteration": np.array(iteration, dtype=np.int64),
            "curve_seconds": np.array(second, dtype=np.float64),
            "curve_loss": np.array(loss, dtype=np.float64),
            "curve_counted": np.array(counted, dtype=np.int64),
        }

    def add(self, state: Mapping[str, Any], began: float) -> None:
        """Counts what another evaluator of this problem scored as if it were scored here next.

        Args:
            state: its `state_dict()`.
            began: seconds of this search at which its clock started.

        Raises:
            ContractError: it is none, or it spent more iterations than are left here.
        """
        _check_state(state)
        if self.iterations is not None:
            left = self.iterations - self.iterations_used
            if state["iterations_used"] > left:
                raise ContractError(
                    f"{state['iterations_used']} iterations were spent elsewhere, {left} were left."
                )
        queried = self.iterations_used - self.surrogate_queries
        columns = ("curve_iteration", "curve_seconds", "curve_loss", "curve_counted")
        loss = self.best_loss
        for iteration, second, its, counted in zip(*(state[name] for name in columns), strict=True):
            if its < loss:
                loss = float(its)
                # Others may have run at the same time; a curve does not go back in time.
                since = self._curve[-1][1] if self._curve else 0.0
                seconds = max(since, began + float(second))
                if self.seconds is not None:
                    seconds = min(seconds, self.seconds)
                steps = self.iterations_used + int(iteration)
                self._curve.append((steps, seconds, loss, queried + int(counted)))
        improved = loss < self.best_loss
        best = float(state["best_loss"]), float(state["best_tie"])
        if state["best_code"] is not None and best < (self.best_loss, self.best_tie):
            self.best_code = np.array(state["best_code"], dtype=np.int32)
            self.best_loss, self.best_tie = best
        self.true_queries += int(state["true_queries"])
        self.surrogate_queries += int(state["surrogate_queries"])
        self.iterations_used += int(state["iterations_used"])
        if improved and self.on_improvement is not None:
            with self.paused():
                self.on_improvement(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`; the clock starts again at the next look at `remaining`.

        Raises:
            ContractError: it is none.
        """
        _check_state(state)
        code = state["best_code"]
        self.best_code = None if code is None else np.array(code, dtype=np.int32)
        self.best_loss = float(state["best_loss"])
        # States of before ties counted hold none: what was found first then stays.
        self.best_tie = float(state.get("best_tie", -np.inf))
        self.true_queries = int(state["true_queries"])
        self.surrogate_queries = int(state["surrogate_queries"])
        self.iterations_used = int(state["iterations_used"])
        self._spent = float(state["seconds"])
        # States of before there was another clock hold neither.
        self._beside_spent = float(state.get("seconds_beside") or 0.0)
        self.virtual_seconds = float(state.get("virtual_seconds", 0.0))
        self._resumed_at = None
        self._curve = [
            (int(i), float(s), float(loss), int(counted))
            for i, s, loss, counted in zip(
                state["curve_iteration"],
                state["curve_seconds"],
                state["curve_loss"],
                state["curve_counted"],
                strict=True,
            )
        ]


def _check_state(state: Mapping[str, Any]) -> None:
    """Refuses what `state_dict` has not returned, if earlier."""
    needed = (
        "best_code", "best_loss", "true_queries", "surrogate_queries", "iterations_used", "seconds",
        "curve_iteration", "curve_seconds", "curve_loss", "curve_counted",
    )  # fmt: skip
    missing = [name for name in needed if name not in state]
    if missing:
        raise ContractError(f"state: expected what state_dict() returns, got no {missing[0]}.")
