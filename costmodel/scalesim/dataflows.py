"""The cycles that SCALE-Sim counts for a layer on its array, by dataflow, without stalls.

A layer is the product of a P Q x (C R S) and a (C R S) x K matrix. A dataflow lays two of its three
sizes over rows and columns of the array and streams along the third; what exceeds the array is done
in *folds*, one after another. Every fold fills and drains the array; with weights or inputs
stationary they are loaded before it, a row a cycle (Samajdar et al., ISPASS 2020, section III).
Held to SCALE-Sim 3.0.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import Dataflow, ScaleSimArray

STATIONARY: Mapping[Dataflow, str] = {"os": "outputs", "ws": "weights", "is": "inputs"}
NAMES: Mapping[Dataflow, str] = {
    "os": "output stationary",
    "ws": "weight stationary",
    "is": "input stationary",
}


@dataclass(frozen=True)
class DataflowCycles:
    """Cycles of one run of a layer by one dataflow, and what they are spent on.

    Attributes:
        dataflow: what is stationary.
        folds: parts of the layer that the array does one after another.
        streamed: cycles of one fold in which operands stream, of full utilisation.
        load: cycles of one fold in which what is stationary is loaded.
        fill_and_drain: cycles of one fold for the first operand to reach the last element, and for
            the last result to leave.
        mapping_efficiency: share of the elements that have work, on average over folds.
        macs: multiply-accumulates.
        elements: of the array.
        stalls: cycles in which the array waits for the interface; None: they are not counted.
        cycles_with_prefetch: all cycles, with those before the first fold and until the last output
            has left; None: likewise.
    """

    dataflow: Dataflow
    folds: int
    streamed: int
    load: int
    fill_and_drain: int
    mapping_efficiency: float
    macs: int
    elements: int
    stalls: int | None = None
    cycles_with_prefetch: int | None = None

    @property
    def fold_cycles(self) -> int:
        """Of one fold."""
        return self.streamed + self.load + self.fill_and_drain

    @property
    def cycles(self) -> int:
        """Of all folds with their stalls; SCALE-Sim numbers cycles from 0, and says the last."""
        return self.folds * self.fold_cycles - 1 + (self.stalls or 0)

    @property
    def utilisation(self) -> float:
        """Multiply-accumulates per cycle and element."""
        # One multiply-accumulate on a 1 x 1 array ends in SCALE-Sim's cycle 0.
        return self.macs / (max(self.cycles, 1) * self.elements)

    @property
    def computing(self) -> int:
        """Cycles in which operands stream."""
        return self.folds * self.streamed

    @property
    def loading(self) -> int:
        """Cycles in which what is stationary is loaded."""
        return self.folds * self.load

    @property
    def filling(self) -> int:
        """Cycles in which the array fills and drains."""
        return self.cycles - self.computing - self.loading - (self.stalls or 0)


def unfolded(layer: TopologyLayer, dataflow: Dataflow) -> tuple[int, int, int]:
    """The sizes that are laid over rows and columns, and the one that is streamed."""
    if dataflow == "os":
        return layer.pixels, layer.filters, layer.window
    if dataflow == "ws":
        return layer.window, layer.filters, layer.pixels
    return layer.window, layer.pixels, layer.filters


def dataflow_cycles(
    array: ScaleSimArray, layer: TopologyLayer, dataflow: Dataflow
) -> DataflowCycles:
    """The cycles of one run of a layer, as if the buffers were always full in time.

    Args:
        array: rows and columns; buffers and bandwidths have no part in it.
        layer: of a topology.
        dataflow: what is stationary.
    """
    over_rows, over_columns, streamed = unfolded(layer, dataflow)
    folds = -(-over_rows // array.rows) * -(-over_columns // array.columns)
    elements = array.rows * array.columns
    load = 0 if dataflow == "os" else array.rows
    through = array.rows + array.columns - 2
    return DataflowCycles(
        dataflow,
        folds,
        streamed,
        load,
        through,
        over_rows * over_columns / (folds * elements),
        layer.macs,
        elements,
    )
