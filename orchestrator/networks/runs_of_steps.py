"""How the steps of a network run by a choice of ways: alone, with what stays, or in cascades."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from costmodel.cascades.plans import Plan
from costmodel.exact_any.weighted import Point
from costmodel.networks.chains import Step
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.jointly import Choice, Optimum
from orchestrator.networks.layer_lines import Weight
from orchestrator.networks.resident import Way, Ways, is_within

Sums = tuple[Fraction, int]
"""Energy, pJ, and cycles."""


class Ran(NamedTuple):
    """A step as it runs, once.

    Attributes:
        step: the layer.
        energy: pJ; moves of a cascade are its last step's.
        cycles: likewise.
        input_stays: whether its input is on the chip.
        output_stays: whether its output is left there.
        words: what lies there beside its own tiles.
        times: iterations of its mapping.
        fused: whether it is in a cascade.
    """

    step: Step
    energy: Fraction
    cycles: int
    input_stays: bool
    output_stays: bool
    words: int
    times: int = 1
    fused: bool = False


class CascadeRow(NamedTuple):
    """Layers that could be a cascade, and what each way to run them takes, once.

    Attributes:
        layers: their names.
        chosen: whether they are.
        outer: dimensions of the first and trip counts of the outer loops, the outermost first.
        kept: tensors whose pieces are kept, `layer.tensor`.
        words: what lies in the buffer beside the tiles of the layer that runs.
        fused: energy and cycles as a cascade, of the least weighted sum at the optimum.
        staying: where tensors between may stay whole.
        alone: where nothing stays.
        passes: of the shared loops.
        overlaps: whether passes compute rows again.
    """

    layers: tuple[str, ...]
    chosen: bool
    outer: tuple[tuple[str, int], ...]
    kept: tuple[str, ...]
    words: int
    fused: Sums
    staying: Sums
    alone: Sums
    passes: int
    overlaps: bool


def as_run(steps: Sequence[Step], path: Sequence[Way], choice: Sequence[Point]) -> list[Ran]:
    """Every step as it runs.

    Args:
        steps: of a network.
        path: how each runs.
        choice: a point per step.
    """
    found: list[Ran] = []
    for place, (step, way, point) in enumerate(zip(steps, path, choice, strict=True)):
        if is_within(way.before):
            continue  # with the first of its cascade
        if isinstance(way.lines, CascadeLines):
            found += _together(steps[place : place + len(way.lines.sides)], way.lines, point)
            continue
        lying = sum(steps[one].words for one in way.before) + way.stays * step.words
        reads = step.source in way.before
        found.append(Ran(step, point.energy, point.cycles, reads, way.stays, lying))
    return found


def _together(steps: Sequence[Step], lines: CascadeLines, point: Point) -> Iterator[Ran]:
    plan, _, points = lines.unpacked(point)
    last = len(steps) - 1
    for side in lines.sides:
        moves = plan.moves if side == last else (Fraction(0), 0)
        yield Ran(
            steps[side],
            plan.times * points[side].energy + moves[0],
            plan.times * points[side].cycles + moves[1],
            side > 0,
            side < last,
            plan.words[side],
            plan.times,
            fused=True,
        )


def cascade_rows(
    ways: Ways,
    path: Sequence[Way],
    found: tuple[Optimum, Weight],
    apart: tuple[Choice, Choice],
) -> Iterator[CascadeRow]:
    """The cascades that are chosen, and each two layers in none that could be one.

    Args:
        ways: of the network.
        path: the best.
        found: the best, and the weight that says how to run what is not chosen.
        apart: a point per step where tensors stay whole or not at all, and where nothing stays.
    """
    optimum, weight = found
    taken = {id(way.lines): place for place, way in reversed(list(enumerate(path)))}
    said: set[int] = set()
    for place, several in enumerate(ways.ways):
        chosen = path[place].lines
        if isinstance(chosen, CascadeLines):
            lines = chosen
        elif is_within(path[place].before):
            continue
        else:
            pairs = (w.lines for w in several if isinstance(w.lines, CascadeLines))
            pair = next((one for one in pairs if len(one.sides) == 2), None)
            # Of equal layers one row says it, and none of two the second of which is in a cascade.
            if pair is None or id(pair) in said or isinstance(path[place + 1].lines, CascadeLines):
                continue
            lines = pair
        said.add(id(lines))
        at = taken.get(id(lines))
        point = lines.least(weight) if at is None else optimum.choice[at]
        if point is not None:
            yield _row(ways, place, lines, point, at is not None, apart)


def _row(
    ways: Ways,
    place: int,
    lines: CascadeLines,
    point: Point,
    chosen: bool,
    apart: tuple[Choice, Choice],
) -> CascadeRow:
    """What is said of a cascade that begins at a place."""
    plan = lines.unpacked(point)[0]
    last = place + len(lines.sides)
    shared = lines.cascade.shared
    return CascadeRow(
        tuple(step.workload.name for step in ways.steps[place:last]),
        chosen,
        tuple((shared[axis].names[0], plan.factors[axis]) for axis in plan.order),
        _kept(lines, plan),
        max(plan.words),
        (point.energy, point.cycles),
        _sum_of(apart[0][place:last]),
        _sum_of(apart[1][place:last]),
        passes=plan.times,
        overlaps=any(shared[axis].overlaps for axis in plan.order),
    )


def _sum_of(points: Sequence[Point]) -> Sums:
    return sum((one.energy for one in points), Fraction(0)), sum(one.cycles for one in points)


def _kept(lines: CascadeLines, plan: Plan) -> tuple[str, ...]:
    cut = any(lines.cascade.shared[axis].of_rows for axis in plan.order)
    statistics = ("maximum and sum of rows",) if cut else ()
    kept = tuple(
        f"{work.name.rpartition('-')[2]}.{tensor}"
        for work, roles in zip(lines.cascade.operators, plan.kept, strict=True)
        for tensor, role in work.roles.items()
        if role in roles
    )
    return (*kept, *statistics)
