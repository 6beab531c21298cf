"""Compiles the proof, or loads it compiled, before anybody's clock runs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from costmodel.exact.branch_and_bound import prove_units
from costmodel.exact.dram_bounds import empty_outer_tables
from costmodel.exact.objective import EDP
from costmodel.exact.problem import build_proof_tables
from costmodel.exact.prover import Prover
from costmodel.exact.spatial_factors import list_vectors
from costmodel.exact.structures import Problem
from costmodel.exact.workspace import make_work, nothing_found
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workload_families import cnn

FUNCTIONS = 149
"""How many `load_compiled` compiles where nothing is compiled yet and nobody else compiles."""


@lru_cache(maxsize=1)
def load_compiled() -> None:
    """Compiles the proof, or loads it compiled, by proving something trivial."""
    prover = Prover(_trivial(), threads=1)
    while not prover.finished:
        prover.step()
    prover.outcomes(prover.codes())


def compile_search() -> None:
    """Compiles the largest of the proof's functions, without the others."""
    tables, _ = build_proof_tables(_trivial())
    problem = Problem(tables, empty_outer_tables(tables), list_vectors(tables))
    found = nothing_found(EDP, tables.sizes.size, 1)
    none = np.zeros(0, np.int64)
    prove_units(problem, none, none, 0, 0, found, make_work(tables))


def compile_tables() -> None:
    """Compiles the others."""
    space = _trivial()
    Prover(space, threads=1).outcomes(space.sample(np.random.default_rng(0), 1))


def _trivial() -> MapSpace:
    # With windows that slide, which call more of the proof than a matrix product.
    return MapSpace(cnn(N=1, K=2, C=2, P=2, Q=1, R=2, S=1), accelerator("mm256"))
