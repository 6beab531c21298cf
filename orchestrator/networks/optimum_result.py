"""What the search of a network's own optimum returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.machine_units import chip_text, has_real_units, idle_text, mean_idle_w
from mapspace.storage import Place, place
from orchestrator.networks.network_certificate import NetworkCertificate, certify_network
from orchestrator.networks.operators import Operators
from orchestrator.records.found_mapping import MappingCosts, save_records
from orchestrator.report.document import LEFT, Document, Section, Table
from orchestrator.report.shown import Fact, Shown, aligned
from orchestrator.report.text_table import table_lines
from orchestrator.report.units import (
    energy_text,
    latency_text,
    millijoules,
    percent,
    value_text,
)
from orchestrator.runs.locations import local_file
from orchestrator.schemas.search import JointAnswer, JointLayer

if TYPE_CHECKING:
    from costmodel.accelerators import Accelerator
    from costmodel.costs import Objective
    from orchestrator.networks.jointly import Optimum
    from orchestrator.networks.lines import Limit

HEADER = ("layer", "count", "energy, mJ", "cycles", "share of energy", "share of cycles")
FORMATS = (LEFT, "{:,}", "{:.5g}", "{:,.0f}", "{:.2f} %", "{:.2f} %")


@dataclass(frozen=True, repr=False)
class NetworkOptimum(Shown):
    """Mappings of a network's layers, chosen together for the network's objective.

    Attributes:
        network: its name.
        accelerator: the machine.
        found: the choice, and what bounds it.
        interrupted: whether an interruption ended it.
        operators: what only moves words.
    """

    network: str
    accelerator: Accelerator
    found: Optimum
    interrupted: bool
    operators: Operators

    @property
    def objective(self) -> Objective:
        """What the network minimises."""
        return self.found.objective

    @property
    def costs(self) -> MappingCosts:
        """Of the whole network."""
        found = self.found
        return MappingCosts(float(found.energy), found.cycles, self.accelerator.clock_ghz)

    @property
    def chip_power_w(self) -> float:
        """Mean power, W, where the instances that mappings leave idle leak as well."""
        certified = self.certificate.layers
        runs = [(layer.count * layer.latency_cycles, layer.record) for layer in certified]
        return self.costs.power_w + mean_idle_w(self.accelerator, runs, self.found.cycles)

    @property
    def proven(self) -> bool:
        """Whether no mappings have less of the objective in all."""
        return self.found.gap == 0

    @property
    def limit(self) -> Limit | None:
        """What the network had to be within."""
        return self.found.limit

    @property
    def lower_bound(self) -> float:
        """What no mappings are below in all, pJ and cycles."""
        return float(self.found.bound)

    @property
    def gap(self) -> float:
        """How far the choice can be above the optimum, as a share."""
        return self.found.gap

    @cached_property
    def certificate(self) -> NetworkCertificate:
        """What `mapspace verify` proves again."""
        return certify_network(self.network, self.found, self.operators)

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
            "seconds": self.found.seconds,
            "interrupted": self.interrupted,
            # Chosen anew: the store has mappings of single layers.
            "from_store": False,
            "uncounted_words": self.operators.uncounted,
            "moves": self.operators.rows(),
            "layers": self.rows(),
            "totals": {
                **costs.to_dict(),
                "chip_power_w": self.chip_power_w,
                "inferences_per_joule": 1e12 / costs.energy_pj,
                "proven": self.proven,
                "lower_bound": self.lower_bound,
                "gap": self.gap,
                "lines": len(self.found.cuts),
            },
        }

    def save(self, path: str | Path | Place) -> None:
        """Writes the mapping records as JSON lines, and the certificate beside them."""
        target = place(path)
        save_records(self.records, target)
        with local_file(target.with_suffix(".certificate.json")) as file:
            file.write_text(self.certificate.text())

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
        lines, seconds = len(self.found.cuts), self.found.seconds
        yield (
            "search",
            f"{len(self.certificate.layers)} distinct layers, {lines} lines, {seconds:.2f} s",
        )

    def table(self) -> Table:
        """A row per layer and the totals."""
        energy, cycles = float(self.found.energy), self.found.cycles
        rows = [
            (
                row["workload"],
                row["count"],
                millijoules(row["energy_pj"]),
                row["latency_cycles"],
                100 * row["count"] * row["energy_pj"] / energy,
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
        """The page of it."""
        facts = Table("facts", "", ("", ""), (LEFT, LEFT), tuple(self.facts()))
        sections = [
            Section("Totals, and what is certain", [facts]),
            Section("The layers", [self.table()]),
        ]
        lead = "Figures of a layer are for one occurrence; shares are of all of them."
        return Document(self.heading(), lead, sections)
