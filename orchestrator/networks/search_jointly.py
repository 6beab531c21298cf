"""`mapspace search --network NAME --jointly`: from the request to the network's own optimum."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any, TextIO

from costmodel.exact.infeasible import why_infeasible
from costmodel.exact.objective import KINDS
from costmodel.exact_any.choice import load_prover, why_not_proven
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.meant_entries import serving
from costmodel.problems.affine import LARGEST_COUNT
from mapspace.errors import ArgumentError, ConfigError, DataError, refuse, together
from orchestrator.answers.request import Request
from orchestrator.networks.jointly import Jointly
from orchestrator.networks.layer_lines import FixedLines, LayerLines, begin_all
from orchestrator.networks.limited import Limited
from orchestrator.networks.lines import Limit
from orchestrator.networks.network_certificate import certify_network
from orchestrator.networks.operators import Operators
from orchestrator.networks.optimum_result import NetworkOptimum
from orchestrator.networks.stored_networks import AskedNetwork, Link
from orchestrator.networks.time_left import LEAST_SECONDS, TimeLeft
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from searchers.base import check_seed
from searchers.exact import ExactOptions

SECONDS = 60.0
"""What a network may take where nothing is said."""


def limit_of(request: Request) -> Limit | None:
    """What the whole network must be within; None without a limit.

    Raises:
        ConfigError: two limits, one of what is minimised, or one that nothing can meet.
    """
    cycles, energy = request.max_cycles, request.max_energy_pj
    if cycles is None and energy is None:
        return None
    name, wanted = ("max_cycles", "energy") if energy is None else ("max_energy_pj", "latency")
    if cycles is not None and energy is not None:
        raise ArgumentError("max_cycles", ": expected one limit, got max_energy_pj as well.")
    if request.objective != wanted:
        why = f": expected the objective {wanted} under it, got {request.objective}."
        raise ArgumentError(name, why)
    most = cycles if energy is None else energy
    if most is None or not 0 < most < LARGEST_COUNT:
        raise ArgumentError(name, f": expected more than 0 and less than 2**62, got {most}.")
    return Limit(cycles, None if energy is None else Fraction(energy))


def goal_of(request: Request, what: str) -> tuple[Limit | None, float]:
    """The limit of a whole network, and the seconds that it may take.

    Args:
        request: how to search.
        what: for a message, what is done.

    Raises:
        ConfigError: an option that is for single layers, or a value that is not allowed.
    """
    seconds = SECONDS if request.seconds is None else request.seconds
    wrong: list[ConfigError] = [
        ArgumentError(name, f": {what} by proofs, without it.")
        for name, given in (
            ("searcher", request.searcher not in (None, "exact")),
            ("iterations", request.iterations is not None),
            ("keep", bool(request.keep)),
            ("explain", request.explain),
            ("surrogate", request.surrogate is not None),
            ("preset", request.preset is not None),
            ("parameters", bool(request.parameters)),
        )
        if given
    ]
    if request.objective not in KINDS:
        expected = f": expected {', '.join(KINDS)}, got {request.objective}."
        wrong.append(ArgumentError("objective", expected))
    if not seconds > 0:
        wrong.append(ArgumentError("seconds", f": expected more than 0, got {seconds}."))
    limit, *_ = together(
        lambda: limit_of(request),
        lambda: ExactOptions.read("exact", None, {"gap": request.gap}),
        lambda: check_seed(request.seed),
        lambda: refuse(wrong),
    )
    return limit, seconds


def check_whole(request: Request) -> None:
    """Refuses a network that lacks layers: no choice for the rest is one for it.

    Raises:
        ArgumentError: the first of them.
    """
    left_out = request.read_network.left_out
    if left_out:
        raise ArgumentError("jointly", f": expected a whole network; left out: {left_out[0]}.")


def search_jointly(request: Request, stream: TextIO | None = None) -> NetworkOptimum:
    """Finds the mappings of the least objective of a whole network, and proves that.

    Args:
        request: its workload is the network; `seconds` and `gap` are those of the network.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an unknown name, an option that is for single layers, a layer without a
            feasible mapping or of which no proof is possible: it is named.
        DataError: no mapping of a layer was found in time, or no bound.
    """
    (limit, seconds), (name, layers), device = together(
        lambda: goal_of(request, "layers are chosen together"),
        lambda: request.layers,
        lambda: request.device,
    )
    device = serving(device, (layer for layer, _ in layers))
    check_whole(request)
    live = Live(stream or sys.stderr)
    operators = Operators(request.read_network.words, device, request.moves)
    asked = AskedNetwork(
        request,
        "jointly",
        name,
        device,
        [(work, count, Link()) for work, count in layers],
        seconds,
        limit,
        {kind: list(words) for kind, words in operators.words.items() if operators.counted},
    )
    known = asked.read(lambda row, beside: (asked.of_network(row), asked.where(row)))
    if known is not None:
        live.line(f"answered from the store: {known[1]}")
        return NetworkOptimum(name, device, known[0], operators, False, known[1])
    found: list[LayerLines | FixedLines] = []
    clock = TimeLeft(seconds)
    for work, count in layers:
        clock.require(len(found), len(layers))
        space = MapSpace(work, device)
        why = why_infeasible(space) or why_not_proven(space)
        if why is not None:
            raise ConfigError(f"{work.name}: {why}")
        found.append(LayerLines(space, count))
    live.line(f"choosing mappings of {len(layers)} distinct layers of {name} on {device.name}")
    with clock.paused():
        load_prover(found[0].space)
    if operators.counted:
        found.append(FixedLines(found[0].space, operators.cost))
    with interruptible() as interrupted:
        begin_all(found[: len(layers)], clock)
        options: dict[str, Any] = {
            "seconds": max(LEAST_SECONDS, clock.left),
            "gap": request.gap,
            "say": lambda text: live.update(lambda: f"  {text}"),
            "stop": interrupted.is_set,
        }
        if limit is None:
            result = Jointly(found, request.objective, **options).run()
        else:
            result = Limited(found, limit, **options).run()
        stopped = interrupted.is_set()
    live.end()
    if math.isinf(result.gap):
        raise DataError(
            f"{name} on {device.name}: nothing is certain after {result.seconds:.3g} s; expected "
            "more seconds, or a search of each layer alone."
        )
    certificate = certify_network(name, result, operators)
    asked.keep(certificate, result.seconds, {}, settled=not stopped or result.gap <= request.gap)
    return NetworkOptimum(name, device, certificate, operators, stopped, None)
