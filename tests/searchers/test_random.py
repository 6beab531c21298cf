"""Random search: uniform over the feasible mappings, in large batches."""

from __future__ import annotations

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToySpace
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


def test_patience_ends_after_so_many_consecutive_suboptimal_mappings() -> None:
    """Counted one by one, whatever the batches are; an improvement starts the count anew."""
    whole = make("random", ToySpace(), seed=3, patience=10)
    asked = 0
    # Rows that improve: 0, 7 and 17; row 12 only equals the best.
    losses = np.full(100, 9.0)
    losses[[0, 7, 12, 17]] = [5.0, 4.0, 4.0, 3.0]
    for n in (4, 1, 100, 3, 100, 100, 100, 100):
        codes = whole.ask(n)
        whole.tell(losses[asked : asked + len(codes)])
        asked += len(codes)
    assert asked == 17 + 1 + 10
    assert len(whole.ask(100)) == 0


def test_patience_only_ends_the_run() -> None:
    """What is proposed until then is what random search proposes anyway, batch by batch."""
    patient, endless = (make("random", ToySpace(), seed=4, patience=p) for p in (50, None))
    for _ in range(4):
        codes = patient.ask(10)
        np.testing.assert_array_equal(codes, endless.ask(10))
        patient.tell(np.ones(10))
        endless.tell(np.ones(10))
    assert [len(patient.ask(10)), len(endless.ask(10))] == [10, 10]


@pytest.mark.parametrize("patience", [0, -1])
def test_patience_must_be_positive(patience: int) -> None:
    with pytest.raises(ConfigError, match=f"patience: expected at least .*, got {patience}"):
        make("random", ToySpace(), seed=0, patience=patience)
