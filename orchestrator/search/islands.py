"""A search on islands whose legs run on Ray: the same result for any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.costs import Objective
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import MapspaceError
from mapspace.ray_start import start_ray
from orchestrator.runs.ray_runtime import completed
from searchers.context import Context
from searchers.evaluator import Evaluator
from searchers.islands import Island, Islands, IslandsOptions, island_searcher

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator

Spread = Callable[[list["Leg"]], Iterable[tuple["Leg", "Mapping[str, Any] | None"]]]
"""Runs legs anywhere, in any order, and gives what `run_leg` answers; None where workers died."""


@dataclass(frozen=True)
class Leg:
    """What a worker needs to spend a leg of an island.

    Attributes:
        index: of the island.
        workload: what is mapped.
        accelerator: on which machine.
        objective: what is minimised.
        options: of the islands.
        seed: of the island.
        state: `Island.state_dict()`.
        seconds: of the search that are left; None: no limit.
    """

    index: int
    workload: Workload
    accelerator: Accelerator
    objective: Objective
    options: IslandsOptions
    seed: int
    state: Mapping[str, Any]
    seconds: float | None


def run_leg(leg: Leg) -> Mapping[str, Any]:
    """Spends a leg.

    Returns:
        `island` and `evaluator`, their states at its end.
    """
    space = _space(leg)
    context = Context(objective=leg.objective)
    island = Island(island_searcher(space, leg.options, leg.seed, context))
    island.load_state_dict(leg.state)
    evaluator = Evaluator(
        LoopNestModel(),
        space,
        objective=leg.objective,
        iterations=island.left,
        seconds=leg.seconds,
    )
    island.run(evaluator)
    return {"island": island.state_dict(), "evaluator": evaluator.state_dict()}


def _space(leg: Leg) -> MapSpace:
    """The space of a leg; a worker keeps the last one, whose tables take as long as a short leg."""
    key = leg.workload.hash, leg.accelerator.hash
    if key not in _spaces:
        _spaces.clear()
        _spaces[key] = MapSpace(leg.workload, leg.accelerator)
    return _spaces[key]


_spaces: dict[tuple[str, str], MapSpace] = {}


def run_on_ray(
    islands: Islands,
    evaluator: Evaluator,
    workers: int,
    stop: Callable[[], bool],
    after_round: Callable[[Islands], None],
) -> None:
    """Runs the legs as Ray tasks, as many at a time as there are workers; see `run_on`.

    Ray is started where none runs, which does not count as search, and stays for the next one.

    Args:
        islands: the search.
        evaluator: owns the budget; its clock has not started.
        workers: tasks at a time; more than there are processors wait.
        stop: whether to wait no longer; legs that are back by then count.
        after_round: called after every round.

    Raises:
        ConfigError: Ray cannot be reached.
        MapspaceError: workers kept dying on a leg.
    """

    def spread(legs: list[Leg]) -> Iterable[tuple[Leg, Mapping[str, Any] | None]]:
        return completed(run_leg, legs, stop=stop, cores=workers)

    start_ray()
    run_on(spread, islands, evaluator, after_round)


def run_on(
    spread: Spread,
    islands: Islands,
    evaluator: Evaluator,
    after_round: Callable[[Islands], None] = lambda _: None,
) -> None:
    """Searches until the budget is spent, round by round.

    Args:
        spread: runs the legs of a round.
        islands: the search; it has not been asked.
        evaluator: owns the budget, of the loop-nest model.
        after_round: called after every round.

    Raises:
        MapspaceError: workers kept dying on a leg.
    """
    space = islands.space
    assert isinstance(space, MapSpace)
    while (remaining := evaluator.remaining) > 0 and islands.legs(remaining):
        began = evaluator.elapsed
        # Read once: the time may run out while the legs are made.
        seconds = None if evaluator.seconds is None else evaluator.seconds - began
        if seconds is not None and seconds <= 0:
            return
        legs = [
            Leg(
                index,
                space.workload,
                space.accelerator,
                evaluator.objective,
                islands.options,
                islands.seeds[index],
                island.state_dict(),
                seconds,
            )
            for index, island in enumerate(islands.islands)
            if island.left
        ]
        back = {leg.index: answer for leg, answer in spread(legs)}
        # In the order in which one process runs them.
        for index in sorted(back):
            answer = back[index]
            if answer is None:
                raise MapspaceError(f"Workers kept dying on island {index} (out of memory?).")
            islands.islands[index].load_state_dict(answer["island"])
            evaluator.add(answer["evaluator"], began)
        islands.settle()
        after_round(islands)
