"""Proves again what a certificate claims."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from mapspace.errors import ArgumentError, ConfigError
from orchestrator.report.shown import Fact, Shown
from orchestrator.schemas.proofs import VerifyAnswer

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.verification import Verdict
    from costmodel.independent.check import SecondLook
    from mapspace.strict_yaml import StrictModel
    from orchestrator.proofs.pareto import Front


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What came of proving a certificate again.

    Attributes:
        certificate: what was proven again, or the front.
        verdict: what the prover that makes certificates says.
        independent: what came of looking without the prover; None where nobody did.
    """

    certificate: StrictModel | Front
    verdict: Verdict
    independent: SecondLook | None = None

    @property
    def holds(self) -> bool:
        """Whether every claim that was checked is true."""
        return self.verdict.holds and (self.independent is None or self.independent.holds)

    @property
    def complete(self) -> bool:
        """Whether the time sufficed: the bound was proven again, or one of the claims refuted."""
        look = self.independent
        if look is None or not self.holds:
            return self.verdict.complete or not self.holds
        return look.complete or (self.verdict.complete and not look.cut)

    @property
    def findings(self) -> tuple[str, ...]:
        """One line per claim: what was checked and what came."""
        look = self.independent
        return self.verdict.findings + (() if look is None else look.findings)

    @property
    def not_verified(self) -> tuple[str, ...]:
        """One line per thing that the certificate says and nothing checked."""
        look = self.independent
        left = () if look is None or look.not_shown is None else (look.not_shown,)
        return self.verdict.not_verified + left

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.verdict.seconds + (
            0.0 if self.independent is None else self.independent.seconds
        )

    def to_dict(self) -> VerifyAnswer:
        """What `mapspace verify --json` prints."""
        look = self.independent
        return {
            "holds": self.holds,
            "findings": list(self.findings),
            "not_verified": list(self.not_verified),
            "problem_hash": self.verdict.problem_hash,
            "keep": self.verdict.keep,
            "seconds": self.seconds,
            "complete": self.complete,
            "independent": None
            if look is None
            else {"holds": look.holds, "complete": look.complete, "mappings": look.mappings},
        }

    def heading(self) -> str:
        """Whether the certificate holds."""
        if not self.complete:
            return f"the certificate is not proven again: the time ended ({self.seconds:.2f} s)"
        verb = "holds" if self.holds else "does not hold"
        return f"the certificate {verb} ({self.seconds:.2f} s)"

    def facts(self) -> Iterable[Fact]:
        """What was checked, and what was not."""
        yield from (("checked", finding) for finding in self.findings)
        yield from (("not verified", line) for line in self.not_verified)


def verification_text(result: Verification) -> str:
    """What came of proving a certificate again, for people."""
    lines = [f"  {finding}" for finding in result.findings]
    lines += [f"  not verified: {line}" for line in result.not_verified]
    return "\n".join([*lines, result.heading()])


def verify_file(
    path: Path, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves the claims of a certificate's file again.

    Args:
        path: the certificate.
        independent: see `verify_certificate`.
        seconds: likewise.

    Raises:
        ConfigError: the file is none, is no certificate, or its problem cannot be treated here.
    """
    from costmodel.exact.certificate import read_certificate

    certificate = read_certificate(path)
    try:
        return verify_certificate(certificate, independent=independent, seconds=seconds)
    except ArgumentError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def verify_certificate(
    certificate: Certificate, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves a certificate's claims again, with the prover that makes certificates.

    Args:
        certificate: what to prove again.
        independent: also look without the prover: at every mapping of a small space, else at the
            certificate's own and at a sample.
        seconds: the most that it may take, of which the prover has half where something looks
            without it; None: however long it takes.

    Raises:
        ConfigError: its problem cannot be treated here.
    """
    from costmodel.exact.verification import verify
    from costmodel.exact_any.choice import make_prover

    if seconds is not None and not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    most = None if seconds == math.inf else seconds
    try:
        if most is not None:
            _load(certificate)
        prover_has = most / 2 if independent and most else most
        verdict = verify(certificate, make_prover, seconds=prover_has)
        look = None
        # Without a problem there is nothing to look at.
        if independent and verdict.problem_hash is not None:
            look = _look_again(certificate, most and max(0.0, most - verdict.seconds))
        return Verification(certificate, verdict, look)
    except MemoryError:
        raise ConfigError(
            f"{certificate.workload.name} on {certificate.accelerator.name} needs more memory "
            "than there is here."
        ) from None


def _load(certificate: Certificate) -> None:
    """Compiles the prover that a certificate needs, or loads it compiled."""
    from costmodel.exact_any.choice import load_prover
    from costmodel.map_space.map_space import MapSpace

    load_prover(MapSpace(certificate.workload, certificate.machine))


def _look_again(certificate: Certificate, seconds: float | None) -> SecondLook:
    """What the second program says of a certificate.

    Energies of proofs are sums in floating point, which exact ones are within 1e-11 of; those of
    the first formats are exact. Of buffers side by side the order of the mapping is looked at.
    """
    from costmodel.exact.certificate import FORMAT, ORDERS_FORMAT
    from costmodel.independent.check import Claim, look_again
    from costmodel.independent.counting import why_not_counted
    from costmodel.loop_nest.records import record_code
    from costmodel.map_space.map_space import MapSpace

    why = why_not_counted(certificate.workload, certificate.machine)
    if why is not None:
        raise ConfigError(f"independent: {why}, which the second program does not count.")
    rounded = certificate.format in (FORMAT, ORDERS_FORMAT)
    space = MapSpace(certificate.workload, certificate.machine)
    one, code = space.in_order(record_code(space, certificate.record))
    unit = Fraction(certificate.unit_pj)
    claim = Claim(
        certificate.workload,
        one.accelerator,
        certificate.keep,
        certificate.objective,
        one.describe(code),
        (int(certificate.energy_units) * unit, certificate.latency_cycles),
        (int(certificate.bound_energy_units) * unit, certificate.bound_cycles),
        ties=bool(certificate.tie_proven),
        tolerance=Fraction(1, 10**11) if rounded else Fraction(0),
    )
    look = look_again(claim, seconds=seconds)
    if certificate.format != ORDERS_FORMAT:
        return look
    left = "independently, that none of the other orders of buffers side by side is better"
    shown = left if look.not_shown is None else f"{look.not_shown}; {left}"
    return replace(look, complete=False, not_shown=shown)
