"""What is said of padding: beside a result with awkward sizes, and of a padded problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from costmodel.arrays.tables import prime_factors
from orchestrator.answers.padding import Padding, awkward
from orchestrator.report.units import percent, value_text

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.problems.affine import Workload


def padded_text(used: Workload, original: Workload, found: Padding) -> Iterator[str]:
    """Says that the result is that of a padded problem."""
    moves = ", ".join(
        f"{name} {original.dimensions[name]} to {size}"
        for name, size in used.dimensions.items()
        if size != original.dimensions[name]
    )
    if not moves:
        yield f"padding         no larger size is better: {original.name} as it is"
    else:
        more = percent(used.macs / original.macs - 1)
        yield (
            f"padding         {moves}: all of the above is of the padded problem, with "
            f"{used.macs - original.macs:,} wasted multiply-accumulates ({more} more)"
        )
    if not found.complete:
        yield f"{'':<16}not all sizes were tried in the time"


def advice_text(
    workload: Workload, found: Padding, utilisation: float, objective: Objective, clock_ghz: float
) -> Iterator[str]:
    """Why so few elements work, and what padding would give."""
    now = found.original
    sizes = ", ".join(_factors(name, workload.dimensions[name]) for name in awkward(workload))
    yield (
        f"awkward sizes   {percent(utilisation)} of the elements work: tilings divide sizes "
        f"evenly, and {sizes}"
    )

    def cost(value: float) -> str:
        text = value_text(objective, value, clock_ghz)
        # Nothing may have been found in the time for the sizes as they are.
        change = ""
        if math.isfinite(now):
            less = percent(value / now - 1)
            change = f", {less}" if now < 10 * value else f", {now / value:,.0f} times less"
        return f"{objective} {text}{change}"

    for name, (size, value) in found.single.items():
        yield f"{'':<16}{name} padded to {size}: {cost(value)}"
    if found.better:
        changed = {n: size for n, size in found.sizes.items() if size != workload.dimensions[n]}
        together = ", ".join(f"{name}={size}" for name, size in changed.items())
        how = "together" if len(changed) > 1 else "best alone"
        yield f"{'':<16}{how} {together}: {cost(found.objective)}; --pad searches that"
    elif not found.complete:
        yield f"{'':<16}the time did not suffice to try larger sizes; --pad does"


def _factors(name: str, size: int) -> str:
    factors = prime_factors(size)
    if len(factors) == 1:
        return f"{name} = {size} is prime"
    return f"{name} = {size} is {' x '.join(map(str, factors))}"
