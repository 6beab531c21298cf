"""Certificates: a mapping, what no mapping undercuts, and all that is needed to prove it again.

A certificate is one JSON file. It holds the whole problem, so that `costmodel.exact.verification`
needs nothing else: it evaluates the mapping anew and searches everything below the bound anew.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from costmodel.costs import Objective
from costmodel.exact.face import AnyProof
from costmodel.exact.objective import Outcome, objective_kind, value
from costmodel.exact.progress import (
    AnyLevelsProgress,
    Count,
    Earlier,
    Progress,
    WholeNumber,
)
from costmodel.exact.restriction import problem_hash, restriction
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.impossible import all_constraints
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.bounded_reading import parse_json, read_json
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import Name, NonNegativeNumber, Size, StrictModel, shown, validate

FORMAT: Final = "mapspace-certificate-3"
"""Its bound holds to within 1e-12 of itself, and its record may be that of a whole nest."""

ORDERS_FORMAT: Final = "mapspace-certificate-4"
"""Likewise, of buffers side by side in every order: the others speak of the order in the file."""

# Of three levels, with a bound in whole units of energy that holds exactly.
EXACT_FORMAT = "mapspace-certificate-2"
# Says `proven` of a mapping that is the best under a restriction only, and has no problem hash.
FIRST_FORMAT = "mapspace-certificate-1"


Ratio = Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,40}(/[1-9][0-9]{0,39})?$")]
"""A fraction whose digits bound the time that reading it takes."""

RECORD_PARTS: dict[str, type | tuple[type, ...]] = {
    "problem": dict,
    "arch_name": str,
    "arch": dict,
    "mapping": (dict, list),
}


class Certificate(StrictModel):
    """What a proof ends with, or has reached so far."""

    format: Literal[
        "mapspace-certificate-1",
        "mapspace-certificate-2",
        "mapspace-certificate-3",
        "mapspace-certificate-4",
    ]
    """Names this layout."""
    objective: Objective
    """What was minimised."""
    proven: bool = Field(strict=True)
    """Whether the mapping is optimal among all mappings of the machine, constraints obeyed."""
    proven_under_restriction: Annotated[bool, Field(strict=True)] | None = None
    """Whether it is optimal among the mappings that keep what `keep` says; null without `keep`."""
    energy_units: WholeNumber
    """Energy of the mapping in units, as digits: it may exceed what JSON readers hold exactly."""
    unit_pj: Ratio
    """One unit of energy, pJ, as a fraction such as 1/25."""
    latency_cycles: Size
    """Cycles of the mapping."""
    bound_energy_units: WholeNumber
    """With bound_cycles: no mapping's objective is below that of this energy and these cycles; with
    `keep`: none of the mappings that keep so."""
    bound_cycles: Count
    """See bound_energy_units."""
    gap: NonNegativeNumber
    """How far the mapping can be above the bound, as a share."""
    tie_proven: Annotated[bool, Field(strict=True)] | None = None
    """Whether no mapping of an equal objective has less energy (of equal energy: fewer cycles);
    with `keep`: none of the mappings that keep so; null in a certificate that does not say."""
    keep: dict[Name, tuple[Name, ...]] | None = None
    """The restriction: tensors kept per level, where the machine leaves others open; else null."""
    problem_hash: Name | None = None
    """Of workload, accelerator, objective and restriction; null in the first format."""
    counts: dict[Name, Count]
    """Tiles, tilings and subtrees bounded, and loop orders evaluated: what the first proof says."""
    rounds: Count
    """Targets that were searched one after another, likewise."""
    seconds: NonNegativeNumber
    """How long the proof took, likewise."""
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
    progress: Progress | None = Field(default=None, repr=False)
    """What an unfinished proof has settled, so that another one goes on; left out where nothing."""

    @property
    def machine(self) -> Accelerator:
        """The machine that is spoken of: with its buffers in the order of the file, or in any."""
        if self.every_order or self.accelerator.orders == "file":
            return self.accelerator
        return self.accelerator.model_copy(update={"orders": "file"})

    @property
    def every_order(self) -> bool:
        """Whether it speaks of buffers side by side in every order."""
        return self.format == ORDERS_FORMAT

    @field_validator("record")
    @classmethod
    def _check_record(cls, record: dict[str, Any]) -> dict[str, Any]:
        if set(record) != set(RECORD_PARTS):
            raise ValueError(
                f"expected the keys {', '.join(RECORD_PARTS)}, got {shown(sorted(record))}."
            )
        for part, kind in RECORD_PARTS.items():
            if not isinstance(record[part], kind):
                expected = "text" if kind is str else "a mapping"
                raise ValueError(f"{part}: expected {expected}, got {shown(record[part])}.")
        return record

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

    def text(self) -> str:
        """The certificate's file."""
        # Left out where there is nothing, as before there was such a key.
        nothing: set[str] | dict[str, set[str]] = {"progress"}
        if self.progress is not None:
            held = {"best": self.progress.best, "shares": getattr(self.progress, "shares", ())}
            nothing = {"progress": {name for name, value in held.items() if not value}}
        return self.model_dump_json(indent=1, exclude=nothing) + "\n"

    @property
    def earlier(self) -> Earlier | None:
        """What another proof can go on from; None where nothing is recorded."""
        if not isinstance(self.progress, AnyLevelsProgress):
            return None  # nothing, or what another prover has settled
        bound = int(self.bound_energy_units), self.bound_cycles
        return Earlier(self.progress, bound, self.counts, self.seconds)


def read_certificate(path: str | Path) -> Certificate:
    """Reads a certificate's file, of this format or the first one.

    Returns:
        The certificate as this format says it: where the first one says `proven` under a
        restriction, `proven_under_restriction` is true and `proven` false.

    Raises:
        ConfigError: there is none, it is no certificate, or a value lies beyond what a proof can
            write.
    """
    return _certificate(read_json(Path(path)), str(path))


def parse_certificate(text: str, where: str) -> Certificate:
    """What the text of a certificate says, as `read_certificate` reads its file.

    Args:
        text: the text.
        where: what the message starts with.

    Raises:
        ConfigError: as there.
    """
    return _certificate(parse_json(text, where), where)


def _certificate(data: Any, path: str) -> Certificate:
    if not isinstance(data, dict) or data.get("format") not in (
        FIRST_FORMAT,
        EXACT_FORMAT,
        FORMAT,
        ORDERS_FORMAT,
    ):
        known = f"{EXACT_FORMAT!r}, {FORMAT!r} or {ORDERS_FORMAT!r}"
        raise ConfigError(f"{path}: format: expected {known}; this is no certificate.")
    found = validate(Certificate, data, path)
    return _of_today(found) if found.format == FIRST_FORMAT else found


def _of_today(old: Certificate) -> Certificate:
    restricted = restriction(old.workload, old.accelerator, old.keep)
    return old.model_copy(
        update={
            "proven": old.proven and restricted is None,
            "proven_under_restriction": None if restricted is None else old.proven,
            "problem_hash": None,
        }
    )


def certify(prover: AnyProof, seconds: float, code: Codes | None = None) -> Certificate:
    """The certificate of what a proof has reached.

    Args:
        prover: the proof.
        seconds: how long it took.
        code: `[D]` the mapping to certify; None: the best that the proof knows.

    Raises:
        DataError: the mapping is infeasible or none of those that the proof speaks of, or none has
            been found yet.
    """
    if code is None:
        if prover.best_outcome is None:
            raise DataError("There is no mapping to certify yet.")
        code = prover.codes()[0]
    outcome = prover.outcomes(code[None])[0]
    if outcome is None:
        raise DataError("An infeasible mapping cannot be certified.")
    if all_constraints(prover.space.workload, prover.space.accelerator, None) != (
        prover.space.constraints
    ):
        raise DataError("constraints: write them into the machine; a certificate says no others.")
    if not prover.allows(code):
        raise DataError("A mapping that keeps other tensors than the proof's cannot be certified.")
    bound = prover.lower_outcome
    gap = prover.gap_of(outcome)
    space, model = prover.space, LoopNestModel()
    hashes = space.workload.hash, space.accelerator.hash
    record = mapping_record(space, code)
    return Certificate(
        format=FORMAT if prover.space.orders is None else ORDERS_FORMAT,
        objective=prover.objective,
        proven=gap == 0 and prover.keep is None,
        proven_under_restriction=None if prover.keep is None else gap == 0,
        energy_units=str(outcome[0]),
        unit_pj=str(prover.unit_pj),
        latency_cycles=outcome[1],
        bound_energy_units=str(bound[0]),
        bound_cycles=bound[1],
        gap=gap,
        tie_proven=outcome == bound if prover.ties else None,
        keep=prover.keep,
        problem_hash=problem_hash(
            *hashes, prover.objective, prover.keep, every_order=space.orders is not None
        ),
        counts=prover.counts,
        rounds=prover.rounds,
        seconds=prover.earlier_seconds + seconds,
        model=model.name,
        model_version=model.version,
        workload=space.workload,
        workload_hash=hashes[0],
        accelerator=space.accelerator,
        accelerator_hash=hashes[1],
        record=record,
        progress=_progress(prover, outcome),
    )


def _progress(prover: AnyProof, outcome: Outcome) -> AnyLevelsProgress | None:
    """What another proof can go on from, if the mapping of that outcome is as good as any known.

    What is settled holds nothing better than the prover's best.
    """
    best = prover.best_outcome
    if best is None or prover.rank_of(outcome) > prover.rank_of(best):
        return None
    return prover.progress()
