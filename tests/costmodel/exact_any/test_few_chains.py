"""Where there are few rows of sets that share tables, each is divided among several pieces."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
import test_shared_proofs
from test_shared_proofs import LARGE, SEVERAL, SMALL, check

from costmodel.exact_any import shared_prover
from costmodel.exact_any.shared_prover import Set, SharedProver

ADD_ROW = SharedProver._add_row


def chains(few: int, patch: pytest.MonkeyPatch) -> int:
    """How many pieces of chains some proofs have that are held against all mappings."""
    more = [(shared_prover, "FEW_CHAINS", few), (shared_prover, "MOST_TILES", sys.maxsize)]
    patch.setattr(test_shared_proofs, "SMALL", SMALL + LARGE + more)
    return sum(check(seed, 2000, patch)["chains"] for seed in SEVERAL)


def test_few_rows_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chains(1, monkeypatch) < chains(16, monkeypatch)


def but_the_first(self: SharedProver, sets: Sequence[Set], few: int) -> None:
    """Of a row that is divided the first set has no piece."""
    ADD_ROW(self, sets[1:] if few > 1 and len(sets) > 1 else sets, few)


def test_a_set_that_no_piece_has_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedProver, "_add_row", but_the_first)
    with pytest.raises(AssertionError):
        chains(16, monkeypatch)
