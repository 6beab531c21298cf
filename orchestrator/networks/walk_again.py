"""What stays on the chip and what runs in passes, counted without the code of proofs.

Every mapping that a certificate names is counted by the second program on the machine that its
layer finds, cascades are run pass by pass, and all of it is added up.
"""

from __future__ import annotations

import time
from fractions import Fraction

from costmodel.cascades.cascade import Cascade
from costmodel.cascades.walk import Loops, Walk
from costmodel.independent.check import SecondLook
from costmodel.independent.counting import Cost, Counter, tiling_of, why_not_counted
from costmodel.loop_nest.records import record_code
from costmodel.machines.resident import ROLES, resident_machine, shared_buffer
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.links import changed_words
from costmodel.networks.moves import changed_off_chip, changed_on_chip
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from orchestrator.networks.resident_certificate import ResidentCertificate

TOLERANCE = Fraction(1, 10**11)
"""Energies of proofs on deep hierarchies are sums in floating point."""

NOT_SHOWN = "independently, that no other way to run the network is below the bound"


def walk_again(certificate: ResidentCertificate) -> SecondLook:
    """Counts the network that a certificate claims.

    Args:
        certificate: of what stays on the chip, with or without cascades.

    Raises:
        ConfigError: the second program does not count such a machine.
    """
    started = time.perf_counter()
    look = _Walked(certificate)
    found, passes = Fraction(certificate.fixed_energy_pj), 0
    cycles = certificate.fixed_cycles
    for place, step in enumerate(certificate.steps):
        if look.is_within(place):
            continue
        operators = 1 if step.fused is None else len(step.fused.kept)
        energy, taken = look.alone(place) if operators == 1 else look.cascade(place)
        passes += operators > 1
        found, cycles = found + step.count * energy, cycles + step.count * taken
    said = Fraction(certificate.energy_pj), certificate.latency_cycles
    holds = abs(found - said[0]) <= TOLERANCE * said[0] and cycles == said[1]
    several = "cascade" if passes == 1 else "cascades"
    ran = f"{look.counted} mappings counted, {passes} {several} run pass by pass: "
    finding = (
        f"independent: {ran}the same {float(found):.9g} pJ and {cycles:,} cycles"
        if holds
        else f"WRONG: independent: {ran}{float(found):.17g} pJ and {cycles:,} cycles, not "
        f"{float(said[0]):.17g} and {said[1]:,}"
    )
    seconds = time.perf_counter() - started
    return SecondLook(holds, False, look.counted, (finding,), NOT_SHOWN, seconds)


class _Walked:
    """A certificate's steps, one after another."""

    def __init__(self, certificate: ResidentCertificate) -> None:
        self.said, self.machine = certificate, certificate.accelerator
        self.counted = 0
        self._ends = [
            place + len(step.fused.kept)
            for place, step in enumerate(certificate.steps)
            if step.fused is not None
        ]
        self._firsts = [p for p, step in enumerate(certificate.steps) if step.fused is not None]

    def is_within(self, place: int) -> bool:
        """Whether a step is counted at the first of its cascade."""
        return any(a < place < b for a, b in zip(self._firsts, self._ends, strict=True))

    def alone(self, place: int) -> Cost:
        """What a step takes that is in no cascade."""
        steps = self.said.steps
        step = steps[place]
        before = {at for at in range(place) if steps[at].stays and steps[at].until >= place}
        lying = before | ({place} if step.stays else set())
        words = sum(steps[at].workload.words(-1) for at in lying)
        reads = step.source in before
        roles = tuple(r for r, has in (("input", reads), ("output", step.stays)) if has)
        energy, cycles = self._mapping(step.workload, step.record, (roles, words))
        if self.said.moves and step.between is not None and step.source is not None:
            both = changed_words(step.between, steps[step.source].workload, step.workload)
            change = (changed_on_chip if reads else changed_off_chip)(self.machine, *both)
            energy, cycles = energy + change.energy, cycles + change.cycles
        return energy, cycles

    def cascade(self, first: int) -> Cost:
        """What the steps of a cascade take, pass by pass."""
        fused = self.said.steps[first].fused
        assert fused is not None  # who asks has looked
        steps = self.said.steps[first : first + len(fused.kept)]
        operators = tuple(step.workload for step in steps)
        between = tuple(step.between for step in steps[1:])
        cascade = Cascade(operators, between, self.said.moves)
        if len(fused.factors) != len(cascade.axes) or max(fused.order, default=0) >= len(
            fused.factors
        ):
            raise ConfigError(f"{operators[0].name}: its loops are of other axes.")
        kept = frozenset(
            (side, at)
            for side, roles in enumerate(fused.kept)
            for at, tensor in enumerate(operators[side].tensors)
            if operators[side].roles[tensor.name] in roles
        )
        walked = Walk(cascade, self.machine).run(Loops(fused.factors, fused.order, kept))
        room = shared_buffer(self.machine).capacity_words or 0
        if max(walked.words) > room or (walked.adds and not _has_output(fused.kept)):
            raise ConfigError(f"{operators[0].name}: its tiles do not fit, or are not kept.")
        passes = 1
        for axis in fused.order:
            passes *= fused.factors[axis]
        energy, cycles = walked.energy, walked.cycles
        for side, (part, step) in enumerate(zip(walked.parts, steps, strict=True)):
            lying = {*fused.kept[side], *cascade.roles[side]}
            roles = tuple(role for role in ROLES if role in lying)
            one, taken = self._mapping(part, step.record, (roles, walked.words[side]))
            energy, cycles = energy + passes * one, cycles + passes * taken
        return energy, cycles

    def _mapping(
        self, work: Workload, record: dict[str, object], beside: tuple[tuple[str, ...], int]
    ) -> Cost:
        """What a mapping takes beside what lies in the buffer."""
        machine = resident_machine(self.machine, *beside)
        if machine is None:
            raise ConfigError(f"{work.name}: so much does not lie in the shared buffer.")
        why = why_not_counted(work, machine)
        if why is not None:
            raise ConfigError(f"independent: {why}, which the second program does not count.")
        space = MapSpace(work, machine)
        one, code = space.in_order(record_code(space, record))
        mapping = one.describe(code)
        tiling, orders = tiling_of(mapping, work)
        counter = Counter(work, one.accelerator)
        problem = counter.why_not(tiling, [level.banks for level in mapping.levels])
        if problem is not None:
            raise ConfigError(f"independent: a mapping of {work.name} is infeasible: {problem}")
        self.counted += 1
        return counter.cost(tiling, orders, {})


def _has_output(kept: tuple[tuple[str, ...], ...]) -> bool:
    return "output" in kept[-1]
