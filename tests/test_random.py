"""Random search: uniform over the feasible mappings, in large batches."""

from __future__ import annotations

import numpy as np
from toy_space import ToySpace

from searchers import make
from searchers.base import LARGEST_BATCH


def test_batches_are_as_large_as_asked_up_to_a_limit() -> None:
    searcher = make("random", ToySpace(), seed=0)
    assert len(searcher.ask(10)) == 10
    searcher.tell(np.ones(10))
    assert len(searcher.ask(10**9)) == LARGEST_BATCH


def test_it_learns_nothing() -> None:
    left, right = (make("random", ToySpace(), seed=5) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(left.ask(50), right.ask(50))
        left.tell(np.zeros(50))
        right.tell(np.arange(50.0))


def test_samples_cover_the_feasible_space_evenly() -> None:
    """Chi-squared over the first two attributes, whose sum is bounded."""
    searcher = make("random", ToySpace(), seed=1)
    codes = searcher.ask(LARGEST_BATCH)
    counts = np.zeros((9, 9))
    np.add.at(counts, (codes[:, 0], codes[:, 1]), 1)
    feasible = np.add.outer(np.arange(9), np.arange(9)) <= 11
    assert counts[~feasible].sum() == 0
    expected = LARGEST_BATCH / feasible.sum()
    statistic = ((counts[feasible] - expected) ** 2 / expected).sum()
    # 66 cells: 65 degrees of freedom, mean 65, standard deviation 11.4.
    assert 20 < statistic < 110
