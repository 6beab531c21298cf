"""Which prover a map space needs: the one for three levels where it can, else the one for any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costmodel.costs import Objective
from costmodel.exact import problem
from costmodel.exact import prover as three_levels
from costmodel.exact.face import AnyProof
from costmodel.exact_any import prover as any_levels
from costmodel.exact_any.problem import why_not_any
from costmodel.loop_nest.map_space import MapSpace
from mapspace.errors import ConfigError


def why_not(space: MapSpace) -> str | None:
    """Why no proof is possible of a map space, in one line; None if one is."""
    return None if problem.why_not(space) is None else why_not_any(space)


def is_older(space: MapSpace) -> bool:
    """Whether a map space is one that the prover for three levels treats."""
    return problem.why_not(space) is None


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
        ConfigError: no proof is possible, or not of several mappings.
    """
    if is_older(space):
        return three_levels.Prover(
            space, objective=objective, keep=keep, top=top, threads=threads, build=build
        )
    if top != 1:
        raise ConfigError(
            f"top: the exact search on {space.accelerator.name} finds one mapping, got {top}."
        )
    return any_levels.AnyProver(space, objective=objective, keep=keep, build=build)
