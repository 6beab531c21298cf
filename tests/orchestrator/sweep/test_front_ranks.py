"""Which architectures of a sweep are on its front."""

from __future__ import annotations

import numpy as np

from orchestrator.sweep.results import front_ranks


def test_the_front_is_what_nothing_beats_in_both() -> None:
    area = np.array([4.0, 1.0, 2.0, 3.0, 2.0, 1.0])
    objective = np.array([1.0, 9.0, 5.0, 6.0, np.nan, 9.0])
    assert front_ranks(area, objective) == [3, 1, 2, 0, 0, 0]
    # The last one equals the second in both, and takes less.
    assert front_ranks(area, objective, np.array([1.0, 3.0, 1, 1, 1, 2])) == [3, 0, 2, 0, 0, 1]


def test_ties_come_after_the_objective() -> None:
    assert front_ranks(np.array([1, 1]), np.array([5, 3]), np.array([1, 2])) == [0, 1]
