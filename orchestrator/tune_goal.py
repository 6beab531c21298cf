"""What a search in somebody's Tuner is to make small or large, and who says so.

Ray hands metric and mode of a `TuneConfig` to a search algorithm only where there is a
`param_space`, which a search of mappings does not need.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

from ray import tune
from ray.tune.result import AUTO_RESULT_KEYS, DEBUG_METRICS

from costmodel.costs import OBJECTIVES
from mapspace.errors import ConfigError

Mode = Literal["min", "max"]

# What is a loss by its name: whoever wants the most of it has mistaken the mode.
LOSSES = {"loss", "energy_pj", "latency_cycles", "cycles", *OBJECTIVES}
# What Ray adds to every result, beside a trial's own numbers.
OF_RAY = {*AUTO_RESULT_KEYS, *DEBUG_METRICS, "done", "should_checkpoint", "experiment_tag"}


def told_to_tune() -> tuple[str | None, str | None]:
    """Metric and mode of the `TuneConfig` whose Tuner is asking, from Tune's own call."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is tune.run.__code__:
            return frame.f_locals.get("metric"), frame.f_locals.get("mode")
        frame = frame.f_back
    return None, None


class Goal:
    """A metric and a mode, as far as they are known.

    Attributes:
        metric: what trials report; None until it is said, or seen.
        mode: None: `min`.
    """

    def __init__(self, metric: str | None, mode: str | None) -> None:
        """Takes what the search was made with.

        Raises:
            ConfigError: the most of a loss is wanted.
        """
        self.metric = metric
        self.mode = mode
        self._seen = False
        self._check()

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return self.mode == "max"

    def agree(self, metric: str | None, mode: str | None) -> None:
        """Takes what a `TuneConfig` says.

        Raises:
            ConfigError: it says something else, or the most of a loss is wanted.
        """
        for what, mine, its in (("metric", self.metric, metric), ("mode", self.mode, mode)):
            if mine is not None and its is not None and mine != its:
                raise ConfigError(
                    f"{what}: MappingSearch has {mine}, TuneConfig has {its}; expected one alone, "
                    "or both alike."
                )
        self.metric, self.mode = self.metric or metric, self.mode or mode
        self._check()

    def value(self, result: Mapping[str, Any]) -> Any:
        """The metric of a trial's last result; None where it reported nothing.

        Raises:
            ConfigError: trials report others.
        """
        own = [
            name
            for name, value in result.items()
            if name not in OF_RAY and not name.startswith("config/") and _is_number(value)
        ]
        if self.metric is None and own:
            if "loss" not in own and len(own) > 1:
                raise ConfigError(
                    f"metric: trials report {', '.join(own)}; expected one of them as "
                    "TuneConfig(metric=...)."
                )
            self.metric = "loss" if "loss" in own else own[0]
            self._check()
        if self.metric in result:
            self._seen = True
        elif own and not self._seen:
            raise ConfigError(f"metric: trials report {', '.join(own)}; got {self.metric!r}.")
        return result.get(self.metric or "")

    def _check(self) -> None:
        if self.rises and (self.metric or "").lower() in LOSSES:
            raise ConfigError(
                f"mode: expected min with {self.metric}, of which the least is best; got max."
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
