"""The certificate of a network's optimum: mappings, the lines that bound it, and how to prove both.

One JSON file holds the whole problem. To verify it every mapping is evaluated and every layer's
least energy + weight x cycles proven again; the network's bound follows from these by arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, Literal

from pydantic import Field

from costmodel.exact_any.weighted import point_of
from costmodel.loop_nest.records import mapping_record, record_code
from costmodel.machines.levels import Cycles
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.moves import Moved, Words
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import Name, Size, StrictModel, validate
from orchestrator.networks.claims import (
    MOST_CUTS,
    Exact,
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
from orchestrator.networks.layer_lines import FixedLines, LayerLines
from orchestrator.networks.limited import Limited
from orchestrator.networks.lines import Cut
from orchestrator.networks.operators import Operators
from orchestrator.proofs.certificates import Verification

FORMAT: Final = "mapspace-network-certificate-1"


class _LayerOf(RunOf):
    """A layer of the network with its mapping."""

    latency_cycles: Size


class _MovesOf(StrictModel):
    """An operator that only moves words, over the whole network."""

    operator: Name
    reads: Cycles
    writes: Cycles


class _CutOf(LineOf):
    """What energy + weight x cycles is at least: of every layer, in their order."""

    bounds: tuple[Exact, ...] = Field(min_length=1, max_length=100_000)


class NetworkCertificate(NetworkClaim):
    """The mappings of a network's layers, and the lines of every layer."""

    format: Literal["mapspace-network-certificate-1"]
    layers: tuple[_LayerOf, ...] = Field(min_length=1, max_length=100_000)
    cuts: tuple[_CutOf, ...] = Field(min_length=1, max_length=MOST_CUTS)
    moves: tuple[_MovesOf, ...] = Field(default=(), max_length=100)
    """What is in the totals beside the layers, each at the outermost level and by itself."""

    @property
    def counted(self) -> dict[str, Words]:
        """What the operators beside the layers read and write."""
        return {one.operator: Words(one.reads, one.writes) for one in self.moves}

    @property
    def moved(self) -> Moved:
        """What the operators beside the layers cost."""
        return Operators(self.counted, self.accelerator, counted=True).cost


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
    layers = [layer for layer, _ in chosen]
    counted = {} if operators is None or not operators.counted else operators.words
    return NetworkCertificate(
        format=FORMAT,
        **claimed(name, layers[0].space.accelerator, optimum),
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
    check_claim(found, found.cuts, where)
    return found


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
    look = _Look(certificate, seconds)
    unseen = "what the first proof says of its seconds, and the names of the network and its layers"
    return looked(certificate, look, look.through, unseen)


def check_figures(certificate: NetworkCertificate) -> None:
    """Evaluates the mappings of a network's certificate, and adds up; nothing is proven.

    Raises:
        DataError: they do not take what it says.
    """
    try:
        _Look(certificate).figures()
    except WrongError as error:
        raise DataError(str(error)) from error


class _Look(Look):
    """One look at a certificate."""

    def __init__(self, certificate: NetworkCertificate, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self.said = certificate

    def through(self) -> None:
        """Looks at everything."""
        layers = self.figures()
        self.lines(layers)
        if not self.left and self.said.fronts:
            self.fronts(layers)

    def figures(self) -> list[LayerLines]:
        """Looks at all that takes no proof; what holds the layers' proofs."""
        layers = self.said.layers
        self.machine(self.said, [(one.workload_hash, one.workload.hash) for one in layers])
        found = self.mappings()
        self.sums()
        return found

    def mappings(self) -> list[LayerLines]:
        """Evaluates every layer's mapping."""
        layers = []
        seen: dict[str, LayerLines] = {}
        for layer in self.said.layers:
            name, stated = layer.workload.name, Fraction(layer.energy_pj)
            space = MapSpace(layer.workload, self.said.accelerator)
            # A layer that is mapped in two ways is proven once.
            first = seen.setdefault(layer.workload.hash, LayerLines(space, layer.count))
            lines = replace(first, count=layer.count)
            try:
                point = point_of(space, record_code(space, layer.record))
            except ConfigError as error:
                raise WrongError(f"{name}: {error}") from error
            if (point.energy, point.cycles) != (stated, layer.latency_cycles):
                raise WrongError(
                    f"{name}: its mapping takes {float(point.energy):.9g} pJ and "
                    f"{point.cycles:,} cycles, not {float(stated):.9g} and "
                    f"{layer.latency_cycles:,}"
                )
            lines.offer(point.code)
            layers.append(lines)
        self.findings.append(f"{len(layers)} mappings take what is said of them")
        return layers

    def sums(self) -> None:
        """Adds up, and computes the bound from what is said of every layer."""
        said, moved = self.said, self.said.moved
        energy = sum((n.count * Fraction(n.energy_pj) for n in said.layers), moved.energy)
        cycles = moved.cycles + sum(one.count * one.latency_cycles for one in said.layers)
        self.totals(said, energy, cycles)
        self.bound(said, [Cut(cut.rate, self._least(cut)) for cut in said.cuts])

    def _least(self, cut: _CutOf) -> Fraction:
        """What a line says of the whole network."""
        moved = self.said.moved
        beside = Fraction(moved.cycles)
        if cut.rate is not None:
            beside = moved.energy + cut.rate * moved.cycles
        pairs = zip(self.said.layers, cut.bounds, strict=True)
        return sum((layer.count * Fraction(bound) for layer, bound in pairs), beside)

    def lines(self, layers: list[LayerLines]) -> None:
        """Proves every layer's least weighted sums again."""
        done = 0
        every = len(layers) * len(self.said.cuts)
        asked = (
            (cut.rate, *pair)
            for cut in self.said.cuts
            for pair in zip(layers, cut.bounds, strict=True)
        )
        for weight, layer, stated in asked:
            left = self.seconds_left
            line = None if left is not None and left <= 0 else layer.prove(weight, left)
            if line is not None and line.bound >= Fraction(stated) * (1 - ROUNDING):
                done += 1
                continue
            if line is not None and line.proven:
                raise WrongError(
                    f"{layer.space.workload.name}: the least sum is {float(line.bound):.9g}, "
                    f"not {float(Fraction(stated)):.9g}"
                )
            self.left.append(f"{every - done} of {every} bounds: the time ended before")
            return
        self.findings.append(f"{every} bounds of layers, by the same provers")

    def fronts(self, layers: list[LayerLines]) -> None:
        """Proves the layers' fronts again, and looks for a better choice within the limit."""
        said = self.said
        assert said.limit is not None  # the parser refuses fronts without one
        if said.moves:
            layers = [*layers, FixedLines(layers[0].space, said.moved)]
        found = Limited(layers, said.limit, seconds=self.seconds_left).run()
        ok = found.bound >= Fraction(said.lower_bound) * (1 - ROUNDING)
        if not ok and found.gap > 0:
            self.left.append("the fronts: the time ended before")
            return
        self.check(
            ok,
            "the layers' fronts have none that is better within the limit",
            f"the layers' fronts have one of {float(found.value):.9g}",
        )
