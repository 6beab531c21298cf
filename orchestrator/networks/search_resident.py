"""`mapspace search --network NAME --jointly --resident`: from the request to what stays."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TextIO

from costmodel.exact_any.choice import load_prover
from costmodel.machines.resident import shared_buffer
from costmodel.map_space.meant_entries import serving
from costmodel.networks.chains import Step, load_chain
from costmodel.networks.moves import Moved
from costmodel.problems.bits import check_words
from mapspace.errors import ArgumentError, ConfigError, DataError, together
from orchestrator.answers.request import Request
from orchestrator.networks.jointly import Optimum
from orchestrator.networks.layer_lines import Weight, begin_all
from orchestrator.networks.limited_resident import LimitedResident
from orchestrator.networks.lines import POWERS, Cut, lower_bound, under_limit
from orchestrator.networks.operators import Operators
from orchestrator.networks.resident import Resident, Ways
from orchestrator.networks.resident_certificate import certify_resident
from orchestrator.networks.resident_result import Beside, ResidentOptimum
from orchestrator.networks.runs_of_steps import CascadeRow, as_run, cascade_rows
from orchestrator.networks.search_jointly import check_whole, goal_of
from orchestrator.networks.stored_networks import AskedNetwork, Link
from orchestrator.networks.stored_resident import keep_resident, read_resident
from orchestrator.networks.time_left import LEAST_SECONDS, TimeLeft
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live

LISTING = 0.75
"""Share of the time that listing the ways may take."""


def search_resident(request: Request, stream: TextIO | None = None) -> ResidentOptimum:
    """Finds what stays on the chip and all mappings for the least objective of a network.

    Args:
        request: its workload is the network; `seconds` and `gap` are those of the network.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an option that does not fit, a network without order, a machine without a
            shared buffer, a layer that cannot be proven.
        DataError: nothing is certain in the time.
    """
    (limit, seconds), (name, steps), device = together(
        lambda: goal_of(request, "what stays on the chip is chosen"),
        lambda: load_chain(request.network, lambda: request.read_network),
        lambda: request.device,
    )
    device = serving(device, (step.workload for step in steps))
    check_whole(request)
    if request.bits is not None:
        raise ArgumentError("bits", " is for layers by themselves, not for what stays on the chip.")
    for step in steps:
        check_words(step.workload, "what stays on the chip")
    live = Live(stream or sys.stderr)
    buffer = shared_buffer(device)
    fused, moves = request.fused, request.moves
    words = request.read_network.words
    between = {step.operator for step in steps}
    # Of what stands between two layers the ways know where it happens; the rest is off the chip.
    rest = {name: one for name, one in words.items() if name not in between}
    fixed = Operators(rest, device, moves).in_totals
    operators = Operators(words, device, moves)
    asked = AskedNetwork(
        request,
        "cascades" if fused else "resident",
        name,
        device,
        [
            (step.workload, step.count, Link.of(place, step.source, step.until, step.operator))
            for place, step in enumerate(steps)
        ],
        seconds,
        limit,
        [str(fixed.energy), fixed.cycles, moves],
    )
    known = read_resident(asked, operators)
    if known is not None:
        live.line(f"answered from the store: {known.stored}")
        return known
    live.line(
        f"choosing what stays in {buffer.name} and mappings of {len(steps)} layers of {name} on "
        f"{device.name}"
    )
    result = _search_now(asked, steps, (operators, fixed), live)
    if result.all_ways:
        keep_resident(asked, result)
    return result


def _search_now(
    asked: AskedNetwork, steps: Sequence[Step], beside: tuple[Operators, Moved], live: Live
) -> ResidentOptimum:
    """Searches.

    Args:
        asked: what.
        steps: the layers in their order.
        beside: what only moves words, and what of it the totals have however the network runs.
        live: takes the progress.

    Raises:
        ConfigError: a layer cannot be proven.
        DataError: nothing is certain in the time.
    """
    request, device, limit, seconds = asked.request, asked.machine, asked.limit, asked.seconds
    (operators, fixed), fused, moves = beside, request.fused, request.moves
    clock = TimeLeft(seconds)
    bare = [replace(step, until=place) for place, step in enumerate(steps)]
    alone = Ways(bare, device, moves=moves, clock=clock)
    ways, whole = _listed(asked, steps, alone, clock)
    with clock.paused():
        load_prover(alone.layers[0].space)
    started, seconds = time.monotonic(), max(LEAST_SECONDS, clock.left)
    with interruptible() as interrupted:

        def run(some: Ways, ends: float) -> Resident:
            begin_all(some.layers, clock.part(ends - time.monotonic()), needed=some is alone)
            options: dict[str, Any] = {
                "seconds": max(LEAST_SECONDS, ends - time.monotonic()),
                "gap": request.gap,
                "say": lambda text: live.update(lambda: f"  {text}"),
                "stop": interrupted.is_set,
            }
            if limit is not None:
                return LimitedResident(some, limit, fixed, **options)
            return Resident(some, request.objective, fixed, **options)

        def part_of(some: Ways, ends: float) -> tuple[Resident, Optimum | None]:
            proof = run(some, ends)
            try:
                return proof, proof.run()
            except (ConfigError, DataError):
                if limit is None:
                    raise
                return proof, None  # the limit may be met with what stays alone

        # What is proven where nothing stays, or whole, is a part of the whole proof.
        share = 1 if ways is None else 6 if fused else 2
        without, before = part_of(alone, started + seconds / share)
        staying = None if whole is None else part_of(whole, started + seconds / 3)
        if ways is None:
            assert before is not None  # without a limit there is one
            proof, found = without, bounded_by_work(before, alone.work(), fixed)
        else:
            proof = run(ways, started + seconds)
            found = proof.run()
        stopped = interrupted.is_set()
    live.end()
    if math.isinf(found.gap) or (before is not None and math.isinf(before.gap)):
        raise DataError(
            f"{asked.name} on {device.name}: nothing is certain; expected more seconds."
        )
    cascades: Iterable[CascadeRow] = ()
    if ways is not None and staying is not None:
        weight = weight_of(found)
        whole_choice, alone_choice = (
            one.choose(weight) if optimum is None or limit is not None else optimum.choice
            for one, optimum in (staying, (without, before))
        )
        cascades = cascade_rows(ways, proof.path, (found, weight), (whole_choice, alone_choice))
    ran = steps if ways is None else proof.steps
    certificate = certify_resident(
        asked.name, device, (ran, proof.path, found),
        fused=fused, moves=operators.counted, fixed=fixed,
    )  # fmt: skip
    return ResidentOptimum(
        asked.name, device, certificate, operators, stopped, None,
        tuple(as_run(ran, proof.path, found.choice)), Beside.of(before), len(found.layers),
        None if staying is None else Beside.of(staying[1]), tuple(cascades), ways is not None,
    )  # fmt: skip


def _listed(
    asked: AskedNetwork, steps: Sequence[Step], alone: Ways, clock: TimeLeft
) -> tuple[Ways | None, Ways | None]:
    """The ways that a network can run, and those without cascades.

    Args:
        asked: what is searched for.
        steps: the layers in their order.
        alone: the ways where nothing stays.
        clock: of the whole search; a part of it is for the list.

    Returns:
        Both; None and None where to list them takes longer than that, the second also where no
        cascades are looked for.

    Raises:
        ConfigError: there are too many.
        DataError: it takes longer, and under a limit.
    """
    fused, moves = asked.request.fused, asked.request.moves
    part = clock.part(clock.left * LISTING, patient=asked.limit is not None)
    try:
        ways = Ways(steps, asked.machine, known=alone, fused=fused, moves=moves, clock=part)
        if not fused:
            return ways, None
        return ways, Ways(steps, asked.machine, known=ways, moves=moves, clock=part)
    except DataError:
        if asked.limit is not None:
            raise  # what suffices where nothing stays may be beyond it
        return None, None


def bounded_by_work(found: Optimum, work: Moved, fixed: Moved) -> Optimum:
    """An optimum of some ways to run, bounded by what is certain of all.

    Args:
        found: where nothing stays.
        work: what the layers take in whatever way.
        fixed: what the network costs beside.
    """
    cuts: tuple[Cut, ...] = (
        Cut(Fraction(0), work.energy + fixed.energy),
        Cut(None, Fraction(work.cycles + fixed.cycles)),
    )
    if found.objective in ("energy", "latency"):
        cuts = cuts[:1] if found.objective == "energy" else cuts[1:]
        bound = cuts[0].bound
    else:
        bound, _ = lower_bound(found.objective, cuts)
    return replace(found, cuts=cuts, bound=min(bound, found.value))


def weight_of(found: Optimum) -> Weight:
    """The weight of the line that says most of an optimum."""
    if found.limit is not None:
        return under_limit(found.limit, found.cuts)[1].weight
    if found.objective == "latency":
        return None
    return POWERS[found.objective] * found.energy / found.cycles
