"""Which prover a map space needs: the one for three levels where it can, else the one for any.

Where factors are imperfect there is one that bounds only; its bounds hold of perfect factors, too,
and are taken where a map space is too large for a proof. What is the same for all comes from here:
why there is no proof, loading, a prover, a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from costmodel.costs import Objective
from costmodel.exact import certificate, loading, problem, verification
from costmodel.exact import prover as three_levels
from costmodel.exact.face import AnyProof
from costmodel.exact_any import prover as any_levels
from costmodel.exact_any.imperfect_prover import ImperfectProver, why_not_imperfect
from costmodel.exact_any.problem import why_not_any, why_too_large
from costmodel.loop_nest.records import record_code
from costmodel.map_space.map_space import MapSpace


def why_not(space: MapSpace) -> str | None:
    """Why neither proof nor bound is possible of a map space, in one line; None if one is."""
    return why_not_imperfect(space) if is_bounded_only(space) else why_not_proven(space)


def why_not_proven(space: MapSpace) -> str | None:
    """Why no proof is possible that finds the optimum by itself, in one line; None if one is."""
    return None if problem.why_not(space) is None else why_not_any(space)


def is_older(space: MapSpace) -> bool:
    """Whether a map space is one that the prover for three levels treats."""
    return problem.why_not(space) is None


def is_bounded_only(space: MapSpace) -> bool:
    """Whether there is a bound and no proof: with imperfect factors, or what is too large."""
    if is_older(space):
        return False
    return bool(space.tables.imperfect) or why_too_large(space) is not None


def load_prover(space: MapSpace) -> None:
    """Compiles the proof that a map space needs, or loads it compiled."""
    if is_older(space):
        loading.load_compiled()
    elif not is_bounded_only(space):
        any_levels.load_compiled()


def functions_of_proof(space: MapSpace) -> int:
    """How many functions that compiles, about."""
    return loading.FUNCTIONS if is_older(space) else any_levels.FUNCTIONS


def make_prover(
    space: MapSpace,
    *,
    objective: Objective = "edp",
    keep: Mapping[str, Sequence[str]] | None = None,
    top: int = 1,
    threads: int | None = None,
    build: bool = True,
) -> AnyProof:
    """The prover of a map space, with the arguments of `costmodel.exact.prover.Prover`.

    Raises:
        ConfigError: no proof is possible.
    """
    if is_older(space):
        return three_levels.Prover(
            space, objective=objective, keep=keep, top=top, threads=threads, build=build
        )
    if is_bounded_only(space):
        return ImperfectProver(space, objective=objective, keep=keep, top=top, build=build)
    return any_levels.AnyProver(space, objective=objective, keep=keep, top=top, build=build)


def prove(
    space: MapSpace,
    *,
    objective: Objective = "edp",
    seconds: float | None = None,
    threads: int | None = None,
    after_step: Callable[[AnyProof], None] | None = None,
    earlier: certificate.Certificate | None = None,
) -> certificate.Certificate:
    """Proves the best mapping of a map space, as `costmodel.exact.certificate.prove` does.

    Args:
        space: a map space.
        objective: what to minimise.
        seconds: stop after so long, what an earlier proof took included.
        threads: how many work at a time.
        after_step: called after every step.
        earlier: the certificate of an unfinished proof of this space and objective, from which
            this one goes on; from one that contradicts itself it does not.

    Raises:
        ConfigError: the space cannot be treated, or it has no feasible mapping.
        DataError: the time was too short for the tables, or to find any mapping.
    """
    prover = make_prover(space, objective=objective, threads=threads, build=False)
    if earlier is not None and verification.why_not_continued(earlier, prover) is None:
        prover.offer(record_code(space, earlier.record)[None])
        if earlier.earlier is not None:
            prover.resume(earlier.earlier)
            if seconds is not None:
                seconds = max(0.0, seconds - earlier.seconds)
    if not is_older(space):
        # So that there is a mapping, however few of those at random fit.
        first = space.sample(np.random.default_rng(0), certificate.FIRST_MAPPINGS, feasible=True)
        prover.offer(first)
    return certificate.prove(
        space, objective=objective, seconds=seconds, after_step=after_step, prover=prover
    )
