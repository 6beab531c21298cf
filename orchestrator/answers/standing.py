"""What is certain about a mapping, and how far its proof came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate


@dataclass(frozen=True)
class Standing:
    """What is certain about a mapping, among all mappings or among those of a restriction.

    Attributes:
        proven: whether none is better.
        tie_proven: whether none of an equal objective is better in what breaks ties.
        lower_bound: what the objective of none is below, in pJ and cycles.
        gap: how far the mapping can be above the best one, as a share.
    """

    proven: bool
    tie_proven: bool
    lower_bound: float
    gap: float


@dataclass(frozen=True)
class Proof:
    """How far a proof came.

    Attributes:
        finished: whether the optimum is known.
        bounds: how many bounds were computed.
        certificate: what it proves of the mapping, and all that is needed to prove it again.
    """

    finished: bool
    bounds: int
    certificate: Certificate
