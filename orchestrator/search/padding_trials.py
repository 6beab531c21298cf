"""Tries larger sizes where a workload's own have awkward factors.

What a size would give is never guessed: every padded problem is proven, or searched where no proof
is possible.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from costmodel.arrays.tables import prime_factors
from mapspace.errors import ConfigError
from orchestrator.answers.padding import SMALL_FACTOR, Padding, Sizes, paddable

if TYPE_CHECKING:
    import searchers
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.affine import Workload
    from orchestrator.answers.request import Request

# Sizes are padded by at most this share, to the next multiples of these numbers.
MOST_PADDING = 1 / 3
MULTIPLES = (2, 4, 8, 16, 32, 64, 128)
# The most that all padded problems may take, and each of them.
PADDING_SECONDS = 20.0
PROBLEM_SECONDS = 1.0
# Where no proof is possible, and before each proof.
SEARCH_ITERATIONS, FIRST_ITERATIONS = 20_000, 2000
FIRST_SECONDS = 0.05


def candidates(size: int) -> list[int]:
    """Larger sizes with small factors, ascending."""
    multiples = {-(-size // number) * number for number in MULTIPLES}
    return sorted(c for c in multiples if size < c <= size * (1 + MOST_PADDING))


def padded(workload: Workload, sizes: Mapping[str, int]) -> Workload:
    """The workload with other sizes, named after those that differ."""
    changed = {name: size for name, size in sizes.items() if workload.dimensions[name] != size}
    if not changed:
        return workload
    note = ",".join(f"{name}={size}" for name, size in changed.items())
    return type(workload)(
        name=f"{workload.name} padded to {note}",
        family=workload.family,
        dimensions={**workload.dimensions, **changed},
        tensors=workload.tensors,
    )


def find_padding(
    request: Request,
    workload: Workload,
    device: Accelerator,
    dimensions: tuple[str, ...],
    stop: Callable[[], bool],
    reached: float | None = None,
) -> Padding:
    """Tries sizes for each dimension alone, then for all together until none gets better.

    Args:
        request: what to minimise and which tensors are kept.
        workload: with the sizes given.
        device: the accelerator.
        dimensions: those to pad, of `paddable`.
        stop: asked again and again; ends the search with the best so far.
        reached: objective at the sizes given, where that is known.
    """
    sizes = dict(workload.dimensions)
    known: dict[tuple[int, ...], float] = {}
    if reached is not None:
        known[tuple(sizes.values())] = reached

    def least(sizes: Sizes) -> float:
        key = tuple(sizes.values())
        if key not in known and not stop():
            known[key] = _least(request, padded(workload, sizes), device, stop)
        return known.get(key, math.inf)

    def improved(start: Sizes) -> Sizes:
        """Changes one size after another as long as that is better."""
        held, changed = start, True
        while changed and not stop():
            changed = False
            for name in dimensions:
                for size in (sizes[name], *candidates(sizes[name])):
                    if least({**held, name: size}) < least(held):
                        held, changed = {**held, name: size}, True
        return held

    original = least(sizes)
    single: dict[str, tuple[int, float]] = {}
    for name in dimensions:
        tried = [(least({**sizes, name: size}), size) for size in candidates(sizes[name])]
        if tried and min(tried)[0] < original:
            single[name] = (min(tried)[1], min(tried)[0])
    starts = [
        sizes,
        # All at once: with one awkward size left the others may be worth nothing.
        {**sizes, **{name: roundest(sizes[name]) for name in dimensions}},
        {**sizes, **{name: size for name, (size, _) in single.items()}},
        # One alone: with it the others may be worth nothing more.
        *({**sizes, name: size} for name, (size, _) in single.items()),
    ]
    best = min(map(improved, starts), key=least)
    # Of what was tried before the time was over, too.
    best = min((*starts, best), key=least)
    return Padding(original, single, best, least(best), complete=not stop())


def roundest(size: int) -> int:
    """The candidate with the smallest largest factor, the smallest of those; or the size itself."""
    return min((size, *candidates(size)), key=lambda c: (max((SMALL_FACTOR, *prime_factors(c))), c))


def _least(
    request: Request, workload: Workload, device: Accelerator, stop: Callable[[], bool]
) -> float:
    """The objective of the best mapping; inf where none was found in time."""
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.exact_any.choice import load_prover, make_prover, why_not
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.map_space.map_space import MapSpace

    try:
        space = MapSpace(workload, device)
        if why_infeasible(space, request.keep) is not None:
            return math.inf
        obstacle = why_not(space)
    except ConfigError:
        return math.inf  # too large for exact counts, say
    if obstacle is not None:
        return _searched(request, space, SEARCH_ITERATIONS, PROBLEM_SECONDS).best_loss
    load_prover(space)
    deadline = time.monotonic() + PROBLEM_SECONDS
    prover = make_prover(space, objective=request.objective, keep=request.keep, build=False)
    # A proof that is cut off may have come to no mapping by itself.
    first = _searched(request, space, FIRST_ITERATIONS, FIRST_SECONDS).best_code
    if first is not None:
        prover.offer(first[None])
    while not prover.finished and time.monotonic() < deadline and not stop():
        prover.step()
    codes = prover.codes()[:1]
    if not len(codes):
        return math.inf
    return float(LoopNestModel().evaluate(space, codes).objective(request.objective)[0])


def _searched(
    request: Request, space: MapSpace, iterations: int, seconds: float
) -> searchers.Evaluator:
    """What the structured search finds."""
    import searchers
    from costmodel.loop_nest.model import LoopNestModel

    evaluator = searchers.Evaluator(
        LoopNestModel(),
        space,
        objective=request.objective,
        iterations=iterations,
        seconds=seconds,
    )
    searchers.make("structured", space, seed=request.seed).run(evaluator)
    return evaluator


def pad(
    request: Request, workload: Workload, device: Accelerator, interrupted: threading.Event
) -> Padding:
    """The best sizes to pad a workload to; half of a budget of time at the most goes into that."""
    seconds = PADDING_SECONDS
    if request.seconds is not None:
        seconds = min(seconds, request.seconds / 2)
    stop = until(time.monotonic() + seconds, interrupted)
    return find_padding(request, workload, device, paddable(workload), stop)


def until(deadline: float, interrupted: threading.Event) -> Callable[[], bool]:
    """What says whether a time of the monotonic clock has passed, or an interruption has come."""
    return lambda: interrupted.is_set() or time.monotonic() >= deadline
