"""How far a proof has come: what an unfinished certificate holds so that another proof goes on.

What is settled is believed, not proven again: a file that says too much is a proof that says too
much. `costmodel.exact.verification` looks at nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from costmodel.problems.affine import LARGEST_COUNT
from mapspace.errors import ConfigError
from mapspace.strict_yaml import NonNegativeNumber, StrictModel

MOST_LISTED = 200_000
"""Entries of a list beyond which a certificate would be a file of many megabytes."""


def _below_limit(digits: str) -> str:
    if int(digits) >= LARGEST_COUNT:
        raise ValueError(f"expected a whole number below 2^62, got {digits}.")
    return digits


WholeNumber = Annotated[
    str, Field(strict=True, pattern=r"^[0-9]{1,19}$"), AfterValidator(_below_limit)
]
"""Energies of the prover are below 2^62."""

Count = Annotated[int, Field(strict=True, ge=0, lt=LARGEST_COUNT)]

Place = Annotated[int, Field(strict=True, ge=-1, lt=LARGEST_COUNT)]
"""A position; -1: none."""


MOST_TOP = 1000
"""More of the best tilings than this take long to keep in order."""

Coded = Annotated[tuple[Count, ...], Field(max_length=400)]


class BestTilings(StrictModel):
    """What a proof of more than the best mapping has found so far."""

    top: Annotated[int, Field(strict=True, ge=2, le=MOST_TOP)]
    """How many it is to find."""
    found: Annotated[tuple[Coded, ...], Field(max_length=MOST_TOP)]
    """Those it has, as numbers of the prover: what is settled holds none that is better."""


class ThreeLevelProgress(StrictModel):
    """How far a proof for three levels had come, in certificates of former releases.

    None goes on from it: a proof goes on from such a certificate's mapping alone.
    """

    best: BestTilings | None = None
    """The best tilings where more than one is asked for; else left out."""
    prover: Literal["three-levels-1", "three-levels-2"]
    """Names the prover and how it numbers its pieces; where hops cost energy, the second."""
    rounds: Count
    """Rounds begun."""
    lower_energy: WholeNumber
    """With lower_cycles: the rounds before are through; nothing is below this."""
    lower_cycles: Count
    """See lower_energy."""
    limit_energy: WholeNumber
    """With limit_cycles: this round looks below that."""
    limit_cycles: Count
    """See limit_energy."""
    units: Count
    """Pieces that there are."""
    next_unit: Count
    """Those before it hold nothing below the limit."""
    blocks: Annotated[tuple[tuple[Count, Count, Count], ...], Field(max_length=64)] = ()
    """Blocks in work: the piece, the arrangement of it, and past the block's last piece."""


Bounded = tuple[Count, NonNegativeNumber, Count, Place, Place, NonNegativeNumber, Count]
"""An assignment, energy (pJ) and cycles that it needs, the slowest port and its cycles, the rate at
which both were added, and the number of chains that have bounded it."""


class GroupProgress(StrictModel):
    """The assignments with the same kept tensors in one order of buffers."""

    order: Count
    """Which order of buffers side by side."""
    keeps: Annotated[tuple[Count, ...], Field(max_length=64)]
    """The tensors that every level keeps, as bits."""
    assignments: Count
    """How many there are."""
    settled: Annotated[tuple[tuple[Count, Count], ...], Field(max_length=MOST_LISTED)]
    """Those from one up to before another hold nothing better than the mapping."""
    bounded: Annotated[tuple[Bounded, ...], Field(max_length=MOST_LISTED)]
    """Those that chains have bounded, and which are still to be searched."""
    begun: Annotated[tuple[Bounded, ...], Field(max_length=MOST_LISTED)] = ()
    """Those that some of the chains have bounded."""


class SearchProgress(StrictModel):
    """The search of an assignment: per depth, from the MACs outwards, where it is."""

    group: Count
    """The entry of `groups`."""
    assignment: Count
    """Which."""
    trail: Annotated[
        tuple[tuple[Place, Annotated[tuple[Count, ...], Field(max_length=MOST_LISTED)]], ...],
        Field(max_length=64),
    ]
    """The tile in work, and those that are through."""


Tiles = Annotated[tuple[Count, ...], Field(max_length=MOST_LISTED)]


class ShareProgress(StrictModel):
    """A share that is left of an assignment's search, which several workers had."""

    group: Count
    """The entry of `groups`."""
    assignment: Count
    """Which; of one that is named by any share nothing else is left."""
    energy: NonNegativeNumber
    """What its mappings need, pJ."""
    path: Annotated[tuple[Count, ...], Field(max_length=64)]
    """The tiles that they begin with, from the MACs outwards."""
    tiles: Tiles | None
    """The tiles that may follow; null: all."""


class AnyLevelsProgress(StrictModel):
    """How far the proof on any hierarchy has come."""

    best: BestTilings | None = None
    """The best tilings where more than one is asked for; else left out."""
    prover: Literal["any-levels-1", "any-levels-2"]
    """Names the prover and how it numbers assignments and tiles."""
    groups: Annotated[tuple[GroupProgress, ...], Field(max_length=MOST_LISTED)]
    """Those of which any assignment was taken up."""
    searches: Annotated[tuple[SearchProgress, ...], Field(max_length=MOST_LISTED)] = ()
    """Assignments whose tilings are searched in part."""
    shares: Annotated[tuple[ShareProgress, ...], Field(max_length=MOST_LISTED)] = ()
    """What is left of others, where a proof was shared out; left out where nothing."""
    ties: bool = Field(default=False, strict=True)
    """Whether what is settled holds nothing either that wins a tie with the mapping."""


Progress = Annotated[ThreeLevelProgress | AnyLevelsProgress, Field(discriminator="prover")]


class Earlier(NamedTuple):
    """What a proof goes on from.

    progress: what is settled; bound: energy in units and cycles that no mapping is below; counts
    and seconds of the proofs before.
    """

    progress: AnyLevelsProgress
    bound: tuple[int, int]
    counts: Mapping[str, int]
    seconds: float

    def best(self, top: int) -> tuple[tuple[int, ...], ...]:
        """The best tilings found so far, as numbers of the prover.

        Args:
            top: how many the proof that goes on is to find.

        Raises:
            ConfigError: the proof before was to find more or fewer.
        """
        held = self.progress.best
        its = 1 if held is None else held.top
        if its != top:
            raise ConfigError(f"continue: the proof began with top {its}, got top {top}.")
        return () if held is None else held.found
