"""Lines about a running benchmark, printed by Tune's callbacks in the driver."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from ray.tune import Callback

BLOCK_LINE_SECONDS = 5.0
LOOK_SECONDS = 0.5


class Looking(Callback):
    """Looks after something else, such as proofs, while Tune runs."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self.looked = time.monotonic()

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Looks if the last time is some while ago."""
        now = time.monotonic()
        if now - self.looked >= LOOK_SECONDS:
            self.looked = now
            self.look()


class TrialProgress(Callback):
    """Prints a line per finished trial: how many of how many, which, its best, time so far."""

    def __init__(self, total: int, shown: Callable[[float], str]) -> None:
        self.total = total
        self.shown = shown
        self.started = 0.0

    def setup(self, *args: Any, **info: Any) -> None:
        """Notes when this driver started."""
        self.started = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Counts and prints."""
        # The trial itself is marked as terminated only after this call.
        done = 1 + sum(other.status == "TERMINATED" for other in trials if other is not trial)
        task, loss = trial.config["task"], trial.last_result["best_loss"]
        best = f"best {self.shown(loss)}" if math.isfinite(loss) else "found nothing"
        print(
            f"  [{done:{len(str(self.total))}}/{self.total}] {task['workload']}: "
            f"{task['searcher']} {best} ({time.monotonic() - self.started:.0f} s)",
            file=sys.stderr,
            flush=True,
        )


class BlockProgress(Callback):
    """Prints now and then how many mappings have been evaluated in blocks."""

    def __init__(self, searches: int) -> None:
        self.searches = searches
        self.started = 0.0
        self.printed = 0.0
        self.blocks = 0
        self.mappings = 0

    def setup(self, *args: Any, **info: Any) -> None:
        """Notes when this driver started."""
        self.started = self.printed = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Counts, and prints if the last line is old."""
        self.blocks += 1
        self.mappings += trial.last_result["mappings"]
        now = time.monotonic()
        if now - self.printed >= BLOCK_LINE_SECONDS:
            self.printed = now
            print(
                f"  {self.mappings:,} mappings of {self.searches} searches in {self.blocks:,} "
                f"blocks ({now - self.started:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
