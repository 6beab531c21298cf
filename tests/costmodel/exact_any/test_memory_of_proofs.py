"""What proofs hold: tables that nobody asks any more are gone, others take what they need."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.weights import weights
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


def test_hulls_of_one_point_leave_the_memory_of_the_others_alone() -> None:
    one = lay_out(0, _space("cnn:N=1,K=16,C=16,P=8,Q=8,R=3,S=3"), None)
    keeps = keep_choices(one.space)[-1]
    table = ChainTables(one.shape, one.lattice.tiles(keeps), keeps)
    chain, outermost = table.chain, int(table.tiles.start[1])
    for points in (chain.slot_u, chain.slot_c):
        points[:] = np.nan
    spatial = one.spreads.spatial(one.spreads.choices()[[0]])
    found = weights(one.space, keeps, spatial)
    for _ in table.fill(spatial[0], found.outer[0], found.weight[0]):
        pass
    for points in (chain.slot_u, chain.slot_c):
        assert np.isfinite(points[:, 0, :outermost]).any()
        assert np.isnan(points[:, 1:, :outermost]).all()
        assert np.isfinite(points[:, 1:, outermost:]).any()


def _extents(size: int) -> np.ndarray:
    return lay_out(0, _space(f"gemm:M={size},N=2,K=2"), None).lattice.extent


def test_extents_take_as_many_bits_as_the_largest_needs() -> None:
    assert _extents(2**31 - 1).dtype == np.int32
    assert _extents(2**31).dtype == np.int64
    for size in (2**31 - 1, 2**31, 2**32):
        assert _extents(size).max() == size


@pytest.mark.slow
def test_extents_of_64_bits_are_proven_with() -> None:
    # Compiles anew, for extents of 64 bits.
    space = _space(f"gemm:M={2**32},N=2,K=2")
    prover = AnyProver(space)
    prover.run()
    assert prover.finished
    best = LoopNestModel().evaluate(space, prover.codes(1)).objective("edp")[0]
    assert prover.value_of(prover.lower_outcome) * float(prover.unit_pj) == pytest.approx(best)
    assert not AnyProver(space).finds_below(_below(prover))


def _below(prover: AnyProver) -> tuple[float, float]:
    assert prover.best_outcome is not None
    energy, cycles = prover.best_outcome
    return float(energy * prover.unit_pj) * (1 - 1e-9), float(cycles)
