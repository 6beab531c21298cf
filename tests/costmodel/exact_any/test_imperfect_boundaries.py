"""Lemma 10: no mapping is below the bound of its spatial factors, or of any box around them."""

from __future__ import annotations

import pytest
from imperfect_boundaries import check_bounds


def test_no_mapping_is_below_a_bound() -> None:
    # The last two hold what last passes lose, and elements behind two fan-outs that are idle.
    for seed in (*range(20), 87, 286):
        check_bounds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", [20, *range(1000, 1500, 50)])
def test_no_mapping_of_many_more_problems_is_below_a_bound(first: int) -> None:
    for seed in range(first, first + 50):
        check_bounds(seed)
