"""Energy and cycles bounded together: no point that obeys the bounds has a smaller objective."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.costs import Objective
from costmodel.tile_chains.views import Together


@pytest.mark.parametrize(("objective", "power"), [("edp", 1), ("ed2p", 2)])
def test_no_point_has_a_smaller_objective(objective: Objective, power: int) -> None:
    rng = np.random.default_rng(0)
    tight = 0
    for _ in range(300):
        energy, cycles = rng.uniform(1, 100, 2)
        together = Together.of(objective, energy, cycles)
        both = (energy + together.rate * cycles) * rng.uniform(0.5, 1.5)
        slow = np.array([cycles * rng.uniform(1, 1.2)])
        bound = together.energy(np.array([energy]), slow, np.array([both]), cycles)[0]
        more = np.linspace(0, 1, 400) * max(0.0, both / together.rate - slow[0])
        end = max(slow[0], (both - energy) / together.rate)
        points = np.append(slow[0] + more, end)
        needed = np.maximum(energy, both - together.rate * points)
        values = needed * (points / cycles) ** power
        assert bound <= values.min() * (1 + 1e-12)
        tight += bound >= values.min() * (1 - 1e-12)
    assert tight == 300
