"""Proofs for any depth answer what they did, with as many chains, tiles, tilings and orders."""

from __future__ import annotations

import json

import pytest
from pinned import hierarchies, hierarchy, read

PINNED = {json.dumps(case): found for case, found in read("hierarchies")}


def test_all_are_pinned() -> None:
    assert list(PINNED) == [json.dumps(case) for case in hierarchies()]


@pytest.mark.parametrize("case", PINNED)
def test_a_proof_takes_what_it_took(case: str) -> None:
    """A bound that still holds but cuts less is noticed."""
    assert hierarchy(json.loads(case)) == PINNED[case]
