"""The best tilings of a map space by complete enumeration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel import Codes, MapSpace


def least_by_tiling(space: MapSpace, codes: Codes, values: npt.NDArray[np.float64]) -> list[float]:
    """The least value of every tiling, ascending."""
    same = [kind in ("tiling", "keep") for kind in space.attribute_kinds]
    _, first, group = np.unique(codes[:, same], axis=0, return_index=True, return_inverse=True)
    least: dict[str, float] = {}
    for number, at in enumerate(first):
        # Of what the machine decides a code may say anything.
        key = str([(x.temporal, x.spatial, x.keep) for x in space.describe(codes[at]).levels])
        value = float(values[group.ravel() == number].min())
        least[key] = min(value, least.get(key, np.inf))
    return sorted(least.values())
