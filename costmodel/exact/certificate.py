"""Certificates: a mapping, what no mapping undercuts, and all that is needed to prove it again.

A certificate is one JSON file. It holds the whole problem, so that `verify` needs nothing else: it
evaluates the mapping anew and searches everything below the bound anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, NonNegativeInt

from costmodel.accelerator import Accelerator
from costmodel.affine import Workload
from costmodel.costs import Objective
from costmodel.errors import ConfigError, DataError
from costmodel.exact.objective import objective_kind, value
from costmodel.exact.prover import Prover
from costmodel.loading import Name, NonNegativeNumber, Size, StrictModel, validate
from costmodel.loopnest import LoopNestModel
from costmodel.mapspace import MapSpace
from costmodel.records import mapping_record, record_code
from costmodel.space import Codes

FORMAT = "mapspace-certificate-1"

# Mappings that a proof starts from, the best of so many random ones.
FIRST_MAPPINGS = 256

WholeNumber = Annotated[str, Field(pattern=r"^\d{1,40}$")]


class Certificate(StrictModel):
    """What a proof ends with, or has reached so far."""

    format: Literal["mapspace-certificate-1"]
    """Names this layout."""
    objective: Objective
    """What was minimised."""
    proven: bool
    """Whether the mapping is optimal; else the bound only says how far off it may be."""
    energy_units: WholeNumber
    """Energy of the mapping in units, as digits: it may exceed what JSON readers hold exactly."""
    unit_pj: str
    """One unit of energy, pJ, as a fraction such as 1/25."""
    latency_cycles: Size
    """Cycles of the mapping."""
    bound_energy_units: WholeNumber
    """With bound_cycles: no mapping's objective is below that of this energy and these cycles."""
    bound_cycles: NonNegativeInt
    """See bound_energy_units."""
    gap: NonNegativeNumber
    """How far the mapping can be above the optimum, as a share."""
    keep: dict[Name, tuple[Name, ...]] | None = None
    """Tensors kept per level, where that was fixed beforehand."""
    counts: dict[Name, int]
    """Tiles, tilings and subtrees bounded, and loop orders evaluated."""
    rounds: int
    """Targets that were searched one after another."""
    seconds: NonNegativeNumber
    """How long the proof took."""
    model: Name
    """The cost model."""
    model_version: Name
    """Its version."""
    workload: Workload
    """The operation."""
    workload_hash: Name
    """Of its content."""
    accelerator: Accelerator
    """The machine."""
    accelerator_hash: Name
    """Of its content."""
    record: dict[str, Any] = Field(repr=False)
    """The mapping, as a mapping record."""

    @property
    def energy_pj(self) -> float:
        """Energy of the mapping, pJ."""
        return float(int(self.energy_units) * Fraction(self.unit_pj))

    @property
    def value(self) -> float:
        """The mapping's objective, in pJ and cycles."""
        return self._objective(int(self.energy_units), self.latency_cycles)

    @property
    def lower_bound(self) -> float:
        """What no mapping's objective undercuts, in pJ and cycles."""
        return self._objective(int(self.bound_energy_units), self.bound_cycles)

    def _objective(self, energy: int, cycles: int) -> float:
        unit = 1 if self.objective == "latency" else Fraction(self.unit_pj)
        return float(value(objective_kind(self.objective), energy, cycles) * unit)

    def write(self, path: Path) -> None:
        """Writes the certificate as JSON, whole or not at all."""
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(self.model_dump_json(indent=1) + "\n")
        temporary.replace(path)


def read_certificate(path: str | Path) -> Certificate:
    """Reads a certificate's file.

    Raises:
        ConfigError: there is none, or it is no certificate.
    """
    try:
        data = json.loads(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: expected a certificate as JSON: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigError(f"{path}: format: expected {FORMAT!r}; this is no certificate.")
    return validate(Certificate, data, str(path))


def certify(prover: Prover, seconds: float, code: Codes | None = None) -> Certificate:
    """The certificate of what a proof has reached.

    Args:
        prover: the proof.
        seconds: how long it took.
        code: `[D]` the mapping to certify; None: the best that the proof knows.

    Raises:
        DataError: the mapping is infeasible, or none has been found yet.
    """
    if code is None:
        if prover.best_outcome is None:
            raise DataError("There is no mapping to certify yet.")
        code = prover.codes()[0]
    outcome = prover.outcomes(code[None])[0]
    if outcome is None:
        raise DataError("An infeasible mapping cannot be certified.")
    bound = prover.lower_outcome
    reached, certain = prover.value_of(outcome), prover.value_of(bound)
    space, model = prover.space, LoopNestModel()
    return Certificate(
        format=FORMAT,
        objective=prover.objective,
        proven=reached == certain,
        energy_units=str(outcome[0]),
        unit_pj=str(prover.unit_pj),
        latency_cycles=outcome[1],
        bound_energy_units=str(bound[0]),
        bound_cycles=bound[1],
        gap=(reached - certain) / max(1, certain),
        keep=prover.keep,
        counts=prover.counts,
        rounds=prover.rounds,
        seconds=seconds,
        model=model.name,
        model_version=model.version,
        workload=space.workload,
        workload_hash=space.workload.hash,
        accelerator=space.accelerator,
        accelerator_hash=space.accelerator.hash,
        record=mapping_record(space, code),
    )


def prove(
    space: MapSpace,
    *,
    objective: Objective = "edp",
    seconds: float | None = None,
    gap: float = 0.0,
    threads: int | None = None,
    after_step: Callable[[Prover], None] | None = None,
) -> Certificate:
    """Proves the best mapping of a map space, or gets as far as the time allows.

    Args:
        space: a map space that `costmodel.exact.tables.why_not` has nothing against.
        objective: what to minimise.
        seconds: stop after so long; None: when it is proven.
        gap: stop when the mapping is certainly within this share of the optimum.
        threads: how many work at a time; None: one per processor, at most four.
        after_step: called after every step, some 20 times a second.

    Returns:
        The certificate; `proven` says whether it is an optimum.

    Raises:
        ConfigError: the space cannot be treated, or it has no feasible mapping.
        DataError: the time was too short to find any mapping; only where next to none is feasible.
    """
    started = time.perf_counter()
    prover = Prover(space, objective=objective, threads=threads)
    # So that there is a mapping, however short the time is.
    prover.offer(_some_mappings(space))
    while not prover.finished and not 0 < gap >= prover.gap:
        prover.step()
        if after_step is not None:
            after_step(prover)
        if seconds is not None and time.perf_counter() - started >= seconds:
            break
    return certify(prover, time.perf_counter() - started)


def _some_mappings(space: MapSpace) -> Codes:
    """`[0 .. 256, D]` feasible mappings at random."""
    draws = space.sample(np.random.default_rng(0), 64 * FIRST_MAPPINGS)
    return draws[space.feasible(draws)][:FIRST_MAPPINGS]


@dataclass(frozen=True)
class Verdict:
    """What came of proving a certificate again.

    Attributes:
        holds: whether everything that the certificate claims is true.
        findings: one line per claim: what was checked and what came.
        seconds: how long it took.
    """

    holds: bool
    findings: tuple[str, ...]
    seconds: float


def verify(certificate: Certificate) -> Verdict:
    """Proves a certificate again: its mapping is evaluated, everything below its bound searched.

    Raises:
        ConfigError: its problem cannot be read or treated.
    """
    started = time.perf_counter()
    findings: list[str] = []
    holds = True

    def check(ok: bool, claim: str, otherwise: str) -> None:
        nonlocal holds
        holds &= ok
        findings.append(claim if ok else f"WRONG: {otherwise}")

    model = LoopNestModel()
    check(
        certificate.model == model.name and certificate.model_version == model.version,
        f"cost model {model.name} {model.version}",
        f"made for {certificate.model} {certificate.model_version}; "
        f"this is {model.name} {model.version}",
    )
    for what, stated, true in (
        ("workload", certificate.workload_hash, certificate.workload.hash),
        ("accelerator", certificate.accelerator_hash, certificate.accelerator.hash),
    ):
        check(stated == true, f"{what} {true}", f"{what} hash {stated}, the content's is {true}")
    space = MapSpace(certificate.workload, certificate.accelerator)
    prover = Prover(space, objective=certificate.objective, keep=certificate.keep)
    claimed = (int(certificate.energy_units), certificate.latency_cycles)
    bound = (int(certificate.bound_energy_units), certificate.bound_cycles)
    try:
        found = prover.outcomes(record_code(space, certificate.record)[None])[0]
    except ConfigError as error:
        check(False, "", f"the mapping is none of this problem: {error}")
    else:
        check(
            found == claimed and Fraction(certificate.unit_pj) == prover.unit_pj,
            f"the mapping takes {certificate.energy_pj:.9g} pJ and {claimed[1]:,} cycles",
            f"the mapping takes {found} (energy in units of {prover.unit_pj} pJ, cycles), "
            f"not {claimed}",
        )
    reached, certain = prover.value_of(claimed), prover.value_of(bound)
    gap = (reached - certain) / max(1, certain)
    agrees = abs(gap - certificate.gap) <= 1e-9 * (1 + abs(gap))
    check(
        agrees and certificate.proven == (reached == certain),
        "bound and mapping are equal: it is optimal"
        if certificate.proven
        else f"bound and mapping are {100 * gap:.3g} % apart",
        f"bound and mapping are {100 * gap:.3g} % apart, not {100 * certificate.gap:.3g} %",
    )
    below = prover.search_below(bound)
    check(
        below is None,
        f"no mapping below {certificate.lower_bound:.9g}: {prover.bounds_computed:,} bounds",
        f"a mapping of {below} (energy in units, cycles) is below {certificate.lower_bound:.9g}",
    )
    return Verdict(holds, tuple(findings), time.perf_counter() - started)
