"""What the search of a network's own optimum returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from costmodel.machines.machine_units import chip_text, has_real_units, idle_text, mean_idle_w
from orchestrator.networks.network_certificate import NetworkCertificate
from orchestrator.networks.together import Together
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.report.document import LEFT, Document, Figure, Section, Table
from orchestrator.report.shown import Fact, aligned
from orchestrator.report.text_table import table_lines
from orchestrator.report.units import (
    energy_text,
    latency_text,
    millijoules,
    percent,
    value_text,
)
from orchestrator.schemas.search import JointAnswer, JointLayer

HEADER = ("layer", "count", "energy, mJ", "cycles", "share of energy", "share of cycles")
# Nests that a page shows: of the layers that take most.
MOST_NESTS = 5
FORMATS = (LEFT, "{:,}", "{:.5g}", "{:,.0f}", "{:.2f} %", "{:.2f} %")


@dataclass(frozen=True, repr=False)
class NetworkOptimum(Together[NetworkCertificate]):
    """Mappings of a network's layers, chosen together for the network's objective."""

    @property
    def chip_power_w(self) -> float:
        """Mean power, W, where the instances that mappings leave idle leak as well."""
        found = self.certificate
        runs = [(layer.count * layer.latency_cycles, layer.record) for layer in found.layers]
        return self.costs.power_w + mean_idle_w(self.accelerator, runs, found.latency_cycles)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per layer, with `layer` and `count`."""
        return [
            {"layer": layer.workload.name, "count": layer.count, **layer.record}
            for layer in self.certificate.layers
        ]

    def rows(self) -> list[JointLayer]:
        """A row per layer; costs are those of one occurrence."""
        clock = self.accelerator.clock_ghz
        return [
            {
                "workload": layer.workload.name,
                "count": layer.count,
                **MappingCosts(
                    float(Fraction(layer.energy_pj)), layer.latency_cycles, clock
                ).to_dict(),
            }
            for layer in self.certificate.layers
        ]

    def to_dict(self) -> JointAnswer:
        """What `mapspace search --network --jointly --json` prints."""
        costs = self.costs
        return {
            "network": self.network,
            "accelerator": self.accelerator.name,
            "objective": self.objective,
            "jointly": True,
            "max_cycles": self.certificate.most_cycles,
            "max_energy_pj": None
            if self.limit is None or self.limit.energy is None
            else float(self.limit.energy),
            "seconds": self.certificate.seconds,
            "interrupted": self.interrupted,
            "from_store": self.from_store,
            "uncounted_words": self.operators.uncounted,
            "moves": self.operators.rows(),
            "layers": self.rows(),
            "totals": {
                **costs.to_dict(),
                "chip_power_w": self.chip_power_w,
                "inferences_per_joule": 1e12 / costs.energy_pj if costs.energy_pj else None,
                "proven": self.proven,
                "lower_bound": self.lower_bound,
                "gap": self.gap,
                "lines": len(self.certificate.cuts),
            },
        }

    def heading(self) -> str:
        """Network, machine and goal."""
        return (
            f"{self.network} on {self.accelerator.name}, all layers for the network's "
            f"{self.objective}{'' if self.limit is None else f' within {self.limit}'}"
        )

    def facts(self) -> Iterable[Fact]:
        """The totals, and what is certain."""
        costs, clock = self.costs, self.accelerator.clock_ghz
        yield "energy", energy_text(costs.energy_pj)
        yield "latency", f"{latency_text(costs.latency_cycles, clock)}, one layer after another"
        yield "mean power", f"{costs.power_w:.4g} W"
        if has_real_units(self.accelerator):
            yield "", idle_text(self.chip_power_w)
            yield "chip", chip_text(self.accelerator)
        yield "EDP", f"{value_text('edp', costs.edp, clock)} (total energy x total time)"
        if costs.energy_pj:
            yield "per joule", f"{1e12 / costs.energy_pj:.4g} inferences (throughput per watt)"
        within = "" if self.limit is None else " within the limit"
        if self.proven:
            yield "proven optimal", f"no mappings have a lower {self.objective} in all{within}"
        else:
            bound = value_text(self.objective, self.lower_bound, clock)
            gap = percent(self.gap, up=True)
            yield (
                "certified",
                f"within {gap} of the network's optimum{within}: none is below {bound}",
            )
        moves = self.operators.fact()
        if moves is not None:
            yield moves
        lines, seconds = len(self.certificate.cuts), self.certificate.seconds
        yield (
            "search",
            f"{len(self.certificate.layers)} distinct layers, {lines} lines, {seconds:.2f} s",
        )
        if self.stored is not None:
            yield "from the store", self.stored

    def table(self) -> Table:
        """A row per layer and the totals."""
        energy, cycles = self.costs.energy_pj, self.certificate.latency_cycles
        rows = [
            (
                row["workload"],
                row["count"],
                millijoules(row["energy_pj"]),
                row["latency_cycles"],
                100 * row["count"] * row["energy_pj"] / (energy or 1.0),
                100 * row["count"] * row["latency_cycles"] / cycles,
            )
            for row in self.rows()
        ]
        every = sum(layer.count for layer in self.certificate.layers)
        foot = ("total", every, millijoules(energy), cycles, 100.0, 100.0)
        return Table("layers", "", HEADER, FORMATS, rows, [foot])

    def picture(self) -> str:
        """The table and the totals, as text."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.heading()
        yield ""
        yield from table_lines(self.table())
        yield ""
        yield from aligned(self.facts())
        if self.interrupted:
            yield "interrupted: this is the best so far."

    def document(self) -> Document:
        """The page of it: totals, a bar per layer, and the nests of those that take most."""
        from orchestrator.answers.mapping_page import mapping_sections
        from orchestrator.explain.read_mapping import read_mapping
        from orchestrator.networks.layers_figure import draw_layers

        facts = Table("facts", "", ("", ""), (LEFT, LEFT), tuple(self.facts()))
        found = [(read_mapping(one.record), one) for one in self.certificate.layers]
        layers = [(read.drawn._replace(title=one.workload.name), one.count) for read, one in found]
        bars = Figure(
            "layers", "what each layer takes", lambda path: draw_layers(layers, path),
            "Energy by level and cycles, of all occurrences of a layer together.",
        )  # fmt: skip
        sections = [
            Section("Totals, and what is certain", [facts]),
            Section("The layers", [bars, self.table()]),
        ]
        # Of the others the records have the nests.
        most = sorted(range(len(layers)), key=lambda place: -self._share(place))[:MOST_NESTS]
        for place in most:
            drawn = layers[place][0]._replace(
                title=f"{layers[place][0].title}: {100 * self._share(place):.1f} % of the "
                f"{'cycles' if self.objective == 'latency' else 'energy'}"
            )
            sections += mapping_sections(drawn, f"layer-{place}")[:1]
        lead = "Figures of a layer are for one occurrence; shares are of all of them."
        return Document(self.heading(), lead, sections)

    def _share(self, place: int) -> float:
        """What a layer has of the network's cycles where these are sought, else of its energy."""
        layer, whole = self.certificate.layers[place], self.certificate
        if self.objective == "latency":
            return layer.count * layer.latency_cycles / whole.latency_cycles
        energy = Fraction(whole.energy_pj) or 1  # of none every share is none
        return float(layer.count * Fraction(layer.energy_pj) / energy)
