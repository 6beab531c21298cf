"""Our searchers as a search algorithm in anybody's `ray.tune.Tuner`: `ms.tune.MappingSearch`.

Each trial gets one decoded mapping and reports any metric. Tune owns what runs, where and how
often, its loggers and its restore; the state of the search lies beside Tune's own, without pickle.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.search import Searcher as RaySearcher

import searchers
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses, Space
from costmodel.tiling.space import TilingSpace
from mapspace.arguments import checked
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.runs.checkpoints import load_state, save_state
from orchestrator.runs.search_context import context_for
from orchestrator.tune_goal import Goal, Mode, told_to_tune
from searchers.queries import Queries

# Mappings asked at once of a searcher that works in batches, where nobody limits the trials.
BATCH = 8


class MappingSearch(RaySearcher):
    """Proposes mappings to Tune, one per trial, by any searcher of the registry.

    ```
    tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            metric="edp", mode="min", search_alg=MappingSearch(space, "annealing"), num_samples=100
        ),
    ).fit()
    ```

    A searcher that works asynchronously learns from every trial when it ends; the others wait for a
    batch of as many as run at a time (`max_concurrent_trials`), or `at_once`. A trial that fails
    or reports no number counts as a mapping that cannot run: it is learnt from, and the search goes
    on. One that a scheduler stops early counts with the last that it reported.

    Attributes:
        failed: trials without a finite metric.
    """

    @checked
    def __init__(
        self,
        space: Space,
        searcher: str = "structured",
        *,
        metric: str | None = None,
        mode: Mode | None = None,
        seed: int = 0,
        signed: bool = False,
        at_once: int | None = None,
        **parameters: Any,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search: a `MapSpace`, a `TilingSpace`, or any space with codes.
            searcher: a key of `SEARCHERS`.
            metric: what trials report; None: that of the `TuneConfig`, without one `loss` or the
                only number that they report.
            mode: whether it shall be small (`min`) or large (`max`); None: that of the
                `TuneConfig`, without one `min`.
            seed: decides what is proposed, for equal answers in an equal order.
            signed: the metric may be 0 or less; without it every value must be above 0 (`min`: or
                0), and the searchers follow its logarithm.
            at_once: mappings asked at once of searchers that work in batches; None: as many as Tune
                runs at a time, or 8.
            parameters: hyperparameters of the searcher, and `preset`.

        Raises:
            ConfigError: an unknown searcher or hyperparameter, a mode that is none, or a searcher
                for another space.
        """
        if at_once is not None and at_once < 1:
            raise ArgumentError("at_once", f": expected at least 1, got {at_once}.")
        super().__init__(metric=metric, mode=mode)
        self._goal = Goal(metric, mode)
        self._asked_tune = False
        self._made: dict[str, Any] = {"name": searcher, "seed": seed, "parameters": parameters}
        self.space = space
        self.failed = 0
        self._signed = signed
        self._at_once = at_once
        self._limit: int | None = None
        self._refused: ConfigError | None = None
        context = context_for(searcher, space, searchers.Context(), None)
        made = searchers.make(searcher, space, seed=seed, context=context, **parameters)
        self._queries = Queries(made, _losses)
        self._out: dict[str, int] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Takes metric and mode of a `TuneConfig`; Ray calls this where there is a `param_space`.

        Raises:
            ConfigError: a `param_space` has what trials get from here, or they are others than this
                was made with.
        """
        taken = {"code", "record", "factors", "orders", "keeps"} & set(config)
        if taken:
            raise ConfigError(f"param_space: {min(taken)}: the mapping comes from MappingSearch.")
        self._agree(metric, mode)
        return True

    def _agree(self, metric: str | None, mode: str | None) -> None:
        self._asked_tune = True
        self._goal.agree(metric, mode)
        self._metric, self._mode = self._goal.metric, self._goal.mode

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Hears how many trials run at a time, which `ConcurrencyLimiter` sees to."""
        self._limit = max_concurrent
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of a trial: None while a batch is awaited, or `FINISHED`.

        Raises:
            ConfigError: metric and mode are others than the `TuneConfig`'s, or not what trials
                report.
        """
        if not self._asked_tune:
            self._agree(*told_to_tune())
        if self._refused is not None:
            raise self._refused
        found = self._queries.more(1, self._at_once or self._limit or BATCH)
        if not found:
            return str(RaySearcher.FINISHED) if self._queries.done else None
        self._out[trial_id] = found[0].ticket
        return configuration(self.space, found[0].code)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes a trial's metric; without one the mapping counts as one that cannot run.

        Raises:
            ConfigError: trials report no such metric, or one of a sign that the search was not told
                of; the next `suggest` raises it, too, as Tune goes on after this.
        """
        ticket = self._out.pop(trial_id, None)
        if ticket is None:
            return
        try:
            value = None if error or result is None else self._goal.value(result)
            loss = math.inf if value is None else self._loss(value)
        except ConfigError as wrong:
            self._refused = wrong
            raise
        self.failed += not math.isfinite(loss)
        self._queries.answer(ticket, loss)

    def _loss(self, value: Any) -> float:
        """A loss of at least 0 that is smaller for what is better; inf for what is no number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            return math.inf
        if not math.isfinite(number):
            return math.inf
        if self._signed:
            # exp(asinh x) rises with x, is above 0, and of large numbers nearly 2 x.
            return float(np.exp(np.arcsinh(-number if self._goal.rises else number)))
        if number < 0 or (number == 0 and self._goal.rises):
            raise ConfigError(
                f"{self._goal.metric}: expected a number above 0, got {number:g}; "
                "MappingSearch(..., signed=True) takes any."
            )
        return 1.0 / number if self._goal.rises else number

    def save(self, checkpoint_path: str) -> None:
        """Writes the state; Tune calls it."""
        state = {
            "made_of": {"name": self._made["name"], "seed": self._made["seed"]},
            "queries": self._queries.state_dict(),
            "out": dict(self._out),
            "failed": self.failed,
            "goal": [self._goal.metric, self._goal.mode],
        }
        save_state(Path(checkpoint_path), state)

    def restore(self, checkpoint_path: str) -> None:
        """Continues exactly from what `save` wrote; Tune calls it.

        Raises:
            ConfigError: it is the state of another search.
            DataError: the file is damaged.
        """
        state = load_state(Path(checkpoint_path))
        found = state.get("made_of")
        if found != {"name": self._made["name"], "seed": self._made["seed"]}:
            raise ConfigError(f"{checkpoint_path}: the state of another search, {found}.")
        self._queries.load_state_dict(state["queries"])
        self._out = {trial: int(ticket) for trial, ticket in state["out"].items()}
        self.failed = int(state["failed"])
        self._goal.agree(*state.get("goal", (None, None)))


def _losses(codes: Codes, answers: list[Any], surrogate_queries: int) -> Losses:
    return np.array(answers, np.float64)


def configuration(space: Any, code: Codes) -> dict[str, Any]:
    """What a trial is told of a mapping.

    Args:
        space: its space.
        code: `[D]`.

    Returns:
        `code`, and of a map space `factors` (by level, `temporal` or `spatial`, and dimension),
        `orders` (loops of each level, outermost first), `keeps` (tensors of each level) and
        `record`, which `mapspace evaluate` reads; of tilings `factors` and `record`.
    """
    told: dict[str, Any] = {"code": [int(part) for part in code]}
    if isinstance(space, TilingSpace):
        from costmodel.tiling.records import tiling_record

        record = tiling_record(space, code)
        return {**told, "factors": record["tiling"], "record": record}
    if not isinstance(space, MapSpace):
        return told
    from costmodel.command.own_model import record_of

    ordered, inside = space.in_order(code)
    mapping = ordered.describe(inside)
    return {
        **told,
        "factors": {
            level.name: {
                "temporal": dict(level.temporal),
                "spatial": {name: level.spatial.get(name, 1) for name in level.temporal},
            }
            for level in mapping.levels
        },
        "orders": {level.name: list(level.order) for level in mapping.levels},
        "keeps": {level.name: list(level.keep) for level in mapping.levels},
        "record": record_of(space, code),
    }
