"""SCALE-Sim's two input files together: a configuration and a topology."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from costmodel.machines.accelerators import Accelerator
from costmodel.networks.scalesim_topology import TopologyLayer, read_topology
from costmodel.problems.affine import Workload
from costmodel.scalesim.configuration import (
    DATAFLOWS,
    Dataflow,
    ScaleSimArray,
    read_configuration,
)
from costmodel.scalesim.dataflows import DataflowCycles
from costmodel.scalesim.machines import machine_of, product_of
from costmodel.scalesim.stalls import cycles_with_stalls
from mapspace.arguments import checked
from mapspace.errors import ConfigError, together

_EXPECTED = "expected SCALE-Sim's configuration (.cfg) and its topology (.csv)"


class ScaleSimInput(NamedTuple):
    """What a configuration and a topology of SCALE-Sim's say."""

    array: ScaleSimArray
    """Rows, columns, buffers, bandwidths and dataflow of the configuration."""
    layers: tuple[TopologyLayer, ...]
    """In the order of the topology."""
    name: str
    """The topology's, without its suffix."""
    idle: tuple[str, ...]
    """Keys and columns that change no cycle, each with its place."""

    @checked
    def cycles(self, layer: TopologyLayer) -> dict[Dataflow, DataflowCycles]:
        """Cycles of one run of a layer by each of the three dataflows, with their stalls."""
        return {flow: cycles_with_stalls(self.array, layer, flow) for flow in DATAFLOWS}

    @checked
    def machine(self, dataflow: Dataflow) -> Accelerator:
        """The array as a machine of this project on which a dataflow is the only one."""
        return machine_of(self.array, dataflow)

    @checked
    def product(self, layer: TopologyLayer, dataflow: Dataflow) -> Workload:
        """One run of a layer as a matrix product, padded to whole folds of a dataflow."""
        return product_of(self.array, layer, dataflow)


@checked
def from_scalesim(files: Sequence[str | Path]) -> ScaleSimInput:
    """Reads a configuration (`.cfg`) and a topology (`.csv`) of SCALE-Sim, version 2 or 3.

    Args:
        files: both, in any order.

    Raises:
        ConfigError: another number or kind of files, one that cannot be read, or what is not
            modelled: the file, the key, what was expected, what was got.
    """
    paths = [Path(file) for file in files]
    configurations = [path for path in paths if path.suffix.lower() == ".cfg"]
    topologies = [path for path in paths if path.suffix.lower() == ".csv"]
    if len(paths) != 2 or len(configurations) != 1 or len(topologies) != 1:
        got = ", ".join(str(path) for path in paths) or "nothing"
        raise ConfigError(f"{_EXPECTED}, got {got}.")
    read, topology = together(
        lambda: read_configuration(configurations[0]), lambda: read_topology(topologies[0])
    )
    if not topology.layers:
        raise ConfigError(f"{topologies[0]}: expected at least one layer.")
    return ScaleSimInput(read.array, topology.layers, topology.name, (*read.idle, *topology.unused))
