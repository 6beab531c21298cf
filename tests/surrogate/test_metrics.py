"""Figures of a surrogate: errors and ranks, by hand and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mapspace.errors import ContractError
from surrogate.metrics import figures, ranks, spearman


def test_figures_by_hand() -> None:
    problems = np.array([[1, 2]] * 4 + [[3, 4]] * 4)
    truth = np.array([1.0, 2, 3, 4, 1, 2, 3, 4])
    perfect = figures(problems, truth, truth)
    assert perfect.rmse == 0.0
    assert perfect.spearman == pytest.approx(1.0)
    assert perfect.spearman_worst == pytest.approx(1.0)
    shifted = truth.copy()
    shifted[4:] = [2, 1, 4, 3]
    found = figures(problems, truth, shifted)
    assert found.rmse == pytest.approx(np.sqrt(0.5))
    assert found.spearman_worst == pytest.approx(1 - 6 * 4 / (4 * 15))
    assert found.spearman == pytest.approx((1 + 0.6) / 2)
    assert found.worst_problem == (3, 4)
    assert (found.problems, found.rows) == (2, 8)


def test_figures_of_the_best_tenth() -> None:
    truth = np.arange(40.0)
    predicted = truth.copy()
    predicted[:4] = truth[:4][::-1]
    found = figures(np.ones((40, 1)), truth, predicted)
    assert found.spearman_best_tenth == pytest.approx(-1.0)
    assert found.spearman > 0.99


def test_rank_correlation_with_ties_and_constants() -> None:
    # Ranks 1.5 1.5 3 against 1 2 3.
    assert spearman(np.array([5.0, 5, 9]), np.array([1.0, 2, 3])) == pytest.approx(np.sqrt(0.75))
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))
    assert spearman(np.arange(3.0), np.ones(3)) == 0.0
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 100):
        values = rng.integers(0, 1 + size // 2, size).astype(float)
        np.testing.assert_array_equal(ranks(values), stats.rankdata(values))
    assert np.isnan(ranks(np.array([1.0, np.nan, 2.0]))).all()
    with pytest.raises(ContractError, match="nothing to rank"):
        figures(np.ones((3, 1)), np.ones(3), np.arange(3.0))
    with pytest.raises(ContractError, match="Expected problems"):
        figures(np.ones((3, 1)), np.ones(2), np.ones(2))
