"""The peer of our tuners on matrix products: TVM's own MetaSchedule.

It searches a larger space than ours (its sketches choose the loop order and more), so what is
compared is the time of the product after as many trials or seconds, never tilings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal

from costmodel.tiling.measurement import Settings
from costmodel.tiling.measurement_runner import ONE_THREAD, free_core, tvm_version, without_torch
from mapspace.errors import ConfigError, MapspaceError

CostModelKind = Literal["xgb", "random"]


@dataclass(frozen=True)
class Trial:
    """One measured candidate.

    Attributes:
        trial: from 1.
        seconds: since tuning began, its own measurement included.
        latency: least time of its repeats in seconds, inf if it failed.
        best: least latency so far.
        explanation: one line where it failed.
    """

    trial: int
    seconds: float
    latency: float
    best: float
    explanation: str


@dataclass(frozen=True)
class Tuning:
    """What to tune.

    Attributes:
        size: M, K and N.
        trials: candidates to measure.
        seed: of the search.
        per_round: candidates between two updates of the predictor.
        predictor: what MetaSchedule calls its cost model: `xgb` (boosted trees) or `random`.
        settings: how to measure, as for our tilings, but nothing ends a run that takes too long.

    Raises:
        ConfigError: a number out of range, or a predictor that is unknown or not installed.
    """

    size: tuple[int, int, int]
    trials: int
    seed: int
    per_round: int
    predictor: CostModelKind
    settings: Settings

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("seed", 0), ("per_round", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if min(self.size) < 1:
            raise ConfigError(f"M, K and N must be at least 1, got {self.size}.")
        if self.predictor not in ("xgb", "random"):
            raise ConfigError(f"Unknown predictor {self.predictor!r}; known: xgb, random.")
        if self.predictor == "xgb" and find_spec("xgboost") is None:
            raise ConfigError("The predictor xgb needs xgboost, which is not installed.")


def default_predictor() -> CostModelKind:
    """`xgb` where xgboost is installed, else `random`."""
    return "random" if find_spec("xgboost") is None else "xgb"


def tune(
    size: tuple[int, int, int],
    *,
    trials: int,
    seed: int,
    per_round: int = 64,
    predictor: CostModelKind | None = None,
    settings: Settings | None = None,
) -> Iterator[Trial]:
    """Tunes a product with evolutionary search in a process of its own, pinned to one core.

    Args:
        size: M, K and N.
        trials: candidates to measure.
        seed: of the search; times still differ from run to run.
        per_round: candidates between two updates of the predictor.
        predictor: None: `default_predictor()`.
        settings: how to measure.

    Yields:
        Trials as they are measured; fewer than asked if the search has nothing new to offer.

    Raises:
        ConfigError: TVM or xgboost is not installed, or an argument is out of range.
        MapspaceError: MetaSchedule failed.
    """
    tvm_version()
    tuning = Tuning(
        size, trials, seed, per_round, predictor or default_predictor(), settings or Settings()
    )
    command = [sys.executable, "-m", "orchestrator.benchmark.metaschedule"]
    with free_core() as core:
        process = subprocess.Popen(
            [*command, json.dumps(asdict(tuning) | {"core": core})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                fields = json.loads(line)
                if "error" in fields:
                    raise MapspaceError(f"MetaSchedule failed: {fields['error']}")
                yield Trial(**fields)
            if process.wait() != 0:
                raise MapspaceError(f"MetaSchedule's process ended with {process.returncode}.")
        finally:
            process.kill()
            process.communicate()


def _main() -> None:
    # What TVM prints must not reach the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(fields: dict[str, Any]) -> None:
        print(json.dumps(fields), file=answers, flush=True)

    try:
        with without_torch():
            from orchestrator.benchmark import metaschedule_process
        metaschedule_process.search(json.loads(sys.argv[1]), report)
    except Exception as error:
        report({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    _main()
