"""Ray's logger to MLflow, for trials whose configuration is a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ray.air.integrations import mlflow

# Of a trial's configuration what comes from `MappingSearch`.
OF_A_MAPPING = ("code", "factors", "orders", "keeps", "record")


class MLflowLoggerCallback(mlflow.MLflowLoggerCallback):
    """Ray's `MLflowLoggerCallback`, with the same arguments, that logs a mapping as one parameter.

    Ray's own logs every part of a nested configuration as a parameter of its own, and with every
    result every number of it as a metric. Here a run has `mapping`, in a line, and `code`, beside
    what a `param_space` adds, and as metrics what trials report.
    """

    def log_trial_start(self, trial: Any) -> None:
        """See Ray's."""
        with _shortened(trial):
            super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """See Ray's."""
        told = {name: value for name, value in result.items() if name != "config"}
        super().log_trial_result(iteration, trial, told)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """See Ray's."""
        with _shortened(trial):
            super().log_trial_end(trial, failed)


@contextmanager
def _shortened(trial: Any) -> Iterator[None]:
    config = trial.config
    trial.config = shortened(config)
    try:
        yield
    finally:
        trial.config = config


def shortened(config: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's configuration with its mapping in a line: `DRAM M8 K2 | L2 M4, spatial N16 | ...`.

    Loops are outermost first, with their bounds; of tilings it is the factors of each dimension.
    """
    own = {name: value for name, value in config.items() if name not in OF_A_MAPPING}
    if "orders" in config:
        own["mapping"] = " | ".join(map(_level, config["record"]["mapping"]))
    elif "factors" in config:
        own["mapping"] = " | ".join(
            f"{name} {'x'.join(map(str, factors))}" for name, factors in config["factors"].items()
        )
    return {**own, "code": config["code"]} if "code" in config else own


def _level(level: Mapping[str, Any]) -> str:
    loops = [level["level"], *(f"{name}{bound}" for name, bound, *_ in level["temporal"])]
    wide = "".join(f" {name}{bound}" for name, bound, *_ in level["spatial"])
    return " ".join(loops) + (f", spatial{wide}" if wide else "")
