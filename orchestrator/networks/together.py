"""What is common to answers about a whole network: a certificate, and what is read off it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mapspace.arguments import checked
from mapspace.storage import Place, place, writing
from orchestrator.networks.lines import value_of
from orchestrator.networks.network_certificate import NetworkCertificate
from orchestrator.networks.resident_certificate import ResidentCertificate
from orchestrator.records.found_mapping import MappingCosts, save_records
from orchestrator.report.shown import Shown
from orchestrator.runs.locations import local_file

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from orchestrator.networks.lines import Limit
    from orchestrator.networks.operators import Operators

Certified = TypeVar("Certified", NetworkCertificate, ResidentCertificate)


@dataclass(frozen=True, repr=False)
class Together(Shown, Generic[Certified]):
    """Mappings of a network's layers, chosen together for the network's objective.

    Attributes:
        network: its name.
        accelerator: the machine.
        certificate: the choice, and what bounds it; `mapspace verify` proves it again.
        operators: what only moves words.
        interrupted: whether an interruption ended the search.
        stored: where it was read, and when it was found; None: it was searched now.
    """

    network: str
    accelerator: Accelerator
    certificate: Certified
    operators: Operators
    interrupted: bool
    stored: str | None

    @property
    def from_store(self) -> bool:
        """Whether it was read from a store, and not searched now."""
        return self.stored is not None

    @property
    def objective(self) -> Objective:
        """What the network minimises."""
        return self.certificate.objective

    @property
    def costs(self) -> MappingCosts:
        """Of the whole network."""
        energy = float(Fraction(self.certificate.energy_pj))
        return MappingCosts(energy, self.certificate.latency_cycles, self.accelerator.clock_ghz)

    @property
    def value(self) -> Fraction:
        """The network's objective, pJ and cycles."""
        energy, cycles = self.certificate.energy_pj, self.certificate.latency_cycles
        return value_of(self.objective, Fraction(energy), Fraction(cycles))

    @property
    def proven(self) -> bool:
        """Whether no mappings have less of the objective in all."""
        return self.certificate.proven

    @property
    def limit(self) -> Limit | None:
        """What the network had to be within."""
        return self.certificate.limit

    @property
    def lower_bound(self) -> float:
        """What no mappings are below in all, pJ and cycles."""
        return float(Fraction(self.certificate.lower_bound))

    @property
    def gap(self) -> float:
        """How far the choice can be above the optimum, as a share."""
        return self.certificate.gap

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per layer, with `layer` and `count`."""
        raise NotImplementedError

    @checked
    def save(self, path: str | Path | Place) -> None:
        """Writes the mapping records as JSON lines, and the certificate beside them."""
        target = place(path)
        save_records(self.records, target)
        beside = target.with_suffix(".certificate.json")
        with writing(beside), local_file(beside) as file:
            file.write_text(self.certificate.text())
