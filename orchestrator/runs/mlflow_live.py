"""How a run stands, in MLflow while it runs: numbers of its run there, from its progress file.

A thread of the driver's reads what `mapspace watch` reads. What is told are metrics whose names
begin with `live/`; all else is logged when the run is finished. A server that is away, or a full
disk, holds up nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mapspace.errors import MapspaceError
from mapspace.forks import RestingThread
from orchestrator.runs.mlflow_client import connected, experiment_id, metric_name, remembered_run
from orchestrator.runs.mlflow_record import log_numbers
from orchestrator.runs.progress_file import Progress, read_progress

# Of a run: before the first numbers, so that a short one does nothing of this, and between two.
FIRST_SECONDS, EVERY_SECONDS = 20.0, 15.0
# For what is under way when the run ends; a server that is away is waited for in vain for minutes.
END_SECONDS = 10.0


@contextmanager
def told_to_mlflow(
    folder: Path,
    tracking_uri: str,
    name: str,
    tags: Mapping[str, str],
    say: Callable[[str], None],
) -> Iterator[None]:
    """Tells MLflow how a run stands during a block, and where an error ends it, that it ended.

    Args:
        folder: the run folder, which remembers the run there and holds the progress.
        tracking_uri: any store that MLflow knows.
        name: of the experiment.
        tags: what a new run gets.
        say: takes a line where it cannot be told.
    """
    over, failed = threading.Event(), threading.Event()

    def keep_telling(at_work: threading.Lock) -> None:
        if over.wait(FIRST_SECONDS):
            return
        try:
            with ExitStack() as stack:
                with at_work:
                    client = stack.enter_context(connected(tracking_uri))
                    experiment = experiment_id(client, name, folder, tracking_uri)
                    run = remembered_run(client, experiment, folder, tracking_uri, tags=dict(tags))
                    if not over.is_set():  # what has ended is not running again
                        client.update_run(run, status="RUNNING")
                told, ended = set[str](), over.is_set()
                while True:
                    with at_work:
                        told |= _tell(client, run, read_progress(folder), told)
                    if ended:
                        break
                    # Once more after the end: what stays are the figures of the end.
                    ended = over.wait(EVERY_SECONDS)
                if failed.is_set():
                    client.set_terminated(run, "KILLED")
        except MapspaceError as error:
            say(f"{name}: not told to MLflow while it runs: {error}")

    teller = RestingThread(keep_telling, "mlflow")
    teller.start()
    try:
        yield
    except BaseException:
        failed.set()
        raise
    finally:
        over.set()
        teller.join(END_SECONDS)


def _tell(client: Any, run: str, progress: Progress | None, before: set[str]) -> set[str]:
    """Tells how a run stands; the names that were told. What is not known any more is nan."""
    if progress is None:
        return set()
    now, numbers = round(1000 * time.time()), dict(live_numbers(progress))
    over = dict.fromkeys(sorted(before - numbers.keys()), math.nan)
    rows = [(name, value, progress.done, now) for name, value in {**numbers, **over}.items()]
    log_numbers(client, run, {}, rows)
    return set(numbers)


def live_numbers(progress: Progress) -> Iterator[tuple[str, float]]:
    """(name, value) of how a run stands: what is done, and where each curve of a chart is."""
    yield "live/done", progress.done
    yield "live/failures", progress.failures
    if progress.busy is not None:
        yield "live/busy processors", progress.busy
    for chart in progress.charts:
        title = chart.title.partition(",")[0].replace("%", "percent")
        for curve in chart.curves:
            if curve.points:
                yield metric_name(f"live/{title}/{curve.name}"), curve.points[-1][1]
