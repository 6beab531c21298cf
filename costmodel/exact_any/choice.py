"""Proofs of map spaces: why there is none, loading, a prover, a proof.

Where factors are imperfect a prover bounds only; its bounds hold of perfect factors, too, and are
taken where a map space is too large for a proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.certificate import Certificate, certify
from costmodel.exact.face import AnyProof
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact.verification import why_not_continued
from costmodel.exact_any.imperfect_prover import ImperfectProver, why_not_imperfect
from costmodel.exact_any.problem import why_not_any as why_not_proven
from costmodel.exact_any.problem import why_too_large
from costmodel.exact_any.prover import FUNCTIONS, AnyProver, load_compiled
from costmodel.loop_nest.records import record_code
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, DataError

__all__ = [
    "FUNCTIONS",
    "is_bounded_only",
    "load_compiled",
    "load_prover",
    "make_prover",
    "prove",
    "why_not",
    "why_not_proven",
]

FIRST_MAPPINGS = 256
"""A proof starts from the best of so many random mappings."""


def why_not(space: MapSpace) -> str | None:
    """Why neither proof nor bound is possible of a map space, in one line; None if one is."""
    return why_not_imperfect(space) if is_bounded_only(space) else why_not_proven(space)


def is_bounded_only(space: MapSpace) -> bool:
    """Whether there is a bound and no proof: with imperfect factors, or what is too large."""
    return bool(space.tables.imperfect) or why_too_large(space) is not None


def load_prover(space: MapSpace) -> None:
    """Compiles the proof that a map space needs, if any, or loads it compiled."""
    if not is_bounded_only(space):
        load_compiled()


def make_prover(
    space: MapSpace,
    *,
    objective: Objective = "edp",
    keep: Mapping[str, Sequence[str]] | None = None,
    top: int = 1,
    build: bool = True,
) -> AnyProof:
    """The prover of a map space, with the arguments of `AnyProver`.

    Raises:
        ConfigError: no proof is possible.
    """
    if is_bounded_only(space):
        return ImperfectProver(space, objective=objective, keep=keep, top=top, build=build)
    return AnyProver(space, objective=objective, keep=keep, top=top, build=build)


def prove(
    space: MapSpace,
    *,
    objective: Objective = "edp",
    seconds: float | None = None,
    gap: float = 0.0,
    after_step: Callable[[AnyProof], None] | None = None,
    earlier: Certificate | None = None,
) -> Certificate:
    """Proves the best mapping of a map space, or gets as far as the time allows.

    Args:
        space: a map space that `why_not` has nothing against.
        objective: what to minimise.
        seconds: stop after so long, what an earlier proof took included; None: when it is proven.
        gap: stop when the mapping is certainly within this share of the optimum.
        after_step: called after every step, some 20 times a second.
        earlier: the certificate of an unfinished proof of this space and objective, from which
            this one goes on; from one that contradicts itself it does not.

    Returns:
        The certificate; `proven` says whether it is an optimum.

    Raises:
        ConfigError: the space cannot be treated, or it has no feasible mapping.
        DataError: the time was too short for the tables, or to find any mapping.
    """
    started = time.perf_counter()
    if (why := why_infeasible(space)) is not None:
        raise ConfigError(why)
    prover = make_prover(space, objective=objective, build=False)
    if earlier is not None and why_not_continued(earlier, prover) is None:
        prover.offer(record_code(space, earlier.record)[None])
        if earlier.earlier is not None:
            prover.resume(earlier.earlier)
            if seconds is not None:
                seconds = max(0.0, seconds - earlier.seconds)
    # So that there is a mapping, however short the time is, and few of those at random fit.
    first = space.sample(np.random.default_rng(0), FIRST_MAPPINGS, feasible=True)
    prover.offer(first)
    prover.run(seconds, gap=gap, after_step=after_step)
    if not prover.built:
        raise DataError(
            f"The proof of {space.workload.name} on {space.accelerator.name} needs more than "
            f"{seconds:g} s for its tables alone."
        )
    if prover.best_outcome is None and prover.finished:
        raise ConfigError(
            f"No mapping of {space.workload.name} on {space.accelerator.name} is feasible."
        )
    if prover.best_outcome is None:
        raise DataError(f"No mapping of {space.workload.name} was found in {seconds:g} s.")
    return certify(prover, time.perf_counter() - started)
