"""How items are given out to tasks and taken back, with a stand-in for Ray that says what happens.

What Ray itself does is held by the tests that use it, and by those that kill its processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mapspace.errors import MapspaceError
from orchestrator.runs import ray_runtime
from orchestrator.runs.ray_runtime import Tasks, completed, fan_out


class CrashedError(Exception):
    """A worker's death."""


class LostError(Exception):
    """A node's."""


class FailedError(Exception):
    """What the function raised."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Ray:
    """Answers the first task that is under way, by what its item is said to come to."""

    def __init__(self, processors: int, answer: Callable[[Any, int], Any]) -> None:
        self.given: list[Any] = []
        self._processors, self._answer = processors, answer
        self.exceptions = SimpleNamespace(
            NodeDiedError=LostError, ObjectLostError=LostError, RayTaskError=FailedError,
            WorkerCrashedError=CrashedError, OutOfMemoryError=CrashedError,
        )  # fmt: skip

    def remote(self, **options: Any) -> Callable[[Any], Any]:
        assert options == {"num_cpus": 1, "max_retries": 0}
        return lambda task: SimpleNamespace(remote=self._begin)

    def _begin(self, item: Any) -> tuple[int, Any]:
        self.given.append(item)
        return len(self.given), item

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self._processors)}

    def wait(self, pending: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return pending[:1], pending[1:]

    def get(self, reference: tuple[int, Any]) -> Any:
        _, item = reference
        found = self._answer(item, self.given.count(item))
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ray]:
    def make(answer: Callable[[Any, int], Any], processors: int = 2) -> Ray:
        made = Ray(processors, answer)
        monkeypatch.setitem(sys.modules, "ray", made)
        return made

    return make


def test_one_more_per_core_than_runs(ray: Callable[..., Ray]) -> None:
    made = ray(lambda item, times: item * 10, processors=2)
    tasks: Tasks[int, int] = Tasks(abs, range(1, 8))
    assert made.given == [1, 2, 3, 4]
    assert (tasks.busy, tasks.free) == ((2, 2), 0)
    assert tasks.ready() == [(1, 10)]
    tasks.add(9)
    assert made.given == [1, 2, 3, 4, 5]
    assert [*tasks.ready(), *tasks.ready()] == [(2, 20), (3, 30)]
    # What was added comes before what was to be read yet.
    assert made.given[5:] == [9, 6]
    tasks.add(11)
    tasks.forget()
    found = []
    while not tasks.done:
        found += tasks.ready()
    assert found == [(4, 40), (5, 50), (9, 90), (6, 60), (7, 70)]
    assert (tasks.busy, tasks.free) == ((0, 2), 4)


@pytest.mark.parametrize(("cores", "window", "busy"), [(1, 1, (1, 1)), (9, 3, (3, 3))])
def test_no_more_cores_than_were_asked_for(
    ray: Callable[..., Ray], cores: int, window: int, busy: tuple[int, int]
) -> None:
    made = ray(lambda item, times: item, processors=3)
    tasks: Tasks[int, int] = Tasks(abs, range(20), cores=cores)
    assert (len(made.given), tasks.busy) == (window, busy)
    assert [item for item, _ in completed(abs, range(20), cores=cores)] == [*range(20)]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_worker_may_die_so_often_on_an_item(ray: Callable[..., Ray], retries: int) -> None:
    """An item whose worker dies once more than that has no answer; the others have theirs."""
    made = ray(lambda item, times: CrashedError() if item == 5 else item)
    assert dict(completed(abs, [4, 5, 6], retries=retries)) == {4: 4, 5: None, 6: 6}
    assert made.given.count(5) == retries + 1
    recovered = ray(lambda item, times: CrashedError() if times <= retries else item)
    assert dict(completed(abs, [4, 5], retries=retries)) == {4: 4, 5: 5}
    assert len(recovered.given) == 2 * (retries + 1)


def test_a_lost_node_is_no_fault_of_its_items(ray: Callable[..., Ray]) -> None:
    made = ray(lambda item, times: LostError() if times < 9 else item)
    assert dict(completed(abs, [1, 2], retries=0)) == {1: 1, 2: 2}
    assert made.given.count(1) == 9


def test_what_the_function_raises_is_raised(ray: Callable[..., Ray]) -> None:
    for cause in (MapspaceError("no"), OSError("full")):
        ray(lambda item, times, cause=cause: FailedError(cause))
        with pytest.raises(type(cause), match=str(cause)):
            list(completed(abs, [1]))
    ray(lambda item, times: FailedError(ValueError("a fault")))
    with pytest.raises(FailedError):
        list(completed(abs, [1]))


def test_it_can_be_stopped_and_watched(ray: Callable[..., Ray]) -> None:
    ray(lambda item, times: item)
    seen: list[tuple[int, int]] = []
    stopped = iter([False, False, True])
    found = completed(
        abs, range(9), stop=lambda: next(stopped), watch=lambda *busy: seen.append(busy)
    )
    assert list(found) == [(0, 0), (1, 1)]
    assert seen == [(2, 2), (2, 2)]


def test_an_item_that_kills_its_workers_is_said(
    ray: Callable[..., Ray], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray(lambda item, times: CrashedError())
    monkeypatch.setattr(ray_runtime, "start_ray", lambda *_, **__: False)
    with pytest.raises(MapspaceError, match=r"died 3 times on the same layer \(out of memory\?\)"):
        list(fan_out(abs, [1], retries=2, what="layer"))
