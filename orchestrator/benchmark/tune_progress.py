"""Lines about a running benchmark, printed by Tune's callbacks in the driver."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune import Callback, Stopper

from orchestrator.benchmark.curve_sums import HOPELESS
from orchestrator.benchmark.live_curves import LiveBenchmark
from orchestrator.runs.ray_runtime import node_was_lost

BLOCK_LINE_SECONDS, BLOCK_TELL_SECONDS = 5.0, 1.0
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


class LostNodes(Callback):
    """Does not count a failure of a trial whose node was lost: it is no fault of the trial's."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Lets the trial fail once more."""
        # The errors of the trial one after another; in Tune's storage they come to be later.
        file = trial.error_file
        last = Path(file).read_text(errors="replace").rpartition("Failure # ")[2] if file else ""
        if node_was_lost(last):
            trial.max_failures += 1


class FinishedTrials(Callback):
    """Throws away what Tune keeps of a finished trial and nobody reads: 30 KiB of each.

    These are means of the last numbers that it told, and its state as JSON, once more whole.
    """

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Keeps why it ended; after the callbacks that read what it told."""
        kept = trial.run_metadata
        kept.metric_n_steps.clear()
        kept.metric_analysis.clear()
        kept.last_result.pop("logs", None)
        trial.get_json_state = _no_state


def _no_state() -> tuple[str, str]:
    """Of a trial and of what it told: empty."""
    return "{}", "{}"


class StopAtLimit(Stopper):
    """Ends all trials when a limit of the benchmark is reached."""

    def __init__(self, live: LiveBenchmark) -> None:
        self.live = live

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No result ends its trial."""
        return False

    def stop_all(self) -> bool:
        """Whether a limit is reached."""
        return self.live.reached()


class TrialProgress(Callback):
    """Prints a line per finished trial: how many of how many, which, its best, time so far."""

    def __init__(self, total: int, shown: Callable[[float], str], live: LiveBenchmark) -> None:
        self.total = total
        self.shown = shown
        self.live = live
        self.started = 0.0
        self.done = 0

    def setup(self, *args: Any, **info: Any) -> None:
        """Notes when this driver started."""
        self.started = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Counts and prints."""
        if HOPELESS in trial.last_result:
            self.live.end_task(trial.trial_id, trial.config["task"], None)
        if trial.last_result.get("share") != 1:
            return  # a limit has ended it, or it failed
        self.live.end_task(trial.trial_id, trial.config["task"], trial.last_result)
        self.done += 1
        task, loss = trial.config["task"], trial.last_result["best_loss"]
        best = f"best {self.shown(loss)}" if math.isfinite(loss) else "found nothing"
        print(
            f"  [{self.done:{len(str(self.total))}}/{self.total}] {task['workload']}: "
            f"{task['searcher']} {best} ({time.monotonic() - self.started:.0f} s)",
            file=sys.stderr,
            flush=True,
        )

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tells that it is under way."""
        self.live.begin_task(trial.trial_id, trial.config["task"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Tells how far it is."""
        self.live.reach(trial.trial_id, result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tells that it is lost."""
        self.live.end_task(trial.trial_id, trial.config["task"], None)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tells that its worker has died, and that another one goes on."""
        self.live.end_task(trial.trial_id, trial.config["task"], None)


class BlockProgress(Callback):
    """Prints now and then how many mappings have been evaluated in blocks."""

    def __init__(self, searches: int, tell: Callable[[], None]) -> None:
        """Prepares.

        Args:
            searches: how many there are.
            tell: called now and then, and tells which of them are finished.
        """
        self.searches = searches
        self.tell = tell
        self.told = 0.0
        self.started = 0.0
        self.printed = 0.0
        self.blocks = 0
        self.mappings = 0

    def setup(self, *args: Any, **info: Any) -> None:
        """Notes when this driver started."""
        self.started = self.printed = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Counts, and prints if the last line is old."""
        if "mappings" not in trial.last_result:
            return  # a limit has ended it
        self.blocks += 1
        self.mappings += trial.last_result["mappings"]
        now = time.monotonic()
        if now - self.told >= BLOCK_TELL_SECONDS:
            self.told = now
            self.tell()
        if now - self.printed >= BLOCK_LINE_SECONDS:
            self.printed = now
            print(
                f"  {self.mappings:,} mappings of {self.searches} searches in {self.blocks:,} "
                f"blocks ({now - self.started:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
