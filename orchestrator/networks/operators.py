"""What a network's operators without multiply-accumulates cost: softmax, normalisation, additions.

They read and write words at the outermost level, one after another, and nothing runs beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from costmodel.machines.accelerators import Accelerator
from costmodel.networks.moves import Moved, Words, changed_off_chip
from orchestrator.report.shown import Fact
from orchestrator.report.units import energy_text
from orchestrator.schemas.search import OperatorMoves


@dataclass(frozen=True)
class Operators:
    """A network's operators that only move words.

    Attributes:
        words: what each reads and writes over the whole network.
        machine: where.
        counted: whether they are in the totals.
    """

    words: Mapping[str, Words]
    machine: Accelerator
    counted: bool = False

    @property
    def cost(self) -> Moved:
        """Of all of them."""
        several = [changed_off_chip(self.machine, *words) for words in self.words.values()]
        energy = sum((one.energy for one in several), Fraction(0))
        return Moved(energy, sum(one.cycles for one in several))

    @property
    def in_totals(self) -> Moved:
        """What of it the totals have."""
        return self.cost if self.counted else Moved(Fraction(0), 0)

    @property
    def uncounted(self) -> dict[str, int]:
        """Words of each that no total has."""
        return {} if self.counted else {name: one.both for name, one in self.words.items()}

    def rows(self) -> list[OperatorMoves]:
        """What `--json` prints of each."""
        found: list[OperatorMoves] = []
        for name, words in self.words.items():
            cost = changed_off_chip(self.machine, *words)
            found.append(
                {
                    "operator": name,
                    "reads": words.reads,
                    "writes": words.writes,
                    "energy_pj": float(cost.energy),
                    "latency_cycles": cost.cycles,
                    "counted": self.counted,
                }
            )
        return found

    def fact(self, most: str = "") -> Fact | None:
        """What a person reads; None where there are no such operators.

        Args:
            most: said before the cost of what is not counted, where it can be less.
        """
        if not self.words:
            return None
        return moves_fact(self.rows(), most)


def moves_fact(rows: list[OperatorMoves], most: str = "") -> Fact:
    """What a person reads of rows, of which there is one; `most` as in `Operators.fact`."""
    counted = rows[0]["counted"]
    what = ", ".join(row["operator"] for row in rows)
    words = sum(row["reads"] + row["writes"] for row in rows)
    energy = energy_text(sum(row["energy_pj"] for row in rows))
    cycles = sum(row["latency_cycles"] for row in rows)
    cost = f"{energy} and {cycles:,} cycles"
    if counted:
        return "moves", f"{what} move {words:,} words: {cost}, in the totals"
    return (
        "not counted",
        f"{what} move {words:,} words and multiply nothing: {most}{cost} (--moves)",
    )
