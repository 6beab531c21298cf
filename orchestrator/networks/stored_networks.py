"""Proofs about a whole network in the store: certificates as they are, in the words of who asks."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.bounded_reading import parse_json
from mapspace.errors import DataError, MapspaceError
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.networks.lines import value_of
from orchestrator.networks.network_certificate import (
    NetworkCertificate,
    check_figures,
    parse_network,
)
from orchestrator.networks.resident_certificate import in_own_words, parse_resident
from orchestrator.store.address import Question, problem
from orchestrator.store.answers import had_budget, is_settled, keep_answers, read_answer
from orchestrator.store.canonical import digest
from orchestrator.store.mappings import stored_code
from orchestrator.store.rows import Named, Row, content_id, row_of

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from orchestrator.answers.request import Request
    from orchestrator.networks.lines import Limit
    from orchestrator.networks.resident_certificate import ResidentCertificate

RULES = 1
"""Version of what may be chosen, with how it is counted: another one is another question."""

Answer = TypeVar("Answer")
Kept = dict[str, Any]
"""What an answer has beside its certificate, as JSON types."""


@dataclass(frozen=True)
class Link:
    """What a layer has to do with those around it, as in `costmodel.networks.chains.Step`.

    Attributes:
        source: so many layers before it is the one whose output it reads; None: none.
        until: so many layers behind it is the last one that needs its output.
        operator: what is done to what it reads.
    """

    source: int | None = None
    until: int = 0
    operator: str | None = None

    @classmethod
    def of(cls, place: int, source: int | None, until: int, operator: str | None) -> Link:
        """Of a layer at a place, by the places of others."""
        return cls(None if source is None else place - source, until - place, operator)


Listed = tuple[Workload, int, Link]
"""A layer, how often the network has it, and what it has to do with others."""


@dataclass(frozen=True)
class AskedNetwork:
    """What is asked about a whole network.

    Attributes:
        request: how to search; it names the store.
        method: how layers are chosen together.
        name: the network's.
        machine: the machine.
        layers: in their order.
        seconds: the budget, s.
        limit: what the whole network has to be within.
        moves: what else is in the totals, and decides the choice, as JSON types.
    """

    request: Request
    method: Literal["jointly", "resident", "cascades"]
    name: str
    machine: Accelerator
    layers: Sequence[Listed]
    seconds: float
    limit: Limit | None
    moves: Any

    @functools.cached_property
    def question(self) -> Question:
        """Everything that decides the answer.

        Names do not, unless layers may be cascades: plans name what they cut and keep.
        """
        model = LoopNestModel()
        content = {
            "kind": "network",
            # What was stored while ties were left open is asked anew.
            "method": [self.method, RULES, *(["ties"] if self._breaks_ties else [])],
            "layers": self._layers,
            "objective": self.request.objective,
            "limit": None if self.limit is None else [self.limit.cycles, str(self.limit.energy)],
            "moves": self.moves,
            "model": [model.name, model.version],
        }
        return Question(content, {"seconds": self.seconds, "gap": self.request.gap})

    @property
    def _breaks_ties(self) -> bool:
        """Whether equal values are told apart: those of single sums, energy or cycles."""
        return self.request.objective in ("energy", "latency")

    @property
    def _layers(self) -> list[Any]:
        named = self.method == "cascades"
        return [
            [
                problem(work, self.machine),
                count,
                [link.source, link.until, link.operator],
                *([work.name, work.hash] if named else []),
            ]
            for work, count, link in self.layers
        ]

    def read(
        self,
        make: Callable[[Row, Kept], Answer],
        is_enough: Callable[[Kept], bool] = lambda kept: True,
    ) -> Answer | None:
        """The answer that the store has; None where it has none that will do, or nothing is asked.

        Args:
            make: makes it of a row and of what it has beside its certificate.
            is_enough: whether what is beside is as certain as it has to be.
        """
        store, gap = self.request.store, self.request.gap
        if store is None:
            return None

        def serves(row: Row) -> bool:
            if had_budget(row, self.seconds, gap) or not is_settled(row, gap):
                return had_budget(row, self.seconds, gap)
            try:
                return is_enough(_payload(row).beside)
            except MapspaceError:
                return True  # `make` says what is wrong

        return read_answer(
            store, self.question, serves, lambda row: make(row, _payload(row).beside)
        )

    def keep(
        self,
        certificate: NetworkCertificate | ResidentCertificate,
        seconds: float,
        beside: Kept,
        *,
        settled: bool,
    ) -> None:
        """Keeps an answer, unless it was cut off before it was settled.

        Args:
            certificate: of the answer.
            seconds: how long it took, s.
            beside: what it has beside, as JSON types.
            settled: whether it was not cut off, or everything is as certain as was asked for.
        """
        store = self.request.store
        if store is None or not settled:
            return
        text, limit = certificate.text(), certificate.limit
        energy, cycles = Fraction(certificate.energy_pj), certificate.latency_cycles
        told = {
            "max_cycles": None if limit is None else limit.cycles,
            "max_energy_pj": None if limit is None or limit.energy is None else float(limit.energy),
            "moves": self.request.moves,
        }
        written = [[work.name, work.hash, count] for work, count, _ in self.layers]
        row = row_of(
            "network",
            self.question,
            Named(self.name, digest(written)[:16], digest(self._layers)[:16]),
            self.machine,
            LoopNestModel(),
            objective=self.request.objective,
            method=self.method,
            parameters=json.dumps(told, sort_keys=True),
            budget_seconds=self.seconds,
            budget_gap=self.request.gap,
            value=float(value_of(certificate.objective, energy, Fraction(cycles))),
            energy_pj=float(energy),
            latency_cycles=float(cycles),
            proven=certificate.proven,
            lower_bound=float(Fraction(certificate.lower_bound)),
            gap=certificate.gap,
            seconds=seconds,
            certificate=f"{content_id(text.encode())}.json",
            payload=json.dumps(
                {
                    "layers": [work.model_dump(mode="json") for work, _, _ in self.layers],
                    "beside": beside,
                }
            ),
        )
        keep_answers(store, [row], [text])

    def where(self, row: Row) -> str:
        """For people: where a row is, and when it was found."""
        store = self.request.store
        assert store is not None  # the row is of it
        return store.where(row)

    def of_network(self, row: Row) -> NetworkCertificate:
        """The certificate of a row, in the words of who asks; its mappings are evaluated.

        Raises:
            ConfigError: it is no certificate, or a mapping is none of its layer.
            DataError: it is missing, damaged, or of something else.
        """
        found = parse_network(*self._text(row))
        own = self._own(row, found, [(one.workload, one.count, Link()) for one in found.layers])
        words = {name: [one.reads, one.writes] for name, one in found.counted.items()}
        if words != self.moves:
            raise DataError("other operators are in its totals.")
        if own is not None:
            layers = []
            for layer, work in zip(found.layers, own, strict=True):
                space = MapSpace(work, self.machine)
                record = mapping_record(space, stored_code(space, layer.workload, layer.record))
                told = {"workload": work, "workload_hash": work.hash, "record": record}
                layers.append(layer.model_copy(update=told))
            told = {"network": self.name, "accelerator": self.machine, "layers": tuple(layers)}
            found = found.model_copy(update=told)
        check_figures(found)
        return found

    def of_resident(self, row: Row) -> ResidentCertificate:
        """Likewise, where tensors stay on the chip; `ran_as` evaluates its mappings.

        Raises:
            ConfigError: as `of_network`.
            DataError: likewise.
        """
        found = parse_resident(*self._text(row))
        own = self._own(
            row,
            found,
            [
                (step.workload, step.count, Link.of(place, step.source, step.until, step.between))
                for place, step in enumerate(found.steps)
            ],
        )
        if [found.fixed_energy_pj, found.fixed_cycles, found.moves] != self.moves:
            raise DataError("other operators are in its totals.")
        return found if own is None else in_own_words(found, self.name, self.machine, own)

    def _text(self, row: Row) -> tuple[Any, str]:
        """The content of a row's certificate, and what a message about it starts with."""
        store, where = self.request.store, f"certificate {row.certificate}"
        assert store is not None  # the row is of it
        return parse_json(store.certificate(row).encode(), where, DataError), where

    def _own(
        self,
        row: Row,
        found: NetworkCertificate | ResidentCertificate,
        layers: Sequence[Listed],
    ) -> list[Workload] | None:
        """The layers of who asks that those of a certificate are; None where these are the same.

        Raises:
            DataError: it is of another network, machine or goal.
        """
        if found.accelerator.hash != self.machine.hash:
            raise DataError("its certificate is of another machine.")
        if (found.objective, found.limit) != (self.request.objective, self.limit):
            raise DataError("its certificate is of another objective or limit.")
        kept = _payload(row).layers
        own = {
            (was.name, was.hash): work for was, (work, _, _) in zip(kept, self.layers, strict=False)
        }
        counts, wanted = Counter[Any](), Counter[Any]()
        for was, count, link in layers:
            work = own.get((was.name, was.hash))
            counts[None if work is None else (work.name, work.hash), link] += count
        for work, count, link in self.layers:
            wanted[(work.name, work.hash), link] += count
        if counts != wanted:
            raise DataError("its certificate is of another network.")
        same = all(own[was.name, was.hash] == was for was, _, _ in layers)
        if same and (found.network, found.accelerator) == (self.name, self.machine):
            return None
        return [own[was.name, was.hash] for was, _, _ in layers]


class _Payload(StrictModel):
    """What a row of a network holds."""

    layers: tuple[Workload, ...]
    beside: dict[str, Any]


def _payload(row: Row) -> _Payload:
    """What a row holds.

    Raises:
        DataError: it is damaged.
    """
    return validate(_Payload, row.content(), f"row {row.name}", DataError)
