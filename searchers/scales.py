"""How searchers that learn scale what they read: features, and losses of refused mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses

if TYPE_CHECKING:
    from costmodel.space import Space

# A space has one scale, whatever a search's own seed.
SCALE_SEED = 0
# ln of how many times worse than the worst a refused mapping counts.
REFUSED = 1.0


def scale_sample(space: Space, number: int) -> Codes:
    """`[number, D]` feasible mappings that features are scaled by: always the same."""
    return space.sample(np.random.default_rng(SCALE_SEED), number, feasible=True)


def signed_log(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """`sign(x) ln(1 + |x|)`: logarithms that pass through 0."""
    logarithms: npt.NDArray[np.floating[Any]] = np.sign(values) * np.log1p(np.abs(values))
    return logarithms


def refused_as_worse(logs: Losses) -> Losses:
    """Ln losses `[N]`, some of them finite, with those of refused mappings above the worst."""
    finite = np.isfinite(logs)
    return np.where(finite, logs, logs[finite].max() + REFUSED)
