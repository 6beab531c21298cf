"""What `mapspace search --scalesim` says: the cycles of three dataflows, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import DATAFLOWS, Dataflow
from costmodel.scalesim.dataflows import NAMES, STATIONARY, DataflowCycles
from costmodel.scalesim.reading import ScaleSimInput
from orchestrator.report.document import LEFT, RIGHT, Cell, Row, Table
from orchestrator.report.text_table import table_lines, wrapped
from orchestrator.schemas.scalesim import (
    DataflowAnswer,
    ScaleSimAnswer,
    ScaleSimLayer,
)
from orchestrator.search.scalesim_best import ProvenLayer

MOST_EXPLAINED = 3
TOO_LARGE = "Stalls of the largest layers are not counted: too many cycles to walk through."


@dataclass(frozen=True)
class ScaleSimCycles:
    """The cycles of every layer of a topology by each dataflow.

    Attributes:
        read: what SCALE-Sim's files say.
        best: the proven fastest mapping of every layer; none where that was not asked for.
    """

    read: ScaleSimInput
    best: tuple[ProvenLayer, ...] = ()

    @cached_property
    def layers(self) -> list[tuple[TopologyLayer, dict[Dataflow, DataflowCycles]]]:
        """Every layer with the cycles of one run of it."""
        return [(layer, self.read.cycles(layer)) for layer in self.read.layers]

    @cached_property
    def totals(self) -> dict[Dataflow, int]:
        """Cycles of all layers, each as often as it is run."""
        return {
            flow: sum(layer.times * found[flow].cycles for layer, found in self.layers)
            for flow in DATAFLOWS
        }

    def to_dict(self) -> ScaleSimAnswer:
        """What JSON has of it."""
        array = self.read.array
        return {
            "topology": self.read.name,
            "rows": array.rows,
            "columns": array.columns,
            "dataflow": array.dataflow,
            "layers": self._layer_answers(),
            "totals": dict(self.totals),
            "fastest": _fastest(self.totals),
        }

    def _layer_answers(self) -> list[ScaleSimLayer]:
        found = [_layer_answer(layer, cycles) for layer, cycles in self.layers]
        for answer, best in zip(found, self.best, strict=False):
            answer["best"] = best.to_dict()
        return found

    def text(self) -> str:
        """For people: a row a layer, the totals, and why the dataflows differ where most."""
        array = self.read.array
        head = (
            f"{self.read.name} on {array.rows} x {array.columns} elements as SCALE-Sim counts, "
            f"configured {NAMES[array.dataflow]}"
        )
        lines = [*wrapped(head), "", *table_lines(self._table()), ""]
        if any(one.stalls is None for _, found in self.layers for one in found.values()):
            lines += [*wrapped(TOO_LARGE), ""]
        if self.best:
            lines += [*wrapped(self._proven()), ""]
        for layer, found in self._explained():
            lines += wrapped(f"{layer.name}: {why(found)}", "")
        return "\n".join(lines)

    def _proven(self) -> str:
        """What is proven of the fastest mappings."""
        proven = sum(best.proven for best in self.best)
        left = "" if proven == len(self.best) else f"{proven} of {len(self.best)} "
        stalls = ", stalls apart" if self.read.array.bandwidths is not None else ""
        return (
            f"{left}proven: whichever operand is stationary, no order and no tiles of the layers "
            f"take less than {self._fewest:,} cycles on this array, counted from 1{stalls}."
        )

    @property
    def _fewest(self) -> int:
        """Cycles of all layers, each by its proven fastest mapping."""
        layers = zip(self.read.layers, self.best, strict=True)
        return sum(layer.times * best.cycles for layer, best in layers)

    def _table(self) -> Table:
        names = [NAMES[flow] for flow in DATAFLOWS]
        header = ("cycles", *names, "fastest", f"{self.read.array.dataflow} / fastest")
        header += ("proven best",) if self.best else ()
        rows = [
            self._row(_named(layer), {flow: found[flow].cycles for flow in DATAFLOWS}, layer.times)
            for layer, found in self.layers
        ]
        for place, best in enumerate(self.best):
            rows[place] += (self.read.layers[place].times * best.cycles,)
        foot = [self._row("total", self.totals, 1)] if len(self.layers) > 1 else []
        if self.best and foot:
            foot[0] += (self._fewest,)
        formats = (LEFT, "{:,}", "{:,}", "{:,}", LEFT, RIGHT, *(["{:,}"] if self.best else []))
        return Table("cycles", "", header, formats, rows, foot)

    def _row(self, name: str, cycles: Mapping[Dataflow, int], times: int) -> Row:
        """A layer's cycles, and how much longer the configured dataflow takes than the fastest."""
        best = _fastest(cycles)
        ratio = max(cycles[self.read.array.dataflow], 1) / max(cycles[best], 1)
        found = [Cell(times * cycles[flow], strong=flow == best) for flow in DATAFLOWS]
        return (name, *found, best, f"{ratio:.2f}")

    def _explained(self) -> Iterator[tuple[TopologyLayer, dict[Dataflow, DataflowCycles]]]:
        """The layers in which dataflows differ most, in cycles."""
        spread = sorted(self.layers, key=lambda entry: -_spread(*entry))
        chosen = {layer.place for layer, _ in spread[:MOST_EXPLAINED]}
        return (entry for entry in self.layers if entry[0].place in chosen)


def why(found: Mapping[Dataflow, DataflowCycles]) -> str:
    """Why the slowest dataflow of a layer takes longer than the fastest, with figures."""
    best, worst = (found[flow] for flow in _order({f: one.cycles for f, one in found.items()}))
    if best.cycles == worst.cycles:
        return "all dataflows take as long as each other."
    ratio = max(worst.cycles, 1) / max(best.cycles, 1)
    return (
        f"{NAMES[worst.dataflow]} takes {ratio:.2f} times as long as {NAMES[best.dataflow]}. "
        f"It needs {_spent(worst)}. The other needs {_spent(best)}."
    )


def _spent(cycles: DataflowCycles) -> str:
    """What cycles are spent on."""
    load = f", loading {STATIONARY[cycles.dataflow]} {cycles.loading:,}" if cycles.load else ""
    waits = f", waiting for the interface {cycles.stalls:,}" if cycles.stalls else ""
    folds = "fold" if cycles.folds == 1 else "folds"
    return (
        f"{cycles.folds:,} {folds}: computing {cycles.computing:,} cycles{load}, filling and "
        f"draining the array {cycles.filling:,}{waits}"
    )


def _order(cycles: Mapping[Dataflow, int]) -> tuple[Dataflow, Dataflow]:
    """The fastest and the slowest; of equal ones the first."""
    return _fastest(cycles), max(cycles, key=lambda flow: cycles[flow])


def _fastest(cycles: Mapping[Dataflow, int]) -> Dataflow:
    return min(cycles, key=lambda flow: cycles[flow])


def _spread(layer: TopologyLayer, found: Mapping[Dataflow, DataflowCycles]) -> int:
    cycles = [one.cycles for one in found.values()]
    return layer.times * (max(cycles) - min(cycles))


def _named(layer: TopologyLayer) -> str:
    return f"{layer.name} x {layer.times:,}" if layer.times > 1 else layer.name


def _layer_answer(layer: TopologyLayer, found: Mapping[Dataflow, DataflowCycles]) -> ScaleSimLayer:
    return {
        "name": layer.name,
        "times": layer.times,
        "macs": layer.macs,
        "dataflows": {flow: _answer(one) for flow, one in found.items()},
        "fastest": _fastest({flow: one.cycles for flow, one in found.items()}),
        "why": why(found),
    }


def _answer(one: DataflowCycles) -> DataflowAnswer:
    return {
        "cycles": one.cycles,
        "folds": one.folds,
        "computing": one.computing,
        "loading": one.loading,
        "filling": one.filling,
        "stalls": one.stalls,
        "cycles_with_prefetch": one.cycles_with_prefetch,
        "mapping_efficiency": one.mapping_efficiency,
        "utilisation": one.utilisation,
    }
