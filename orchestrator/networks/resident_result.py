"""What the search of a network that keeps tensors on the chip returns, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from costmodel.machines.resident import shared_buffer
from orchestrator.networks.buffer_figure import draw_buffer
from orchestrator.networks.cascade_text import drawn, energy_by_level, split_text
from orchestrator.networks.jointly import Optimum
from orchestrator.networks.lines import Limit
from orchestrator.networks.resident_certificate import ResidentCertificate
from orchestrator.networks.runs_of_steps import CascadeRow, Ran
from orchestrator.networks.together import Together
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.report.document import LEFT, Document, Figure, Section, Table
from orchestrator.report.shown import Fact, aligned
from orchestrator.report.text_table import table_lines
from orchestrator.report.units import energy_text, latency_text, millijoules, percent, value_text
from orchestrator.schemas.search import FusedCascade, ResidentAnswer, ResidentLayer

HEADER = ("layer", "count", "reads from", "output", "words on chip", "energy, mJ", "cycles")
FORMATS = (LEFT, "{:,}", LEFT, LEFT, "{:,}", "{:.5g}", "{:,.0f}")

CASCADE_HEADER = (
    "cascade", "fused", "shared loops", "kept", "words", "apart, mJ", "stays, mJ", "fused, mJ",
    "apart, cycles", "stays, cycles", "fused, cycles",
)  # fmt: skip
CASCADE_FORMATS = (LEFT, LEFT, LEFT, LEFT, "{:,}", *["{:.5g}"] * 3, *["{:,.0f}"] * 3)


class Beside(NamedTuple):
    """What was found where less is allowed.

    Attributes:
        value: the objective, pJ and cycles.
        gap: how far it can be above the least, as a share.
        seconds: how long it took.
    """

    value: Fraction
    gap: float
    seconds: float

    @classmethod
    def of(cls, found: Optimum | None) -> Beside | None:
        """Of an optimum; None where nothing is known."""
        return None if found is None else cls(found.value, found.gap, found.seconds)


@dataclass(frozen=True, repr=False)
class ResidentOptimum(Together[ResidentCertificate]):
    """Mappings of a network's layers and the tensors that stay on the chip, chosen together.

    Attributes:
        ran: every layer in the network's order, as it runs.
        alone: the same where nothing stays; None: nothing is known within the limit then.
        proofs: how many proofs a line of the bound is of.
        staying: where tensors may stay but there are no cascades; None: so is the answer, or
            nothing is known within the limit then.
        cascades: those that are chosen, and what others of two layers are worth.
        all_ways: whether it was looked at what stays: there may not have been the time.
    """

    ran: tuple[Ran, ...]
    alone: Beside | None
    proofs: int
    staying: Beside | None = None
    cascades: tuple[CascadeRow, ...] = ()
    all_ways: bool = True

    @property
    def seconds(self) -> float:
        """How long the search took, with and without tensors that stay."""
        beside = (self.staying, self.alone)
        return self.certificate.seconds + sum(0.0 if one is None else one.seconds for one in beside)

    @property
    def worth(self) -> float | None:
        """By which share the objective falls where tensors stay; None: not known."""
        if self.alone is None or not self.all_ways:
            return None
        if not self.alone.value:
            return 0.0  # nothing can be saved
        return float(1 - self.value / self.alone.value)

    def rows(self) -> list[ResidentLayer]:
        """A row per layer in the network's order; costs are those of one occurrence."""
        clock = self.accelerator.clock_ghz
        return [
            {
                "workload": ran.step.workload.name,
                "count": ran.step.count,
                "input_stays": ran.input_stays,
                "output_stays": ran.output_stays,
                "resident_words": ran.words,
                "fused": ran.fused,
                "iterations": ran.times,
                **MappingCosts(float(ran.energy), ran.cycles, clock).to_dict(),
            }
            for ran in self.ran
        ]

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per layer, on the machine as the layer finds it.

        Of the layers of a cascade it is that of one pass.
        """
        return [
            {
                "layer": ran.step.workload.name,
                "count": ran.step.count,
                **({"iterations": ran.times} if ran.fused else {}),
                **step.record,
            }
            for ran, step in zip(self.ran, self.certificate.steps, strict=True)
        ]

    def to_dict(self) -> ResidentAnswer:
        """What `mapspace search --network --jointly --resident --json` prints."""
        found, alone = self.certificate, self.alone
        limit = self.limit or Limit()
        return {
            "network": self.network,
            "accelerator": self.accelerator.name,
            "objective": found.objective,
            "resident": True,
            "fused": found.fused,
            "max_cycles": limit.cycles,
            "max_energy_pj": None if limit.energy is None else float(limit.energy),
            "buffer": shared_buffer(self.accelerator).name,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "from_store": self.from_store,
            "moves": self.operators.rows(),
            "energy_by_level": self.energy_by_level,
            "layers": self.rows(),
            "cascades": [self._cascade(row) for row in self.cascades],
            "totals": {
                **self.costs.to_dict(),
                "proven": self.proven,
                "lower_bound": self.lower_bound,
                "gap": self.gap,
                "lines": len(found.cuts),
                "alone": None if alone is None else float(alone.value),
                "alone_proven": alone is not None and alone.gap == 0,
                "staying": None if self.staying is None else float(self.staying.value),
                "worth": self.worth,
            },
        }

    def _cascade(self, row: CascadeRow) -> FusedCascade:
        clock = self.accelerator.clock_ghz
        ways = (row.fused, row.staying, row.alone)
        fused, staying, alone = (
            MappingCosts(float(energy), cycles, clock).to_dict() for energy, cycles in ways
        )
        return {
            "layers": list(row.layers),
            "chosen": row.chosen,
            "outer": [[name, factor] for name, factor in row.outer],
            "kept": list(row.kept),
            "words": row.words,
            "fused": fused,
            "staying": staying,
            "alone": alone,
            "passes": row.passes,
            "overlaps": row.overlaps,
        }

    def facts(self) -> Iterable[Fact]:
        """The totals, what staying is worth, and what is certain."""
        found, clock, costs = self.certificate, self.accelerator.clock_ghz, self.costs
        yield "energy", energy_text(costs.energy_pj)
        yield "energy split", split_text(self.energy_by_level)
        yield "latency", f"{latency_text(costs.latency_cycles, clock)}, one layer after another"
        yield "EDP", f"{value_text('edp', costs.edp, clock)} (total energy x total time)"
        stays = sum(ran.output_stays and not ran.fused for ran in self.ran)
        could = sum(ran.step.until > place for place, ran in enumerate(self.ran))
        name = shared_buffer(self.accelerator).name
        yield "stay in " + name, f"{stays} of {could} tensors that another layer reads"
        if found.fused:
            yield "cascades", self._fused_text()
        objective, limit = self.objective, self.limit
        if not self.all_ways:
            yield "worth", "not known: there was no time to look at what could stay"
        elif self.alone is None or self.worth is None:
            yield "worth", f"nothing is known within {limit} where nothing stays"
        else:
            before = value_text(objective, float(self.alone.value), clock)
            left = percent(self.alone.gap, up=True)
            least = "" if self.alone.gap == 0 else f" at most ({left} open)"
            share = percent(self.worth)
            yield "worth", f"{share} of {objective}{least}: {before} where nothing stays"
        if self.staying is not None:
            value = self.staying.value
            share = percent(float(1 - self.value / value) if value else 0.0)
            less = value_text(objective, float(value), clock)
            yield "of it fusing", f"{share}: {less} where tensors stay whole or not at all"
        within = "" if limit is None else " within the limit"
        fused = " or run in cascades of this form" if found.fused else ""
        if self.proven:
            what = f"no mappings and tensors that stay{fused}"
            yield "proven optimal", f"{what} have a lower {objective}{within}"
        else:
            bound = value_text(objective, self.lower_bound, clock)
            gap = percent(self.gap, up=True)
            yield "certified", f"within {gap} of the optimum{within}: none is below {bound}"
        # Beside what stays on the chip they move words no further out.
        moves = self.operators.fact(most="at most ")
        if moves is not None and self.operators.counted:
            label = moves[0]
            what = ", ".join(self.operators.words)
            yield label, f"{what} are in the totals, at {name} where what they change lies there"
        elif moves is not None:
            yield moves
        yield (
            "search",
            f"{self.proofs} proofs a line, {len(found.cuts)} lines, {self.seconds:.2f} s",
        )
        if self.stored is not None:
            yield "from the store", self.stored

    @cached_property
    def energy_by_level(self) -> dict[str, float]:
        """Where the energy goes, pJ: levels, networks, multiply-accumulates and the rest."""
        buffer = shared_buffer(self.accelerator).name
        plain = [step.record for step in self.certificate.steps]
        energy = Fraction(self.certificate.energy_pj)
        return energy_by_level(self.ran, plain, buffer, energy)

    def _drawn(self) -> Iterator[str]:
        """The cascades, each once however often the network has it."""
        buffer = shared_buffer(self.accelerator).name
        for row in self.cascades:
            if row.chosen:
                yield from drawn(row, buffer)
                yield ""

    def _fused_text(self) -> str:
        """How many layers run in cascades."""
        chosen = [row for row in self.cascades if row.chosen]
        if not chosen:
            return "fusing does not pay: no layers run in passes together"
        layers = sum(ran.fused for ran in self.ran)
        longest = max(len(row.layers) for row in chosen)
        return f"{layers} of {len(self.ran)} layers, up to {longest} in one"

    def _cascades_table(self) -> Table:
        rows = [
            (
                " > ".join(row.layers), "yes" if row.chosen else "no",
                " ".join(f"{name}:{factor}" for name, factor in row.outer) or "none",
                ", ".join(row.kept) or "none", row.words,
                *(millijoules(float(way[0])) for way in (row.alone, row.staying, row.fused)),
                *(way[1] for way in (row.alone, row.staying, row.fused)),
            )
            for row in self.cascades
        ]  # fmt: skip
        return Table("cascades", "", CASCADE_HEADER, CASCADE_FORMATS, rows, [])

    def heading(self) -> str:
        """Network, machine and goal."""
        within = "" if self.limit is None else f" within {self.limit}"
        return (
            f"{self.network} on {self.accelerator.name}, all layers for the network's "
            f"{self.objective}{within}; tensors may stay on the chip"
        )

    def document(self) -> Document:
        """The page of it."""
        buffer = shared_buffer(self.accelerator)
        drawn = Figure(
            "buffer",
            f"What lies in {buffer.name} while each layer runs",
            lambda path: draw_buffer(self.ran, buffer.name, buffer.capacity_words or 0, path),
        )
        facts = Table("facts", "", ("", ""), (LEFT, LEFT), tuple(self.facts()))
        sections = [
            Section("Totals, and what is certain", [facts]),
            Section("The shared buffer", [drawn]),
            Section("The layers", [self._layers_table()]),
        ]
        if self.cascades:
            sections.append(Section("Cascades that could be", [self._cascades_table()]))
        return Document(self.heading(), "Figures of a layer are for one occurrence.", sections)

    def _layers_table(self) -> Table:
        rows = [
            (
                row["workload"], row["count"],
                "chip" if row["input_stays"] else "DRAM",
                f"tile, {row['iterations']} times" if row["fused"] and row["output_stays"]
                else "stays" if row["output_stays"] else "to DRAM",
                row["resident_words"], millijoules(row["energy_pj"]), row["latency_cycles"],
            )
            for row in self.rows()
        ]  # fmt: skip
        return Table("layers", "", HEADER, FORMATS, rows, [])

    def picture(self) -> str:
        """The table and the totals, as text."""
        lines = [
            self.heading(),
            "",
            *table_lines(self._layers_table()),
            "",
            *([*table_lines(self._cascades_table()), ""] if self.cascades else []),
            *self._drawn(),
            *aligned(self.facts()),
        ]
        return "\n".join([*lines, *(["interrupted: the best so far."] * self.interrupted)])
