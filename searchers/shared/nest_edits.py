"""Mappings as loop nests that searchers from the literature rearrange, and back to codes.

Loops are (dimension, factor); a level's loops of one dimension stand together, as a code has one
place for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.arrays.tables import prime_factors
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import Mapping
from costmodel.space import Codes
from mapspace.errors import ConfigError

Loop = tuple[str, int]


def code_of(space: MapSpace, mapping: Mapping) -> Codes | None:
    """The code `[D]` of a mapping; None where the space has none, or it is not feasible."""
    try:
        code = space.code(mapping)
    except ConfigError:
        return None
    return code if space.feasible(code[None])[0] else None


def best_spread(space: MapSpace, rng: np.random.Generator, draws: int) -> Codes:
    """`[D]` of so many feasible mappings at random one that uses most elements.

    Methods that order loops in time take what is spread over the elements as given.
    """
    codes = space.sample(rng, draws, feasible=True)
    spread = [name.startswith("spatial.") for name in space.feature_names]
    # Logarithms of factors.
    used = space.encode(codes)[:, spread].sum(axis=1, dtype=np.float64)
    best: Codes = codes[int(np.argmax(used.round(5)))]
    return best


def temporal_loops(mapping: Mapping) -> list[Loop]:
    """All prime factors of a mapping's loops in time, dimension by dimension, the least first."""
    totals: dict[str, int] = {}
    for level in mapping.levels:
        for name, factor in level.temporal.items():
            totals[name] = totals.get(name, 1) * factor
    return [(name, prime) for name, total in totals.items() for prime in prime_factors(total)]


def placed(mapping: Mapping, loops: Sequence[Sequence[Loop]]) -> Mapping:
    """A mapping with other loops in time.

    Args:
        mapping: what is spread, kept and banked stays as it is.
        loops: of each level, outermost level first, innermost loop first. A dimension's loops at a
            level come to stand where the innermost of them stands.
    """
    levels = []
    for level, own in zip(mapping.levels, loops, strict=True):
        temporal = dict.fromkeys(level.temporal, 1)
        for name, factor in own:
            temporal[name] *= factor
        inner = list(dict.fromkeys(name for name, _ in own))
        outer = [name for name in level.order if name not in inner]
        levels.append(replace(level, temporal=temporal, order=(*outer, *reversed(inner))))
    return replace(mapping, levels=tuple(levels))


def allocated(space: MapSpace, mapping: Mapping, loops: Sequence[Loop]) -> Codes | None:
    """Loops in time of an order given to the levels from the innermost: each takes what fits.

    The loop-order-based allocation of A. Symons et al., "LOMA: fast auto-scheduling on DNN
    accelerators through loop-order-based memory allocation", AICAS 2021, section III-B, where the
    tensors of a level share its loops.

    Args:
        space: the map space.
        mapping: what is spread, kept and banked.
        loops: innermost first.

    Returns:
        `[D]`, or None where not even the innermost levels hold what the order leaves them.
    """
    given: list[Sequence[Loop]] = [()] * len(mapping.levels)
    rest, best = list(loops), None

    def tried(count: int, level: int) -> Codes | None:
        parts = [*given]
        parts[level] = rest[:count]
        # What no level has yet lies outside of all.
        parts[0] = [*parts[0], *rest[count:]]
        return code_of(space, placed(mapping, parts))

    for level in range(len(mapping.levels) - 1, 0, -1):
        low, high = 0, len(rest)
        # More loops need more room: the most that fit lie between.
        while low < high:
            middle = (low + high + 1) // 2
            code = tried(middle, level)
            low, high, best = (low, middle - 1, best) if code is None else (middle, high, code)
        given[level], rest = rest[:low], rest[low:]
    return best if best is not None else tried(0, 0)


def factor_moves(mapping: Mapping) -> Iterator[Mapping]:
    """Every mapping where one prime factor of a loop in time stands at another level."""
    for source, level in enumerate(mapping.levels):
        for name, factor in level.temporal.items():
            for prime in sorted({*prime_factors(factor)}):
                for target in range(len(mapping.levels)):
                    if target != source:
                        yield moved(mapping, name, prime, source, target)


def moved(mapping: Mapping, name: str, prime: int, source: int, target: int) -> Mapping:
    """A mapping where a factor of a dimension's loop in time stands at another level."""
    levels = list(mapping.levels)
    for place, factor in ((source, None), (target, prime)):
        level = levels[place]
        old = level.temporal[name]
        new = old // prime if factor is None else old * prime
        levels[place] = replace(level, temporal={**level.temporal, name: new})
    return replace(mapping, levels=tuple(levels))
