"""How loops that may run along both axes of a mesh lie on it, for people and files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def heights_of(
    factors: Sequence[int], mesh: tuple[int, int], only_x: int, only_y: int
) -> tuple[int, ...]:
    """The part of every spatial factor that runs along the height of a mesh on which all fit.

    As few dimensions as can be are split in two; of factors that do not fit, all that may run
    along the width do.

    Args:
        factors: `[n]` spatial factors.
        mesh: its width and height.
        only_x: bit d: dimension d runs along the width only.
        only_y: along the height only.
    """
    width, height = mesh
    found = [factor if (only_y >> d) & 1 else 1 for d, factor in enumerate(factors)]
    free = [d for d, f in enumerate(factors) if f > 1 and not ((only_x | only_y) >> d) & 1]
    for count in range(len(free) + 1):
        for tall in itertools.combinations(free, count):
            whole = [factors[d] if d in tall else part for d, part in enumerate(found)]
            up = math.prod(whole)
            if up <= height and math.prod(factors) // up <= width:
                return tuple(whole)
    wide = math.prod(f for d, f in enumerate(factors) if (only_x >> d) & 1)
    together = math.prod(factors[d] for d in free)
    along = next(
        (g for g in range(min(together, width // wide), 0, -1) if together % g == 0), together
    )
    if math.prod(found) * (together // along) > height:
        return tuple(found)
    for d in free:
        # What divides a product is a product of what divides its factors.
        part = math.gcd(factors[d], along)
        along //= part
        found[d] = factors[d] // part
    return tuple(found)
