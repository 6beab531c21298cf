"""Actors of Ray Tune that take virtual time: Tune's controller and the driver are the real ones."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ray.air.execution._internal import TrackedActor


class _Handle:
    """Of an actor: whatever is asked of it beside its work has no answer."""

    def __getattr__(self, name: str) -> _Handle:
        return self

    def remote(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}


class SimulatedActors:
    """In the place of `ray.air.execution._internal.RayActorManager`, with its methods.

    A class of its own is made per run, by `of`.
    """

    workers: int
    work: Callable[[Mapping[str, Any]], tuple[float, dict[str, Any]]]

    def __init__(self, resource_manager: Any) -> None:
        """Takes what the controller gives."""
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._pending: deque[TrackedActor] = deque()
        self._live_actors_to_ray_actors_resources: dict[TrackedActor, tuple[Any, Any]] = {}
        self._configs: dict[TrackedActor, Mapping[str, Any]] = {}
        self.seconds = 0.0

    @classmethod
    def of(
        cls, workers: int, work: Callable[[Mapping[str, Any]], tuple[float, dict[str, Any]]]
    ) -> type[SimulatedActors]:
        """So many workers whose trials are done by a function.

        Args:
            workers: actors at a time.
            work: takes a trial's configuration, answers with its seconds and its result.
        """
        return type("Simulated", (cls,), {"workers": workers, "work": staticmethod(work)})

    def add_actor(
        self,
        cls: Any,
        kwargs: Mapping[str, Any],
        resource_request: Any,
        *,
        on_start: Any = None,
        on_stop: Any = None,
        on_error: Any = None,
    ) -> TrackedActor:
        actor = TrackedActor(next(self._numbers), on_start, on_stop, on_error)
        self._configs[actor] = kwargs["config"]
        self._pending.append(actor)
        return actor

    def remove_actor(self, tracked_actor: TrackedActor, **_: Any) -> bool:
        if tracked_actor in self._pending:
            self._pending.remove(tracked_actor)
            return False

        def stop() -> None:
            self._live_actors_to_ray_actors_resources.pop(tracked_actor, None)
            self._configs.pop(tracked_actor, None)
            if tracked_actor._on_stop is not None:
                tracked_actor._on_stop(tracked_actor)

        self._after(0.0, stop)
        return True

    def schedule_actor_task(
        self,
        tracked_actor: TrackedActor,
        method_name: str,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        on_result: Any = None,
        on_error: Any = None,
        _return_future: bool = False,
    ) -> object:
        seconds, answer = 0.0, None
        if method_name == "reset":
            self._configs[tracked_actor], answer = args[0], True
        elif method_name == "train":
            seconds, answer = type(self).work(self._configs[tracked_actor])
        if on_result is not None:
            self._after(seconds, lambda: on_result(tracked_actor, answer))
        return object()

    def next(self, timeout: float | None = None) -> bool:
        """Starts an actor, or lets the next one end its work."""
        if self._pending and self.num_live_actors < self.workers:
            actor = self._pending.popleft()
            self._live_actors_to_ray_actors_resources[actor] = (_Handle(), None)
            if actor._on_start is not None:
                actor._on_start(actor)
            return True
        if not self._events:
            return False
        self.seconds, _, event = heapq.heappop(self._events)
        event()
        return True

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.seconds + seconds, next(self._numbers), event))

    def is_actor_started(self, tracked_actor: TrackedActor) -> bool:
        return tracked_actor in self._live_actors_to_ray_actors_resources

    def is_actor_failed(self, tracked_actor: TrackedActor) -> bool:
        return False

    def clear_actor_task_futures(self, tracked_actor: TrackedActor) -> None:
        pass

    def get_live_actors_resources(self) -> dict[str, float]:
        return {}

    def cleanup(self) -> None:
        pass

    @property
    def num_live_actors(self) -> int:
        return len(self._live_actors_to_ray_actors_resources)

    @property
    def num_pending_actors(self) -> int:
        return len(self._pending)

    @property
    def num_total_actors(self) -> int:
        return self.num_live_actors + self.num_pending_actors

    @property
    def num_actor_tasks(self) -> int:
        return len(self._events)
