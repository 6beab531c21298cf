"""Proofs that nobody asks any more let go of their tables at once, before garbage is collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.tables import ChainTables
from mapspace.errors import ContractError
from searchers import make
from searchers.exact import Exact

Made = list[weakref.ref[ChainTables]]


def _space(layer: str) -> MapSpace:
    return MapSpace(workload(layer), accelerator("register256"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """All tables that are made, while no garbage is collected."""
    found: Made = []
    honest = ChainTables._make_room

    def make_room(self: ChainTables) -> None:
        found.append(weakref.ref(self))
        honest(self)

    monkeypatch.setattr(ChainTables, "_make_room", make_room)
    gc.disable()
    yield found
    gc.enable()


def test_a_finished_proof_is_gone_with_its_tables(made: Made) -> None:
    prover = AnyProver(_space("gemm:M=16,N=16,K=16"))
    prover.run()
    gone = weakref.ref(prover)
    del prover
    assert made
    assert not any(table() for table in made)
    assert gone() is None


def test_a_search_that_ends_early_frees_its_proof(made: Made) -> None:
    searcher = make("exact", _space("cnn:N=1,K=16,C=16,P=8,Q=8,R=3,S=3"), seed=0)
    assert isinstance(searcher, Exact)
    assert isinstance(searcher.prover, AnyProver)
    # In smaller steps than its own.
    while not any(table() for table in made):
        next(searcher.prover._work)
    del searcher
    assert not any(table() for table in made)


def test_a_closed_proof_takes_no_step() -> None:
    prover = AnyProver(_space("gemm:M=16,N=16,K=16"))
    prover.close()
    with pytest.raises(ContractError, match="nothing left"):
        prover.step()
    assert not prover.finished
