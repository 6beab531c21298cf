"""`mapspace search --network NAME --jointly --resident`: from the request to what stays."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TextIO

from costmodel.chains import load_chain
from costmodel.exact.objective import KINDS
from costmodel.networks import words_without_macs
from costmodel.resident import shared_buffer
from mapspace.errors import ConfigError, DataError
from orchestrator.answers.request import Request
from orchestrator.networks.jointly import Optimum
from orchestrator.networks.operators import Operators
from orchestrator.networks.resident import LEAST_SECONDS, Resident, Way, Ways, begin
from orchestrator.networks.resident_result import ResidentOptimum
from orchestrator.networks.runs_of_steps import pair_rows
from orchestrator.networks.search_jointly import SECONDS
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live


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
    for name, given in (
        ("searcher", request.searcher not in (None, "exact")),
        ("iterations", request.iterations is not None),
        ("keep", bool(request.keep)),
        ("explain", request.explain),
        ("max_cycles", request.max_cycles is not None),
        ("max_energy_pj", request.max_energy_pj is not None),
    ):
        if given:
            raise ConfigError(f"{name}: what stays on the chip is chosen by proofs, without it.")
    if request.objective not in KINDS:
        raise ConfigError(f"objective: expected {', '.join(KINDS)}, got {request.objective}.")
    seconds = SECONDS if request.seconds is None else request.seconds
    if not seconds > 0:
        raise ConfigError(f"seconds: expected more than 0, got {seconds}.")
    name, steps = load_chain(request.network)
    device, live = request.device, Live(stream or sys.stderr)
    buffer = shared_buffer(device)
    fused, moves = request.fused, request.moves
    words = words_without_macs(request.network)
    between = {step.operator for step in steps}
    # Of what stands between two layers the ways know where it happens; the rest is off the chip.
    rest = {name: one for name, one in words.items() if name not in between}
    fixed = Operators(rest, device, moves).in_totals
    ways = Ways(steps, device, fused=fused, moves=moves)
    bare = [replace(step, until=place) for place, step in enumerate(steps)]
    alone = Ways(bare, device, known=ways, moves=moves)
    whole = Ways(steps, device, known=ways, moves=moves) if fused else None
    live.line(
        f"choosing what stays in {buffer.name} and mappings of {len(steps)} layers of {name} on "
        f"{device.name}: {len(ways.layers)} distinct"
    )
    started = time.monotonic()
    with interruptible() as interrupted:

        def run(some: Ways, ends: float) -> tuple[Optimum, list[Way]]:
            begin(some, max(LEAST_SECONDS, ends - time.monotonic()))
            left = max(LEAST_SECONDS, ends - time.monotonic())
            proof = Resident(
                some, request.objective, fixed, seconds=left, gap=request.gap,
                say=lambda text: live.update(lambda: f"  {text}"), stop=interrupted.is_set,
            )  # fmt: skip
            return proof.run(), proof.path

        # What is proven where nothing stays, or whole, is a part of the whole proof.
        before, _ = run(alone, started + seconds / (3 if fused else 2))
        staying = None if whole is None else run(whole, started + seconds / 2)[0]
        found, path = run(ways, started + seconds)
        stopped = interrupted.is_set()
    live.end()
    if found.bound <= 0 or before.bound <= 0:
        raise DataError(f"{name} on {device.name}: nothing is certain; expected more seconds.")
    pairs = () if staying is None else tuple(pair_rows(ways, path, (found, staying, before)))
    return ResidentOptimum(
        name, device, tuple(steps), tuple(path), found, before, stopped,
        Operators(words, device, moves), fixed, staying, pairs,
    )  # fmt: skip
