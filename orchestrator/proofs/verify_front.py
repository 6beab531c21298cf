"""Proves again what an energy-latency front claims."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from costmodel.exact.verification import Verdict
from costmodel.exact_any.front import search_front
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import record_code
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ArgumentError
from orchestrator.proofs.certificates import Verification
from orchestrator.proofs.pareto import Front

# Energies are sums in floating point.
ROUNDING = 1e-9


def verify_front(
    front: Front, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Evaluates the mappings of a front anew, and proves it again without a store.

    Args:
        front: what to prove again.
        independent: not of fronts.
        seconds: the most that it may take; None: however long.

    Raises:
        ArgumentError: an argument that does not fit it.
    """
    if independent:
        raise ArgumentError("independent", ": the second program looks at single mappings.")
    if seconds is not None and not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    started = time.monotonic()
    space = MapSpace(front.workload, front.accelerator)
    codes = np.stack([record_code(space, point.record) for point in front.points])
    costs = LoopNestModel().evaluate(space, codes)
    said = [(point.costs.latency_cycles, point.costs.energy_pj) for point in front.points]
    found = list(zip(costs.latency_cycles.tolist(), costs.energy_pj.tolist(), strict=True))
    findings = [
        f"the costs of its {len(said)} mappings"
        if _same(said, found)
        else "WRONG: its mappings have other costs"
    ]
    complete = True
    if front.proven:
        known = search_front(space, known=list(codes), seconds=seconds)
        complete = known.proven
        proven = [(point.latency_cycles, point.energy_pj) for point in known.points]
        if complete:
            findings.append(
                "no mapping beats one of them in energy and latency"
                if _same(said, proven)
                else f"WRONG: the front has {len(proven)} other points"
            )
    left = () if front.proven else ("that no mapping is below its bounds",)
    holds = not any(line.startswith("WRONG") for line in findings)
    verdict = Verdict(
        holds, tuple(findings), left, None, None, time.monotonic() - started, complete
    )
    return Verification(front, verdict)


def _same(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> bool:
    """Whether two lists of cycles and energies are equal, but for rounding."""
    return len(first) == len(second) and all(
        math.isclose(a, b, rel_tol=ROUNDING)
        for one, other in zip(first, second, strict=True)
        for a, b in zip(one, other, strict=True)
    )
