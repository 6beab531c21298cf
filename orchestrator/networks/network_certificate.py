"""The certificate of a network's optimum: mappings, the lines that bound it, and how to prove both.

One JSON file holds the whole problem. To verify it every mapping is evaluated and every layer's
least energy + weight x cycles proven again; the network's bound follows from these by arithmetic.
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from costmodel.accelerators import Accelerator
from costmodel.affine import Workload
from costmodel.exact.verification import Verdict
from costmodel.exact_any.weighted import point_of
from costmodel.levels import Cycles
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record, record_code
from costmodel.map_space.map_space import MapSpace
from costmodel.moves import Moved, Words
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import Name, NonNegativeNumber, Size, StrictModel, validate
from orchestrator.networks.jointly import ROUNDING, Optimum
from orchestrator.networks.layer_lines import FixedLines, LayerLines, rounded_down
from orchestrator.networks.limited import Limited
from orchestrator.networks.lines import Cut, Limit, lower_bound, under_limit, value_of
from orchestrator.networks.operators import Operators
from orchestrator.proofs.certificates import Verification

FORMAT: Final = "mapspace-network-certificate-1"

WRONG: Final = "WRONG: "

Exact = Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,40}(/[1-9][0-9]{0,39})?$")]
"""A fraction whose digits bound the time that reading it takes."""

Objectives = Literal["energy", "latency", "edp", "ed2p"]


class _LayerOf(StrictModel):
    """A layer of the network with its mapping."""

    workload: Workload
    workload_hash: Name
    count: Size
    """How often the network has it, every time with this mapping."""
    energy_pj: Exact
    latency_cycles: Size
    record: dict[str, Any] = Field(repr=False)


class _MovesOf(StrictModel):
    """An operator that only moves words, over the whole network."""

    operator: Name
    reads: Cycles
    writes: Cycles


class _CutOf(StrictModel):
    """What energy + weight x cycles is at least: of every layer, in their order."""

    weight: Exact | None
    """PJ per cycle; null: cycles alone."""
    bounds: tuple[Exact, ...] = Field(min_length=1, max_length=100_000)


class LimitedClaim(StrictModel):
    """What a network minimises, and the limit that it is within."""

    objective: Objectives
    """Of the network: of total energy and total cycles."""
    most_cycles: Size | None = None
    """What the network had to be within; null: without such a limit."""
    most_energy_pj: Exact | None = None
    fronts: Annotated[bool, Field(strict=True)] = False
    """Whether the bound is from all fronts rather than from the lines."""

    @property
    def limit(self) -> Limit | None:
        """What the network had to be within."""
        if self.most_cycles is not None:
            return Limit(cycles=self.most_cycles)
        return None if self.most_energy_pj is None else Limit(energy=Fraction(self.most_energy_pj))


class NetworkCertificate(LimitedClaim):
    """What the search of a network's optimum ends with."""

    format: Literal["mapspace-network-certificate-1"]
    network: Name
    proven: Annotated[bool, Field(strict=True)]
    """Whether no mappings of its layers have less in all, equal layers mapped alike or not."""
    gap: NonNegativeNumber
    """How far the choice can be above the bound, as a share."""
    energy_pj: Exact
    latency_cycles: Size
    lower_bound: Exact
    """No mappings have less of the objective in all, pJ and cycles."""
    model: Name
    model_version: Name
    accelerator: Accelerator
    accelerator_hash: Name
    layers: tuple[_LayerOf, ...] = Field(min_length=1, max_length=100_000)
    cuts: tuple[_CutOf, ...] = Field(min_length=1, max_length=10_000)
    moves: tuple[_MovesOf, ...] = Field(default=(), max_length=100)
    """What is in the totals beside the layers, each at the outermost level and by itself."""
    seconds: NonNegativeNumber
    """How long it took: what the first proof says."""

    @property
    def counted(self) -> dict[str, Words]:
        """What the operators beside the layers read and write."""
        return {one.operator: Words(one.reads, one.writes) for one in self.moves}

    @property
    def moved(self) -> Moved:
        """What the operators beside the layers cost."""
        return Operators(self.counted, self.accelerator, counted=True).cost

    def text(self) -> str:
        """The certificate's file."""
        return self.model_dump_json(indent=1) + "\n"


def certify_network(
    name: str, optimum: Optimum, operators: Operators | None = None
) -> NetworkCertificate:
    """The certificate of what was reached.

    Args:
        name: of the network.
        optimum: what was reached.
        operators: what only moves words; in the optimum where they are counted.
    """
    pairs = zip(optimum.layers, optimum.choice, strict=True)
    chosen = [(layer, point) for layer, point in pairs if not isinstance(layer, FixedLines)]
    model, layers = LoopNestModel(), [layer for layer, _ in chosen]
    counted = {} if operators is None or not operators.counted else operators.words
    machine, limit = layers[0].space.accelerator, optimum.limit or Limit()
    return NetworkCertificate(
        format=FORMAT,
        network=name,
        objective=optimum.objective,
        proven=optimum.gap == 0,
        gap=optimum.gap,
        energy_pj=str(optimum.energy),
        latency_cycles=optimum.cycles,
        lower_bound=str(rounded_down(optimum.bound)),
        most_cycles=limit.cycles,
        most_energy_pj=None if limit.energy is None else str(limit.energy),
        fronts=optimum.fronts,
        model=model.name,
        model_version=model.version,
        accelerator=machine,
        accelerator_hash=machine.hash,
        layers=tuple(
            _LayerOf(
                workload=layer.space.workload,
                workload_hash=layer.space.workload.hash,
                count=layer.count,
                energy_pj=str(point.energy),
                latency_cycles=point.cycles,
                record=mapping_record(layer.space, point.code),
            )
            for layer, point in chosen
        ),
        cuts=tuple(
            _CutOf(
                weight=None if cut.weight is None else str(cut.weight),
                bounds=tuple(str(layer.bound_at(cut.weight)) for layer in layers),
            )
            for cut in optimum.cuts
        ),
        moves=tuple(
            _MovesOf(operator=operator, reads=words.reads, writes=words.writes)
            for operator, words in counted.items()
        ),
        seconds=optimum.seconds,
    )


def parse_network(data: Any, where: str) -> NetworkCertificate:
    """What the content of a network's certificate says.

    Raises:
        ConfigError: it is none.
    """
    found = validate(NetworkCertificate, data, where)
    wrong = next((cut for cut in found.cuts if len(cut.bounds) != len(found.layers)), None)
    if wrong is not None:
        raise ConfigError(
            f"{where}: cuts: expected {len(found.layers)} bounds, one per layer, got "
            f"{len(wrong.bounds)}."
        )
    weights = [cut.weight for cut in found.cuts]
    if len(set(weights)) < len(weights):
        raise ConfigError(f"{where}: cuts: expected every weight once, got one twice.")
    check_limits(found, where)
    return found


def check_limits(found: LimitedClaim, where: str) -> None:
    """Refuses a limit that is not for the objective, and fronts without one.

    Raises:
        ConfigError: so.
    """
    limited = [name for name in ("most_cycles", "most_energy_pj") if getattr(found, name)]
    other = {"energy": ["most_cycles"], "latency": ["most_energy_pj"]}.get(found.objective)
    if limited and limited != other:
        raise ConfigError(
            f"{where}: {limited[-1]}: expected it of the objective "
            f"{'energy' if limited[-1] == 'most_cycles' else 'latency'} alone."
        )
    if found.fronts and not limited:
        raise ConfigError(f"{where}: fronts: expected false where there is no limit.")


def bound_of(objective: str, cuts: list[Cut], limit: Limit | None = None) -> Fraction:
    """What lines say of a network's objective; 0 where they say nothing."""
    weights = {cut.weight for cut in cuts}
    if limit is not None:
        return under_limit(limit, cuts)[0] if {None, Fraction(0)} <= weights else Fraction(0)
    if objective in ("energy", "latency"):
        wanted = None if objective == "latency" else Fraction(0)
        return next((cut.bound for cut in cuts if cut.weight == wanted), Fraction(0))
    if not {None, Fraction(0)} <= weights:
        return Fraction(0)
    return lower_bound(objective, cuts)[0]


def verify_network(
    certificate: NetworkCertificate, *, seconds: float | None = None
) -> Verification:
    """Proves a network's certificate again, with the provers that make them.

    Args:
        certificate: what to prove again.
        seconds: the most that it may take; None: however long.

    Raises:
        ConfigError: a layer cannot be proven here.
    """
    started = time.monotonic()
    look = _Look(certificate, None if seconds is None else started + seconds)
    layers = look.figures()
    if look.holds:
        look.lines(layers)
    if look.holds and not look.left and certificate.fronts:
        look.fronts(layers)
    claim = "what the first proof says of its seconds, and the names of the network and its layers"
    verdict = Verdict(
        look.holds,
        tuple(look.findings),
        (claim, *look.left),
        None,
        None,
        time.monotonic() - started,
        complete=not look.left or not look.holds,
    )
    return Verification(certificate, verdict)


def check_figures(certificate: NetworkCertificate) -> None:
    """Evaluates the mappings of a network's certificate, and adds up; nothing is proven.

    Raises:
        DataError: they do not take what it says.
    """
    look = _Look(certificate, None)
    look.figures()
    if not look.holds:
        wrong = next(finding for finding in look.findings if finding.startswith(WRONG))
        raise DataError(wrong.removeprefix(WRONG))


class _Look:
    """One look at a certificate: what was checked, and what was not."""

    def __init__(self, certificate: NetworkCertificate, ends: float | None) -> None:
        self.certificate, self._ends = certificate, ends
        self.holds = True
        self.findings: list[str] = []
        self.left: list[str] = []

    def _check(self, ok: bool, right: str, wrong: str) -> None:
        self.holds &= ok
        self.findings.append(right if ok else f"{WRONG}{wrong}")

    def figures(self) -> list[LayerLines]:
        """Looks at all that takes no proof; what holds the layers' proofs."""
        self.machine()
        layers = self.mappings() if self.holds else []
        if self.holds:
            self.totals()
        return layers

    def machine(self) -> None:
        """Looks at the model and the hashes."""
        said, model = self.certificate, LoopNestModel()
        self._check(
            (said.model, said.model_version) == (model.name, model.version),
            f"cost model {model.name} {model.version}",
            f"made for {said.model} {said.model_version}; this is {model.name} {model.version}",
        )
        hashes = [(said.accelerator_hash, said.accelerator.hash)]
        hashes += [(layer.workload_hash, layer.workload.hash) for layer in said.layers]
        wrong = [stated for stated, true in hashes if stated != true]
        self._check(
            not wrong,
            f"the machine and {len(said.layers)} layers are those that the hashes name",
            f"hash {wrong[0] if wrong else ''} is that of other content",
        )

    def mappings(self) -> list[LayerLines]:
        """Evaluates every layer's mapping."""
        said, layers = self.certificate, []
        seen: dict[str, LayerLines] = {}
        for layer in said.layers:
            space = MapSpace(layer.workload, said.accelerator)
            # A layer that is mapped in two ways is proven once.
            first = seen.setdefault(layer.workload.hash, LayerLines(space, layer.count))
            lines = replace(first, count=layer.count)
            try:
                point = point_of(space, record_code(space, layer.record))
                lines.offer(point.code)
                true = (point.energy, point.cycles)
            except ConfigError as error:
                self._check(False, "", f"{layer.workload.name}: {error}")
                return []
            if true != (Fraction(layer.energy_pj), layer.latency_cycles):
                self._check(
                    False,
                    "",
                    f"{layer.workload.name}: its mapping takes {float(true[0]):.9g} pJ and "
                    f"{true[1]:,} cycles, not {float(Fraction(layer.energy_pj)):.9g} and "
                    f"{layer.latency_cycles:,}",
                )
                return []
            layers.append(lines)
        self._check(True, f"{len(layers)} mappings take what is said of them", "")
        return layers

    def totals(self) -> None:
        """Adds up, and computes the bound from what is said of every layer."""
        said = self.certificate
        moved = said.moved
        energy = sum((n.count * Fraction(n.energy_pj) for n in said.layers), moved.energy)
        cycles = moved.cycles + sum(one.count * one.latency_cycles for one in said.layers)
        self._check(
            (energy, cycles) == (Fraction(said.energy_pj), said.latency_cycles),
            f"in all they take {float(energy):.9g} pJ and {cycles:,} cycles",
            f"in all they take {float(energy):.9g} pJ and {cycles:,} cycles, not "
            f"{float(Fraction(said.energy_pj)):.9g} and {said.latency_cycles:,}",
        )
        cuts = [
            Cut(
                None if cut.weight is None else Fraction(cut.weight),
                sum(
                    (n.count * Fraction(b) for n, b in zip(said.layers, cut.bounds, strict=True)),
                    Fraction(moved.cycles)
                    if cut.weight is None
                    else moved.energy + Fraction(cut.weight) * moved.cycles,
                ),
            )
            for cut in said.cuts
        ]
        value = value_of(said.objective, energy, Fraction(cycles))
        if said.limit is not None:
            within = f"within {said.limit}"
            self._check(said.limit.admits(energy, cycles), within, f"they are not {within}")
        bound = min(value, value if said.fronts else bound_of(said.objective, cuts, said.limit))
        self._check(
            Fraction(said.lower_bound) <= bound,
            f"{len(cuts)} lines say that none is below {float(bound):.9g}"
            if not said.fronts
            else "the bound is from the layers' fronts",
            f"the lines say {float(bound):.9g}, not {float(Fraction(said.lower_bound)):.9g}",
        )
        above = value / Fraction(said.lower_bound) - 1 if Fraction(said.lower_bound) else None
        proven = above is not None and above <= ROUNDING
        near = above is not None and abs(float(above) - said.gap) <= 1e-9 * (1 + said.gap)
        self._check(
            said.proven == proven and near,
            "bound and mappings are equal: they are optimal"
            if proven
            else f"bound and mappings are {100 * said.gap:.3g} % apart",
            f"bound and mappings are {100 * float(above or 0):.3g} % apart, not "
            f"{100 * said.gap:.3g} %, or proven is wrong",
        )

    def lines(self, layers: list[LayerLines]) -> None:
        """Proves every layer's least weighted sums again."""
        done = 0
        every = len(layers) * len(self.certificate.cuts)
        for cut in self.certificate.cuts:
            weight = None if cut.weight is None else Fraction(cut.weight)
            for layer, stated in zip(layers, cut.bounds, strict=True):
                left = None if self._ends is None else self._ends - time.monotonic()
                if left is not None and left <= 0:
                    self.left.append(f"{every - done} of {every} bounds: the time ended before")
                    return
                line = layer.prove(weight, left)
                bound = Fraction(stated)
                if line.bound >= bound * (1 - ROUNDING):
                    done += 1
                elif line.proven:
                    name = layer.space.workload.name
                    self._check(
                        False, "", f"{name}: the least sum is {float(line.bound):.9g}, not "
                        f"{float(bound):.9g}",
                    )  # fmt: skip
                    return
                else:
                    self.left.append(f"{every - done} of {every} bounds: the time ended before")
                    return
        self._check(True, f"{every} bounds of layers, by the same provers", "")

    def fronts(self, layers: list[LayerLines]) -> None:
        """Proves the layers' fronts again, and looks for a better choice within the limit."""
        said = self.certificate
        assert said.limit is not None  # the parser refuses fronts without one
        left = None if self._ends is None else self._ends - time.monotonic()
        if said.moves:
            layers = [*layers, FixedLines(layers[0].space, said.moved)]
        found = Limited(layers, said.limit, seconds=left).run()
        bound = Fraction(said.lower_bound) * (1 - ROUNDING)
        ok = found.bound >= bound
        if not ok and found.gap > 0:
            self.left.append("the fronts: the time ended before")
            return
        self._check(
            ok, "the layers' fronts have none that is better within the limit",
            f"the layers' fronts have one of {float(found.value):.9g}",
        )  # fmt: skip
