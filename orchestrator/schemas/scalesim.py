"""What `mapspace search --scalesim` prints."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.schemas.costs import JsonRecord

Dataflow = Literal["os", "ws", "is"]


class DataflowAnswer(TypedDict):
    """One run of a layer by a dataflow, as SCALE-Sim counts.

    Attributes:
        cycles: of all folds with their stalls.
        folds: parts of the layer that the array does one after another.
        computing: cycles in which operands stream.
        loading: cycles in which what is stationary is loaded.
        filling: cycles in which the array fills and drains.
        stalls: cycles in which it waits for the interface; null: too many to walk through.
        cycles_with_prefetch: all cycles, with what is loaded before the first fold and what leaves
            after the last; null: likewise.
        mapping_efficiency: share of the elements that have work, on average over folds.
        utilisation: multiply-accumulates per cycle and element.
    """

    cycles: int
    folds: int
    computing: int
    loading: int
    filling: int
    stalls: int | None
    cycles_with_prefetch: int | None
    mapping_efficiency: float
    utilisation: float


class ProvenAnswer(TypedDict):
    """The fastest mapping of a layer, over the machines of all dataflows.

    Attributes:
        dataflow: of the machine on which it is.
        cycles: that it takes, counted from 1.
        proven: whether no mapping on any of the machines is faster.
        lower_bound: cycles that none undercuts.
        record: the mapping, of the product padded to whole folds.
    """

    dataflow: Dataflow
    cycles: int
    proven: bool
    lower_bound: int
    record: JsonRecord


class ScaleSimLayer(TypedDict):
    """A layer of the topology.

    Attributes:
        times: how often it is run: a layer whose name holds DP once per channel.
        macs: multiply-accumulates of one run.
        dataflows: one run by each dataflow.
        fastest: the dataflow of the fewest cycles.
        why: why the slowest takes longer than the fastest.
        best: the proven fastest mapping, where that was asked for.
    """

    name: str
    times: int
    macs: int
    dataflows: dict[Dataflow, DataflowAnswer]
    fastest: Dataflow
    why: str
    best: NotRequired[ProvenAnswer]


class ScaleSimAnswer(TypedDict):
    """The cycles of three dataflows for every layer of a topology.

    Attributes:
        topology: its name.
        rows: of the array.
        columns: of the array.
        dataflow: of the configuration.
        totals: cycles of all layers by each dataflow.
        fastest: the dataflow of the fewest cycles in all.
    """

    topology: str
    rows: int
    columns: int
    dataflow: Dataflow
    layers: list[ScaleSimLayer]
    totals: dict[Dataflow, int]
    fastest: Dataflow
