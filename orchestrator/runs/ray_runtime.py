"""Ray for as long as a command needs it, and tasks that are fanned out over it."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from mapspace.errors import MapspaceError
from mapspace.ray_start import start_ray, stop_ray

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Watch = Callable[[float, int], None]

POLL_SECONDS = 0.1
# An autoscaled cluster grows while tasks wait for it.
RECOUNT_SECONDS = 1.0


@contextmanager
def ray_runtime(
    address: str | None = None, *, cpus: int | None = None, needed: int = 1
) -> Iterator[None]:
    """Ray for the length of a block; one that is running already is used and left running.

    Args:
        address: See `start_ray`, as the others.
        cpus: Tasks that an embedded Ray runs at once; None: one per core.
        needed: Processors that must be free together.

    Raises:
        ConfigError: As `start_ray` says.
    """
    started = start_ray(address, cpus=cpus, needed=needed)
    try:
        yield
    finally:
        if started:
            stop_ray()


def fan_out(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    retries: int = 3,
    what: str = "task",
    watch: Watch | None = None,
    cores: int | None = None,
) -> Iterator[Answer]:
    """Applies a function to every item on Ray tasks of one core; answers come as they are ready.

    Ray is started for it where none is running. A task whose worker dies is tried again on another
    one; the others do not notice. That a node is lost is no fault of its tasks, however often.

    Args:
        function: What to run; importable on the workers. It answers with something, never None.
        items: Its arguments.
        retries: How often one item's worker may die; a node that dies with it does not count.
        what: What an item is, for the error.
        watch: See `completed`.
        cores: See `completed`.

    Raises:
        MapspaceError: As the function raised it, or if workers keep dying.
        OSError: As the function raised it.
    """
    with ray_runtime(cpus=cores):
        for _, answer in completed(function, items, retries=retries, watch=watch, cores=cores):
            if answer is None:
                raise MapspaceError(
                    f"A worker process died {retries + 1} times on the same {what} (out of "
                    "memory?). The same command tries again."
                )
            yield answer


def completed(
    function: Callable[[Item], Answer],
    items: Iterable[Item],
    *,
    retries: int = 3,
    stop: Callable[[], bool] | None = None,
    watch: Watch | None = None,
    cores: int | None = None,
) -> Iterator[tuple[Item, Answer | None]]:
    """Applies a function to every item on Ray tasks of one core; answers come as they are ready.

    Args:
        function: What to run; importable on the workers.
        items: Its arguments.
        retries: How often one item's worker may die; a node that dies with it does not count.
        stop: Looked at a few times a second; when it is true no more answers are waited for.
        watch: Takes how many processors have a task, and how many may be used.
        cores: So many tasks at once at most; None: as many as there are processors.

    Yields:
        Items with their answers; None where workers kept dying on an item.

    Raises:
        MapspaceError: As the function raised it.
        OSError: As the function raised it.
    """
    tasks = Tasks(function, items, retries=retries, cores=cores)
    while not tasks.done and not (stop is not None and stop()):
        if watch is not None:
            watch(*tasks.busy)
        yield from tasks.ready(None if stop is None else POLL_SECONDS)


class Tasks(Generic[Item, Answer]):
    """Items that Ray tasks of one core work on, a few more at a time than there are cores.

    Nothing is cancelled when the caller stops: where a task ends in the moment of its cancellation
    Ray 2.60 aborts the driver ("Tried to complete task that was not pending"). Few tasks are under
    way instead, and they end with the driver.
    """

    def __init__(
        self,
        function: Callable[[Item], Answer],
        items: Iterable[Item],
        *,
        retries: int = 3,
        cores: int | None = None,
    ) -> None:
        """Takes the arguments of `completed`; Ray runs, and `ready` gives items out."""
        import ray

        def task(item: Item) -> Answer:
            return function(item)

        # Ray would count a lost node as the task's fault.
        self._task = ray.remote(num_cpus=1, max_retries=0)(task)
        self._retries = retries
        self._most = cores
        self._deaths: dict[int, int] = {}
        self._waiting = iter(items)
        self._added: deque[Item] = deque()
        self._numbers = itertools.count()
        self._again: list[tuple[int, Item]] = []
        self._pending: dict[Any, tuple[int, Item]] = {}
        self._window, self._counted = 0, -RECOUNT_SECONDS
        self._give_out()

    def add(self, item: Item) -> None:
        """Takes another item, which comes before those that were to be read yet."""
        self._added.append(item)
        self._give_out()

    def forget(self) -> None:
        """Drops items that were added and not given out yet."""
        self._added.clear()

    @property
    def done(self) -> bool:
        """Whether all answers have been given."""
        return not self._pending

    @property
    def free(self) -> int:
        """How many more items would be given out at once."""
        return max(0, self._window - len(self._pending) - len(self._added))

    @property
    def busy(self) -> tuple[int, int]:
        """How many cores have an item at most, and how many there are."""
        cores = self._window // 2 if self._most is None else self._window
        return min(len(self._pending), cores), cores

    def ready(self, timeout: float | None = None) -> list[tuple[Item, Answer | None]]:
        """The next answer, if one comes within so many seconds; None: however long it takes.

        There may be none where a worker or a node died: its item is given out again.

        Raises:
            MapspaceError: As the function raised it.
            OSError: As the function raised it.
        """
        import ray

        lost = (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError)
        deaths = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
        self._give_out()
        found: list[tuple[Item, Answer | None]] = []
        for reference in ray.wait(list(self._pending), num_returns=1, timeout=timeout)[0]:
            number, item = self._pending.pop(reference)
            try:
                found.append((item, ray.get(reference)))
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, (MapspaceError, OSError)):
                    raise error.cause from None
                raise
            except lost:
                self._again.append((number, item))
            except deaths:
                died = self._deaths[number] = self._deaths.get(number, 0) + 1
                if died > self._retries:
                    found.append((item, None))
                else:
                    self._again.append((number, item))
        self._give_out()
        return found

    def _give_out(self) -> None:
        """Gives out items, as many as shall be under way."""
        import ray

        if time.monotonic() - self._counted >= RECOUNT_SECONDS:
            # One more per core than runs, so that no core waits for the driver.
            there = max(1, int(ray.cluster_resources().get("CPU", 1)))
            self._window = 2 * there if self._most is None else min(there, self._most)
            self._counted = time.monotonic()
        free = max(0, self._window - len(self._pending))
        again, self._again = self._again, []
        fresh = itertools.islice(itertools.chain(self._drained(), self._waiting), free)
        for number, item in (*again, *((next(self._numbers), item) for item in fresh)):
            self._pending[self._task.remote(item)] = number, item

    def _drained(self) -> Iterator[Item]:
        while self._added:
            yield self._added.popleft()


def node_was_lost(error: BaseException | str) -> bool:
    """Whether by an error an actor has died because its node did, or cannot be reached any more."""
    # Ray has no other way to say so of actors.
    said = ("its node has died", "keepalive watchdog timeout")
    return any(words in str(error) for words in said)


def code_version() -> dict[str, str]:
    """Version of the package, and the commit where it runs from a git checkout.

    `-changed` marks a commit whose cost model, surrogate or searchers differ from what ran.
    """
    found = {"mapspace": version("mapspace")}
    root = Path(__file__).parent.parent.parent
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", "costmodel", "searchers", "surrogate/*.py"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return found
    if commit.returncode == 0:
        dirty = "-changed" if changes.stdout.strip() else ""
        found["commit"] = commit.stdout.strip() + dirty
    return found
