"""What a design has found, and how it reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.design.branching import Settled
from orchestrator.design.certificate import DesignCertificate, how_good
from orchestrator.design.further import Step, step_lines
from orchestrator.design.machine_grid import machines_in
from orchestrator.design.trade_front import TradeFront
from orchestrator.design.trade_report import trade_text
from orchestrator.report.document import LEFT, RIGHT, Row, Section, Table
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.text_table import fitted, wrapped
from orchestrator.sweep.report import text_summary
from orchestrator.sweep.results import SweepResults


@dataclass(frozen=True, repr=False)
class DesignResults(Shown):
    """The best machines of a grid.

    Attributes:
        machines: of those that were proven, as of a sweep's; of energy-delay-area a `TradeFront`.
        settled: why each machine of the grid needs no more work, for each aim; boxes that are the
            grid together.
        certificate: what `verify` proves again.
        problems: how many there are of the whole grid, for all aims.
        steps: what the next value of each key would bring the best machine; empty for fronts.
        ends: the keys of which it has the grid's best value; empty for fronts.
    """

    machines: SweepResults
    settled: Sequence[Settled]
    certificate: DesignCertificate
    problems: int
    steps: Sequence[Step] = ()
    ends: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether no machine of the grid is better than those of the front."""
        return self.certificate.proven

    @property
    def gap(self) -> float | None:
        """How far the front is above the best at most, as a share; None: not known."""
        return self.certificate.gap

    @property
    def size(self) -> int:
        """How many machines the grid has."""
        return math.prod(map(len, (self.certificate.design.grid or {}).values()))

    @property
    def proofs(self) -> int:
        """Proofs of a layer on a machine that were needed."""
        return len(self.certificate.proofs)

    def heading(self) -> str:
        """The design's name and size."""
        return f"{self.machines.plan.sweep.name}: {self.share()}"

    def facts(self) -> Iterable[Fact]:
        """As of the sweep of the machines that were proven, or of the front of three."""
        return self.machines.facts()

    def share(self) -> str:
        """How much of the grid was proven."""
        return (
            f"{self.proofs:,} proofs for a grid of {self.problems:,} "
            f"({self.proofs / self.problems:.2%})"
        )

    def reasons(self) -> str:
        """How many machines were settled for which reason."""
        words = {
            "proven": "proven themselves",
            "bound": "no better than one found",
            "dominated": "no better than with the best value of a key that takes no area",
            "area": "larger than the limit",
            "limits": "above the limits by their least energies and times",
            "power": "above the limit of power",
            "infeasible": "without a mapping",
            "open": "left open",
        }
        counts = self.counts()
        return ", ".join(f"{counts[why]:,} {word}" for why, word in words.items() if why in counts)

    def counts(self) -> dict[str, int]:
        """Machines by the reason why they need no more work, over all aims."""
        found: dict[str, int] = {}
        for one in self.settled:
            found[one.why] = found.get(one.why, 0) + machines_in(one.box)
        return found

    def summary(self) -> str:
        """The front, and how much of the grid it took to prove it."""
        trade = self.machines if isinstance(self.machines, TradeFront) else None
        front = trade_text(trade) if trade else text_summary(self.machines)
        told = [line for text in self._certain() for line in wrapped(text)]
        return "\n".join([front, "", *told, *map(fitted, step_lines(self.steps, self.ends))])

    def _certain(self) -> Iterator[str]:
        """How much of the grid was proven, and what that says of all of it."""
        trade, size = isinstance(self.machines, TradeFront), self.size
        aims = self.problems // size // len(self.certificate.layers)
        each = f", for {aims} aims" if trade else ""
        yield f"{size:,} machines{each}: {self.share()}, {self.reasons()}"
        if not self.proven:
            yield f"Of this grid: {how_good(math.inf if self.gap is None else self.gap)}."
        elif self.certificate.design.find == "best":
            yield "No machine of the grid is better; the front is of those proven alone."
        elif not trade:
            yield "No other machine of the grid is on the front."

    def proof(self) -> Section:
        """The part of its page that says what is certain, and what binds."""
        counts, *certain = self._certain()
        blocks: list[str | Table] = [*certain, f"{counts}."]
        if self.proven:
            file = "`mapspace verify certificate.json` proves it again."
            blocks.append(f"Proven: the certificate beside this page says why; {file}")
        if self.steps or self.ends:
            rows: list[Row] = [step.row for step in self.steps]
            rows += [(key, "", "", "the grid ends here", "", None) for key in self.ends]
            header = ("key", "best", "one step further", "it has", "limits", "area")
            areas = [row[-1] for row in rows if isinstance(row[-1], float)]
            shown = "{:,.0f}" if max(areas, default=0) >= 1000 else "{:.4g}"
            formats = (LEFT, RIGHT, RIGHT, LEFT, LEFT, shown)
            title = "One step further from the best machine, all else the same, proven"
            blocks.append(Table("steps", title, header, formats, rows))
        return Section("What is certain", blocks)
