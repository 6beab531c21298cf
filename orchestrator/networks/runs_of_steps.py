"""How the steps of a network run by a choice of ways: alone, with what stays, or tiled together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from costmodel.exact_any.weighted import Point
from costmodel.networks.chains import Step
from costmodel.networks.fused import Plan
from orchestrator.networks.fused import PairLines
from orchestrator.networks.jointly import Choice, Optimum
from orchestrator.networks.layer_lines import Weight
from orchestrator.networks.resident import Way, Ways

Sums = tuple[Fraction, int]
"""Energy, pJ, and cycles."""


class Ran(NamedTuple):
    """A step as it runs, once.

    Attributes:
        step: the layer.
        energy: pJ; moves of a pair that is tiled together are its second step's.
        cycles: likewise.
        input_stays: whether its input is on the chip.
        output_stays: whether its output is left there.
        words: what lies there beside its own tiles.
        times: iterations of its mapping.
        fused: whether it is tiled together with another.
    """

    step: Step
    energy: Fraction
    cycles: int
    input_stays: bool
    output_stays: bool
    words: int
    times: int = 1
    fused: bool = False


class PairRow(NamedTuple):
    """Two layers that could be tiled together, and what each way to run them takes, once.

    Attributes:
        producer: the first layer's name.
        consumer: the second's.
        chosen: whether they are.
        outer: dimensions of the first and trip counts of the outer loops, the outermost first.
        kept: tensors whose pieces are kept, `layer.tensor`.
        words: what lies in the buffer beside the tiles of the layer that runs.
        fused: energy and cycles tiled together, of the least weighted sum at the optimum.
        staying: where the tensor between may stay whole.
        alone: where nothing stays.
    """

    producer: str
    consumer: str
    chosen: bool
    outer: tuple[tuple[str, int], ...]
    kept: tuple[str, ...]
    words: int
    fused: Sums
    staying: Sums
    alone: Sums


def as_run(steps: Sequence[Step], path: Sequence[Way], choice: Sequence[Point]) -> list[Ran]:
    """Every step as it runs.

    Args:
        steps: of a network.
        path: how each runs.
        choice: a point per step.
    """
    found: list[Ran] = []
    for place, (step, way, point) in enumerate(zip(steps, path, choice, strict=True)):
        if -place in way.before and found and place:
            continue  # with the step before it
        if isinstance(way.lines, PairLines):
            found += _together(steps[place : place + 2], way.lines, point)
            continue
        lying = sum(steps[one].words for one in way.before) + way.stays * step.words
        reads = step.source in way.before
        found.append(Ran(step, point.energy, point.cycles, reads, way.stays, lying))
    return found


def _together(steps: Sequence[Step], lines: PairLines, point: Point) -> Iterator[Ran]:
    plan, _, points = lines.unpacked(point)
    for side in range(2):
        moves = plan.moves if side else (Fraction(0), 0)
        yield Ran(
            steps[side],
            plan.times * points[side].energy + moves[0],
            plan.times * points[side].cycles + moves[1],
            side == 1,
            side == 0,
            plan.words,
            plan.times,
            fused=True,
        )


def pair_rows(
    ways: Ways,
    path: Sequence[Way],
    found: tuple[Optimum, Weight],
    apart: Sequence[Choice],
) -> Iterator[PairRow]:
    """What fusing is worth for each two layers that could be tiled together.

    Args:
        ways: of the network.
        path: the best.
        found: the best, and the weight that says how to run what is not chosen.
        apart: a point per step where tensors stay whole or not at all, and where nothing stays.
    """
    optimum, weight = found
    taken = {id(way.lines): place for place, way in reversed(list(enumerate(path)))}
    for place, several in enumerate(ways.ways):
        lines = next((way.lines for way in several if isinstance(way.lines, PairLines)), None)
        if lines is None:
            continue
        at = taken.get(id(lines))
        point = lines.least(weight) if at is None else optimum.choice[at]
        assert point is not None  # every layer begins with one
        plan = lines.unpacked(point)[0]
        yield PairRow(
            ways.steps[place].workload.name,
            ways.steps[place + 1].workload.name,
            at is not None,
            _outer(lines, plan),
            _kept(lines, plan),
            plan.words,
            (point.energy, point.cycles),
            *(_both(choice, place) for choice in apart),
        )


def _both(choice: Choice, place: int) -> Sums:
    one, other = choice[place : place + 2]
    return one.energy + other.energy, one.cycles + other.cycles


def _outer(lines: PairLines, plan: Plan) -> tuple[tuple[str, int], ...]:
    axes = lines.pair.axes
    return tuple((axes[axis][0], plan.factors[axis]) for axis in plan.order)


def _kept(lines: PairLines, plan: Plan) -> tuple[str, ...]:
    pair = (lines.pair.producer, lines.pair.consumer)
    return tuple(
        f"{work.name.rpartition('-')[2]}.{tensor}"
        for work, roles in zip(pair, plan.kept, strict=True)
        for tensor, role in work.roles.items()
        if role in roles
    )
