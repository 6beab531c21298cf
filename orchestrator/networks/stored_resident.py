"""What stays on the chip, as the store keeps it: a certificate, and what that is held against."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from mapspace.errors import DataError
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.networks.resident_certificate import ran_as
from orchestrator.networks.resident_result import Beside, ResidentOptimum
from orchestrator.networks.runs_of_steps import CascadeRow
from orchestrator.store.rows import Number, Whole

if TYPE_CHECKING:
    from orchestrator.networks.operators import Operators
    from orchestrator.networks.stored_networks import AskedNetwork, Kept
    from orchestrator.store.rows import Row

Exact = Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,400}(/[1-9][0-9]{0,399})?$")]
"""A fraction; products of sums have more digits than a certificate's."""

Sums = tuple[Exact, Whole]


class _BesideOf(StrictModel):
    """What was found where less is allowed."""

    value: Exact
    gap: Number
    seconds: Number

    def back(self) -> Beside:
        return Beside(Fraction(self.value), self.gap, self.seconds)


class _CascadeOf(StrictModel):
    """What fusing is worth for some layers in a row."""

    layers: tuple[str, ...]
    chosen: Annotated[bool, Field(strict=True)]
    outer: tuple[tuple[str, Whole], ...]
    kept: tuple[str, ...]
    words: Whole
    fused: Sums
    staying: Sums
    alone: Sums
    passes: Whole
    overlaps: Annotated[bool, Field(strict=True)]

    def back(self) -> CascadeRow:
        ways = {
            name: (Fraction(energy), cycles)
            for name, (energy, cycles) in (
                ("fused", self.fused), ("staying", self.staying), ("alone", self.alone)
            )
        }  # fmt: skip
        return CascadeRow(**{**self.model_dump(), **ways})


class _Kept(StrictModel):
    """What a row has beside the certificate."""

    alone: _BesideOf | None
    staying: _BesideOf | None
    proofs: Whole
    cascades: tuple[_CascadeOf, ...]

    def is_within(self, gap: float, *, fused: bool) -> bool:
        """Whether more time would add nothing, by the gap that is enough."""
        parts = (self.alone, self.staying) if fused else (self.alone,)
        return all(part is not None and part.gap <= gap for part in parts)


def read_resident(asked: AskedNetwork, operators: Operators) -> ResidentOptimum | None:
    """The answer that the store has; None where it has none that will do, or nothing is asked.

    Args:
        asked: what is asked.
        operators: what only moves words.
    """

    def make(row: Row, beside: Kept) -> ResidentOptimum:
        kept, certificate = _kept(beside), asked.of_resident(row)
        return ResidentOptimum(
            asked.name,
            asked.machine,
            certificate,
            operators,
            False,
            asked.where(row),
            tuple(ran_as(certificate)),
            None if kept.alone is None else kept.alone.back(),
            kept.proofs,
            None if kept.staying is None else kept.staying.back(),
            tuple(one.back() for one in kept.cascades),
        )

    gap, fused = asked.request.gap, asked.request.fused
    return asked.read(make, lambda beside: _kept(beside).is_within(gap, fused=fused))


def keep_resident(asked: AskedNetwork, result: ResidentOptimum) -> None:
    """Keeps an answer, unless it was cut off before all of it was settled."""
    kept = _Kept(
        alone=_beside_of(result.alone),
        staying=_beside_of(result.staying),
        proofs=result.proofs,
        cascades=tuple(
            _CascadeOf(
                **{
                    **one._asdict(),
                    **{
                        name: (str(sums[0]), sums[1])
                        for name, sums in one._asdict().items()
                        if name in ("fused", "staying", "alone")
                    },
                }
            )
            for one in result.cascades
        ),
    )
    gap, fused = asked.request.gap, asked.request.fused
    within = result.gap <= gap and kept.is_within(gap, fused=fused)
    asked.keep(
        result.certificate,
        result.seconds,
        kept.model_dump(mode="json"),
        settled=within or not result.interrupted,
    )


def _kept(beside: Kept) -> _Kept:
    return validate(_Kept, beside, "beside", DataError)


def _beside_of(found: Beside | None) -> _BesideOf | None:
    if found is None:
        return None
    return _BesideOf(value=str(found.value), gap=found.gap, seconds=found.seconds)
