"""`mapspace search --scalesim --prove`: the fastest mapping of every layer on SCALE-Sim's array."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import DATAFLOWS, Dataflow
from costmodel.scalesim.machines import machine_of, product_of
from costmodel.scalesim.reading import ScaleSimInput
from mapspace.errors import DataError
from orchestrator.answers.request import Request
from orchestrator.schemas.scalesim import ProvenAnswer
from orchestrator.search.one_workload import search

SECONDS = 20.0
"""Of a proof, where nothing else is said."""


@dataclass(frozen=True)
class ProvenLayer:
    """The fastest mapping of a layer over the machines of all dataflows.

    Attributes:
        dataflow: of the machine on which it is.
        cycles: that it takes, from 1.
        bound: cycles that no mapping on any of the machines undercuts.
        record: the mapping, of the product padded to whole folds.
    """

    dataflow: Dataflow
    cycles: int
    bound: int
    record: dict[str, Any]

    @property
    def proven(self) -> bool:
        """Whether no mapping is faster."""
        return self.bound >= self.cycles

    def to_dict(self) -> ProvenAnswer:
        """What JSON has of it."""
        return {
            "dataflow": self.dataflow,
            "cycles": self.cycles,
            "proven": self.proven,
            "lower_bound": self.bound,
            "record": self.record,
        }


def prove_layer(
    read: ScaleSimInput, layer: TopologyLayer, seconds: float | None = None
) -> ProvenLayer:
    """Proves the fastest mapping of one run of a layer, on the machine of each dataflow.

    Args:
        read: what SCALE-Sim's files say.
        layer: of the topology.
        seconds: that each proof may take; None: SECONDS.

    Raises:
        DataError: no mapping was found in that time.
        KeyboardInterrupt: Ctrl-C.
    """
    found = []
    for flow in DATAFLOWS:
        asked = Request(
            product_of(read.array, layer, flow),
            machine_of(read.array, flow),
            objective="latency",
            seconds=seconds or SECONDS,
        )
        result = search(asked, io.StringIO())
        if result.interrupted:
            raise KeyboardInterrupt
        if result.failure is not None:
            raise DataError(f"{layer.name}: {result.failure}")
        cycles = int(result.costs.latency_cycles)
        found.append(ProvenLayer(flow, cycles, int(result.lower_bound), result.record))
    best = min(found, key=lambda one: one.cycles)
    bound = min(one.bound for one in found)
    return ProvenLayer(best.dataflow, best.cycles, bound, best.record)
