"""The certificate of what stays on the chip: how every layer runs, and the lines that bound it.

To verify it every mapping is evaluated on the machine as the layer finds it, and for each weight
the least sum of every layer in every way is proven again; the network's bound is a shortest path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from costmodel.cascades.cascade import MOST_OPERATORS
from costmodel.cascades.plans import Plan
from costmodel.exact_any.weighted import Point, point_of
from costmodel.loop_nest.records import mapping_record, record_code
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Cycles
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.chains import Step
from costmodel.networks.moves import Moved
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import Name, Size, StrictModel, validate
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.claims import (
    MOST_CUTS,
    Exact,
    Flag,
    LineOf,
    Look,
    NetworkClaim,
    RunOf,
    WrongError,
    check_claim,
    claimed,
    looked,
)
from orchestrator.networks.jointly import ROUNDING, Optimum
from orchestrator.networks.layer_lines import NO_CODE, begin_all, rounded_down
from orchestrator.networks.limited_resident import LimitedResident
from orchestrator.networks.lines import Cut
from orchestrator.networks.resident import Resident, Way, Ways, is_within
from orchestrator.networks.runs_of_steps import Ran, as_run
from orchestrator.networks.time_left import TimeLeft
from orchestrator.proofs.certificates import Verification
from orchestrator.store.mappings import stored_code

FORMAT: Final = "mapspace-resident-certificate-1"
Factors = Annotated[tuple[Size, ...], Field(max_length=8)]
Order = Annotated[tuple[Cycles, ...], Field(max_length=8)]
Roles = Annotated[tuple[Literal["input", "weight", "output"], ...], Field(max_length=3)]


class _PlanOf(StrictModel):
    """Shared loops of a layer and those behind it: of so many as `kept` has entries."""

    factors: Factors
    order: Order
    kept: Annotated[tuple[Roles, ...], Field(min_length=2, max_length=MOST_OPERATORS)]


class _StepOf(RunOf):
    """A layer and how it runs; energy and cycles of a cascade stand at its first layer."""

    source: Cycles | None
    until: Cycles
    between: Name | None
    stays: Flag
    fused: _PlanOf | None


class _CutOf(LineOf):
    """What energy + weight x cycles of the network is at least, pJ."""

    bound: Exact


class ResidentCertificate(NetworkClaim):
    """How every layer runs, and the lines of the whole network."""

    format: Literal["mapspace-resident-certificate-1"]
    fused: Flag
    """Whether layers in a row could be a cascade."""
    moves: Flag
    """Whether operators between two layers are counted."""
    fixed_energy_pj: Exact
    """Of other operators that only move words, however the network runs."""
    fixed_cycles: Cycles
    steps: tuple[_StepOf, ...] = Field(min_length=1, max_length=10_000)
    cuts: tuple[_CutOf, ...] = Field(min_length=1, max_length=MOST_CUTS)

    @property
    def fixed(self) -> Moved:
        """What those cost."""
        return Moved(Fraction(self.fixed_energy_pj), self.fixed_cycles)


def certify_resident(
    name: str,
    machine: Accelerator,
    chosen: tuple[Sequence[Step], Sequence[Way], Optimum],
    *,
    fused: bool,
    moves: bool,
    fixed: Moved,
) -> ResidentCertificate:
    """The certificate of what was reached.

    Args:
        name: of the network.
        machine: the whole machine.
        chosen: the steps, how each runs, and the optimum.
        fused: whether layers in a row could be a cascade.
        moves: whether operators between two layers are counted.
        fixed: what the network costs beside.
    """
    steps, path, found = chosen
    # Equal steps have one record.
    known: dict[tuple[int, bytes], dict[str, Any]] = {}
    listed: list[_StepOf] = []
    rest: list[dict[str, Any]] = []
    for step, way, point in zip(steps, path, found.choice, strict=True):
        plan = None
        if rest:
            record = rest.pop(0)
        elif isinstance(way.lines, CascadeLines):
            used, spaces, points = way.lines.unpacked(point)
            plan = _PlanOf(factors=used.factors, order=used.order, kept=used.kept)
            records = [mapping_record(s, p.code) for s, p in zip(spaces, points, strict=True)]
            record, rest = records[0], records[1:]
        else:
            kind = id(way.lines), point.code.tobytes()
            if kind not in known:
                known[kind] = mapping_record(way.lines.space, point.code)
            record = known[kind]
        listed.append(
            _StepOf(
                workload=step.workload,
                workload_hash=step.workload.hash,
                count=step.count,
                source=step.source,
                until=step.until,
                between=step.operator,
                stays=way.stays,
                fused=plan,
                energy_pj=str(point.energy),
                latency_cycles=point.cycles,
                record=record,
            )
        )
    return ResidentCertificate(
        format=FORMAT,
        **claimed(name, machine, found),
        fused=fused,
        moves=moves,
        fixed_energy_pj=str(fixed.energy),
        fixed_cycles=fixed.cycles,
        steps=tuple(listed),
        cuts=tuple(
            _CutOf(
                weight=None if cut.weight is None else str(cut.weight),
                bound=str(rounded_down(cut.bound)),
            )
            for cut in found.cuts
        ),
    )


def parse_resident(data: Any, where: str) -> ResidentCertificate:
    """What the content of such a certificate says.

    Raises:
        ConfigError: it is none.
    """
    found = validate(ResidentCertificate, data, where)
    for place, step in enumerate(found.steps):
        if not place <= step.until < len(found.steps):
            raise ConfigError(f"{where}: steps[{place}].until: expected a step from it on.")
        if step.source is not None and step.source >= place:
            raise ConfigError(f"{where}: steps[{place}].source: expected a step before it.")
    check_claim(found, found.cuts, where)
    return found


def verify_resident(
    certificate: ResidentCertificate, *, seconds: float | None = None
) -> Verification:
    """Proves such a certificate again, with the provers that make them.

    Args:
        certificate: what to prove again.
        seconds: the most that it may take; None: however long.

    Raises:
        ConfigError: a layer cannot be proven here.
    """
    look = _Look(certificate, seconds)
    unseen = "what the first proof says of its seconds, the names, and the operators beside"
    return looked(certificate, look, look.through, unseen)


def ran_as(certificate: ResidentCertificate) -> list[Ran]:
    """Every layer as a certificate says that it runs; mappings are evaluated, nothing is proven.

    Raises:
        DataError: they do not take what it says.
        ConfigError: its network or its machine cannot be treated here.
    """
    look = _Look(certificate)
    try:
        path, choice = look.figures()
    except WrongError as error:
        raise DataError(str(error)) from error
    return as_run(look.steps, path, choice)


def in_own_words(
    certificate: ResidentCertificate, network: str, machine: Accelerator, own: Sequence[Workload]
) -> ResidentCertificate:
    """A certificate in the words of who asks.

    Args:
        certificate: of the same network, under other names; where there may be cascades those
            of the network and the machine alone are others.
        network: its name.
        machine: the same machine.
        own: every step's layer.

    Raises:
        ConfigError: a mapping is none of its layer.
        DataError: likewise, or it cannot run so.
    """
    steps = [
        step.model_copy(update={"workload": work, "workload_hash": work.hash})
        for step, work in zip(certificate.steps, own, strict=True)
    ]
    told = {"network": network, "accelerator": machine, "accelerator_hash": machine.hash}
    found = certificate.model_copy(update={**told, "steps": tuple(steps)})
    try:
        spaces = _Look(found).spaces()
    except WrongError as error:
        raise DataError(str(error)) from error
    for place, (was, space) in enumerate(zip(certificate.steps, spaces, strict=True)):
        if was.workload.hash == steps[place].workload_hash:
            code = record_code(space, was.record)
        else:
            code = stored_code(space, was.workload, was.record)
        steps[place] = steps[place].model_copy(update={"record": mapping_record(space, code)})
    return found.model_copy(update={"steps": tuple(steps)})


def _is_so(way: Way, step: _StepOf) -> bool:
    """Whether a way is, or is not, of a cascade of as many steps as is said."""
    if not isinstance(way.lines, CascadeLines):
        return step.fused is None
    return step.fused is not None and len(step.fused.kept) == len(way.lines.sides)


class _Look(Look):
    """One look at a certificate."""

    def __init__(self, certificate: ResidentCertificate, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self.said = certificate
        self.steps = [
            Step(one.workload, one.count, one.source, one.until, one.between)
            for one in certificate.steps
        ]
        machine = certificate.accelerator
        self._ways = Ways(self.steps, machine, fused=certificate.fused, moves=certificate.moves)

    def through(self) -> None:
        """Looks at everything."""
        self.figures()
        self.lines()
        if not self.left and self.said.fronts:
            self.fronts()

    def figures(self) -> tuple[list[Way], list[Point]]:
        """Looks at all that takes no proof; how every step runs, and what it takes once."""
        said = self.said
        self.machine(said, [(one.workload_hash, one.workload.hash) for one in said.steps])
        path = list(self.path())
        choice = self.choice(path)
        cuts = [Cut(cut.rate, Fraction(cut.bound)) for cut in said.cuts]
        self.bound(said, cuts, ROUNDING)
        return path, choice

    def path(self) -> Iterator[Way]:
        """How every step runs."""
        state = frozenset[int]()
        for place, step in enumerate(self.said.steps):
            ways = [
                way
                for way in self._ways.ways[place]
                if way.before == state and way.stays == step.stays and _is_so(way, step)
            ]
            if not ways:
                raise WrongError(f"{step.workload.name} cannot run so after what is before it")
            yield ways[0]
            state = ways[0].after

    def spaces(self) -> list[MapSpace]:
        """The map space of every step's mapping."""
        found: list[MapSpace] = []
        for place, way in enumerate(self.path()):
            if isinstance(way.lines, CascadeLines):
                found += self._parts(place, way.lines)[1]
            elif len(found) == place:
                found.append(way.lines.space)
        return found

    def choice(self, path: Sequence[Way]) -> list[Point]:
        """Evaluates every mapping where its layer finds it, and adds up."""
        said, points = self.said, []
        energy, cycles = said.fixed
        for place, (step, way) in enumerate(zip(said.steps, path, strict=True)):
            point = self._point(place, way)
            if (point.energy, point.cycles) != (Fraction(step.energy_pj), step.latency_cycles):
                raise WrongError(
                    f"{step.workload.name} takes {float(point.energy):.9g} pJ and "
                    f"{point.cycles:,} cycles, not {float(Fraction(step.energy_pj)):.9g} and "
                    f"{step.latency_cycles:,}"
                )
            energy, cycles = energy + step.count * point.energy, cycles + step.count * point.cycles
            points.append(point)
        self.totals(said, energy, cycles)
        return points

    def _point(self, place: int, way: Way) -> Point:
        """What a step takes as it says that it runs."""
        said = self.said.steps[place]
        try:
            if isinstance(way.lines, CascadeLines):
                return self._cascade(place, way.lines)
            if is_within(way.before):
                return Point(Fraction(0), 0, NO_CODE)
            point = point_of(way.lines.space, record_code(way.lines.space, said.record))
        except ConfigError as error:
            raise WrongError(f"{said.workload.name}: {error}") from error
        return Point(point.energy + way.moves.energy, point.cycles + way.moves.cycles, point.code)

    def _cascade(self, place: int, lines: CascadeLines) -> Point:
        plan, spaces = self._parts(place, lines)
        records = (self.said.steps[place + side].record for side in lines.sides)
        codes = [record_code(*pair) for pair in zip(spaces, records, strict=True)]
        return lines.planned(plan, codes)

    def _parts(self, place: int, lines: CascadeLines) -> tuple[Plan, list[MapSpace]]:
        """The plan of a cascade, and the map space of each of its steps.

        Raises:
            ConfigError: it cannot run.
        """
        asked = self.said.steps[place].fused
        assert asked is not None  # such a way was looked for
        wanted = (asked.factors, asked.order, asked.kept)
        plan: Plan | None = next((p for p in lines.plans if p[:3] == wanted), None)
        if plan is None:
            raise ConfigError("there is no such plan of outer loops")
        spaces = []
        for side in lines.sides:
            part = lines.part(side, plan)
            if part is None:
                raise ConfigError("a part of it does not fit")
            spaces.append(part.space)
        return plan, spaces

    def lines(self) -> None:
        """Proves every line again."""
        said, left = self.said, self.seconds_left
        begin_all(self._ways.layers, TimeLeft(left))
        for number, cut in enumerate(said.cuts):
            left = self.seconds_left
            seconds = None if left is None else max(0.0, left)
            proof = Resident(self._ways, said.objective, said.fixed, seconds=seconds)
            stated = Fraction(cut.bound) * (1 - ROUNDING)
            least = proof.certain(cut.rate, stated)
            if least >= stated:
                continue
            if not proof.is_open(cut.rate):
                raise WrongError(f"a line's least is {float(least):.9g}, not {cut.bound}")
            self.left.append(f"{len(said.cuts) - number} lines: the time ended before")
            return
        self.findings.append(f"{len(said.cuts)} lines of all ways, by the same provers")

    def fronts(self) -> None:
        """Proves the fronts of all ways again, and looks for a better choice within the limit."""
        said = self.said
        assert said.limit is not None  # the parser refuses fronts without one
        found = LimitedResident(self._ways, said.limit, said.fixed, seconds=self.seconds_left).run()
        if found.bound >= Fraction(said.lower_bound) * (1 - ROUNDING):
            self.findings.append("the fronts of all ways have none that is better in the limit")
        elif found.gap > 0:
            self.left.append("the fronts: the time ended before")
        else:
            raise WrongError(f"the fronts of all ways have one of {float(found.value):.9g}")
