"""Proving a certificate again: what it claims, what came, and what nobody can check.

The same prover proves again, from the problem alone: its bounds are computed anew, but a fault in
its rules would be made twice. `costmodel.independent` looks without it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from costmodel.costs import TIE_BREAKERS, UNITS
from costmodel.exact.certificate import Certificate
from costmodel.exact.face import AnyProof
from costmodel.exact.objective import INFINITE, Outcome
from costmodel.exact.restriction import Restriction, among, problem_hash
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_writing import arch_of
from costmodel.loop_nest.nest_writing import problem_record as nest_problem
from costmodel.loop_nest.records import accelerator_from_record, record_code, workload_from_record
from costmodel.machines.side_by_side import all_orders, free_groups, groups, in_order
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.space_rules import space_rules
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class Verdict:
    """What came of proving a certificate again.

    Attributes:
        holds: whether every claim that was checked is true.
        findings: one line per claim: what was checked and what came.
        not_verified: one line per thing that the certificate says and nothing here checked.
        problem_hash: of workload, accelerator, objective and restriction.
        keep: the restriction; None where the claims are about all mappings of the machine.
        seconds: how long it took.
        complete: whether the time sufficed to prove the bound again, or to refute it.
    """

    holds: bool
    findings: tuple[str, ...]
    not_verified: tuple[str, ...]
    problem_hash: str | None
    keep: Restriction | None
    seconds: float
    complete: bool = True


@dataclass
class _Findings:
    holds: bool = True
    complete: bool = True
    lines: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    @property
    def condition(self) -> str:
        """Ends what follows from the bound."""
        return "" if self.complete else ", if the bound holds"

    def check(self, ok: bool, claim: str, otherwise: str) -> bool:
        self.holds &= ok
        self.lines.append(claim if ok else f"WRONG: {otherwise}")
        return ok


def verify(
    certificate: Certificate,
    make: Callable[..., AnyProof],
    *,
    seconds: float | None = None,
) -> Verdict:
    """Proves a certificate again: its mapping is evaluated, everything below its bound searched.

    Nothing is proven of a problem that is not the one that the hashes name.

    Args:
        certificate: what to prove again.
        make: makes the prover of a map space, as `costmodel.exact_any.choice.make_prover` does.
        seconds: the most that it may take, once everything is compiled; the verdict says what was
            left. None: however long it takes.

    Raises:
        ConfigError: its problem cannot be treated.
    """
    started = time.perf_counter()
    findings = _Findings(unverified=[_history(certificate)])
    named, restricted = None, None
    if _is_the_problem(certificate, findings):
        space = MapSpace(certificate.workload, certificate.machine)
        prover = make(space, objective=certificate.objective, keep=certificate.keep, build=False)
        restricted = prover.keep
        named = problem_hash(
            certificate.workload.hash,
            certificate.machine.hash,
            certificate.objective,
            restricted,
            every_order=certificate.every_order,
        )
        which = _among(prover)
        findings.check(
            certificate.problem_hash in (named, None),
            f"problem {named}: least {certificate.objective} among {which}",
            f"problem hash {certificate.problem_hash}; that of the least {certificate.objective} "
            f"among {which} is {named}",
        )
        rules = space_rules(certificate.machine, restricted=restricted is not None)
        findings.check(True, f"the space: {rules}", "")
        _check_mapping(certificate, prover, findings)
        certificate = _in_units_of(prover, certificate)
        left = None if seconds is None else max(0.0, started + seconds - time.perf_counter())
        below, share = _search_below(certificate, prover, left)
        findings.complete = below is not None or share == 1
        _check_gap(certificate, prover, findings)
        _check_ties(certificate, findings)
        _check_bound(certificate, prover, findings, below, share)
        if groups(certificate.accelerator) and not certificate.every_order:
            findings.unverified.append(
                "that buffers side by side in another order are not better: it is not claimed"
            )
        if restricted is not None:
            findings.unverified.append(
                "that no other mapping of the machine is better: it is not claimed"
            )
    else:
        findings.unverified.append(
            "the mapping, the bound and the gap: of which problem is not certain"
        )
    return Verdict(
        findings.holds,
        tuple(findings.lines),
        tuple(findings.unverified),
        named,
        restricted,
        time.perf_counter() - started,
        findings.complete,
    )


def why_not_continued(certificate: Certificate, prover: AnyProof) -> str | None:
    """Why a proof cannot go on from a certificate, in one line; None if it can.

    Args:
        certificate: of an unfinished proof.
        prover: of its map space, objective and restriction; it has not begun.
    """
    findings = _Findings()
    if _is_the_problem(certificate, findings):
        named = problem_hash(
            certificate.workload.hash,
            certificate.machine.hash,
            certificate.objective,
            prover.keep,
            every_order=certificate.every_order,
        )
        findings.check(
            certificate.problem_hash in (named, None),
            "",
            f"problem hash {certificate.problem_hash}; that of its content is {named}",
        )
        # What was settled so far is told in units.
        findings.check(
            certificate.earlier is None or Fraction(certificate.unit_pj) == prover.unit_pj,
            "",
            f"the proof counts in {prover.unit_pj} pJ, the certificate in {certificate.unit_pj} pJ",
        )
        _check_mapping(certificate, prover, findings)
    wrong = [line.removeprefix("WRONG: ") for line in findings.lines if line.startswith("WRONG: ")]
    return wrong[0] if wrong else None


def _in_units_of(prover: AnyProof, certificate: Certificate) -> Certificate:
    """A certificate whose energies are in the units that a prover counts in.

    Releases differ in what they take for the largest energy of a hierarchy, and so in the unit.
    What a prover that does not round cannot say is left as it is; its mapping then is another.
    """
    ratio = Fraction(certificate.unit_pj) / prover.unit_pj
    energy, bound = (
        int(units) * ratio for units in (certificate.energy_units, certificate.bound_energy_units)
    )
    exact = energy.denominator == bound.denominator == 1
    if ratio == 1 or max(energy, bound) >= INFINITE or not (exact or prover.tolerance):
        return certificate
    told = {
        "unit_pj": str(prover.unit_pj),
        "energy_units": str(round(energy)),
        # A bound that is the mapping's own energy stays that.
        "bound_energy_units": str(round(energy) if bound == energy else math.floor(bound)),
    }
    return certificate.model_copy(update=told)


def _history(certificate: Certificate) -> str:
    """What the first proof says of itself, and names, which no hash holds."""
    counts = ", ".join(f"{name} {count:,}" for name, count in certificate.counts.items())
    settled = "" if certificate.progress is None else ", what it has settled for another to go on"
    return (
        f"what the first proof says of itself ({counts or 'no counts'}; {certificate.rounds:,} "
        f"rounds; {certificate.seconds:.3g} s){settled}, and the names of workload and accelerator"
    )


def _is_the_problem(certificate: Certificate, findings: _Findings) -> bool:
    """Checks that model, hashes and record belong to the workload and the accelerator."""
    model = LoopNestModel()
    findings.check(
        certificate.model == model.name and certificate.model_version == model.version,
        f"cost model {model.name} {model.version}",
        f"made for {certificate.model} {certificate.model_version}; "
        f"this is {model.name} {model.version}",
    )
    workload, accelerator = certificate.workload, certificate.machine
    same = True
    for what, stated, true in (
        ("workload", certificate.workload_hash, workload.hash),
        ("accelerator", certificate.accelerator_hash, accelerator.hash),
    ):
        same &= findings.check(
            stated == true, f"{what} {true}", f"{what} hash {stated}, the content's is {true}"
        )
    record = certificate.record
    machines = [certificate.machine]
    if certificate.every_order:
        orders = all_orders(accelerator, free_groups(accelerator))
        machines = [in_order(accelerator, order) for order in orders]
    if isinstance(record["mapping"], list):
        # A whole nest says every number of the machine, but not what it keeps.
        belongs = record["problem"] == nest_problem(workload) and any(
            record["arch"] == arch_of(one, workload) for one in machines
        )
        return same & findings.check(
            belongs,
            "the mapping's record is of this workload and accelerator",
            "the mapping's record is of another workload or accelerator",
        )
    try:
        problem = workload_from_record(record["problem"]).hash
        machine = accelerator_from_record(
            record["arch"], name=record["arch_name"], bypass=accelerator.bypass == "searched"
        ).hash
    except ConfigError as error:
        return findings.check(False, "", f"the mapping's record cannot be read: {error}")
    # A record says the machine, not what its mapper is told.
    told = {one.model_copy(update={"constraints": ()}).hash for one in machines}
    belongs = problem == workload.hash and machine in told
    return same & findings.check(
        belongs,
        "the mapping's record is of this workload and accelerator",
        f"the mapping's record is of workload {problem} and accelerator {machine}",
    )


def _is_narrow(prover: AnyProof) -> bool:
    """Whether the proof speaks of a part of the mappings that the machine could run."""
    return prover.keep is not None or bool(prover.space.accelerator.constraints)


def _among(prover: AnyProof) -> str:
    return among(prover.keep, len(prover.space.accelerator.constraints))


def _check_mapping(certificate: Certificate, prover: AnyProof, findings: _Findings) -> None:
    claimed = (int(certificate.energy_units), certificate.latency_cycles)
    try:
        code = record_code(prover.space, certificate.record)
    except ConfigError as error:
        findings.check(False, "", f"the mapping is none of this problem: {error}")
        return
    found = prover.outcomes(code[None])[0]
    takes = "is infeasible"
    if found is not None:
        takes = f"takes {float(found[0] * prover.unit_pj):.9g} pJ and {found[1]:,} cycles"
    unit = Fraction(certificate.unit_pj)
    same = found == claimed
    if found is not None and unit != prover.unit_pj:
        # The same sum in floating point, rounded to another unit.
        energy = found[0] * prover.unit_pj
        near = abs(claimed[0] * unit - energy) <= prover.tolerance * energy
        same = near and found[1] == claimed[1]
    findings.check(
        same,
        f"the mapping takes {certificate.energy_pj:.9g} pJ and {claimed[1]:,} cycles",
        f"the mapping {takes}, not {certificate.energy_pj:.9g} pJ and {claimed[1]:,} cycles; the "
        f"proof counts in {prover.unit_pj} pJ, the certificate in {certificate.unit_pj} pJ",
    )
    if _is_narrow(prover):
        findings.check(
            prover.allows(code),
            f"the mapping is one of the {_among(prover)}",
            f"the mapping is none of the {_among(prover)}",
        )


def _check_gap(certificate: Certificate, prover: AnyProof, findings: _Findings) -> None:
    reached = prover.value_of((int(certificate.energy_units), certificate.latency_cycles))
    bound = (int(certificate.bound_energy_units), certificate.bound_cycles)
    certain = prover.value_of(bound)
    restricted = prover.keep is not None
    claims = (certificate.proven, certificate.proven_under_restriction)
    gap = max(0.0, (reached - certain) / max(1, certain))
    agrees = abs(gap - certificate.gap) <= 1e-9 * (1 + abs(gap))
    # Sums in floating point may be rounded apart.
    near = reached <= certain * (1 + prover.tolerance)
    optimal = reached == certain or (near and True in claims)
    where = f" among {_among(prover)}" if _is_narrow(prover) else ""
    findings.check(
        agrees and claims == ((False, optimal) if restricted else (optimal, None)),
        f"bound and mapping are equal: it is optimal{where}{findings.condition}"
        if optimal
        else f"bound and mapping are {100 * gap:.3g} % apart",
        f"bound and mapping are {100 * gap:.3g} % apart"
        + ("" if agrees else f", not {100 * certificate.gap:.3g} %")
        + f"; the certificate says proven: {_said(claims[0])}, proven under a restriction: "
        f"{_said(claims[1])}",
    )


def _search_below(
    certificate: Certificate, prover: AnyProof, seconds: float | None
) -> tuple[Outcome | None, float]:
    """A mapping that refutes the bound, and the share of the space that was searched for one."""
    bound = (int(certificate.bound_energy_units), certificate.bound_cycles)
    below, share = prover.search_below(bound, seconds)
    # Without a claim about ties one is no mapping below the bound.
    least = prover.value_of(bound) * (1 - prover.tolerance)
    equal = below is not None and prover.value_of(below) >= least
    return None if equal and not certificate.tie_proven else below, share


def _check_bound(
    certificate: Certificate,
    prover: AnyProof,
    findings: _Findings,
    below: Outcome | None,
    share: float,
) -> None:
    which = f"none of the {_among(prover)} is" if _is_narrow(prover) else "no mapping is"
    least = f"{certificate.lower_bound:.9g} {UNITS[certificate.objective]}"
    claim = f"{which} below {least}"
    if findings.complete:
        findings.check(
            below is None,
            f"{claim}: {prover.bounds_computed:,} bounds, by the same prover",
            f"a mapping of {below} (energy in units, cycles) is below {least}",
        )
    else:
        # Rounded down, so that what is left is never said to be nothing.
        done = "" if math.isnan(share) else f"{math.floor(1000 * share) / 10:.1f} % of "
        findings.unverified.append(
            f"that {claim}: the time ended before; {done or 'some of '}the pieces of the space "
            "that could hold one were searched, and none was found"
        )


def _check_ties(certificate: Certificate, findings: _Findings) -> None:
    """Checks what is said of equal objectives, as far as bound and mapping tell it."""
    if certificate.tie_proven is None:
        return
    objective = certificate.objective
    tie = f"of equal {objective} has less {TIE_BREAKERS[objective]}"
    equal = (certificate.energy_units, certificate.latency_cycles) == (
        certificate.bound_energy_units,
        certificate.bound_cycles,
    )
    findings.check(
        certificate.tie_proven == equal,
        f"none {tie}{findings.condition}" if equal else f"whether one {tie} is left open",
        f"bound and mapping are equal in energy and cycles, so none {tie}"
        if equal
        else f"bound and mapping differ in energy or cycles, so one {tie} perhaps",
    )


def _said(claim: bool | None) -> str:
    return "not said" if claim is None else str(claim).lower()
