"""SCALE-Sim's array as a machine of this project, and its layers as products for it.

One machine per dataflow: what is stationary lies in a register of each element, rows and columns
take the dimensions that the dataflow lays over them, and passes take the cycles that SCALE-Sim
counts. The three buffers are one memory, which holds every tile twice. SCALE-Sim has no energies:
they are 200, 6 and 1 multiply-accumulates for a word of DRAM, buffer and register (Chen, Emer, Sze,
ISCA 2016, Table IV), and choose among mappings that are equally fast.
"""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from costmodel.scalesim.configuration import Dataflow, ScaleSimArray
from mapspace.errors import ConfigError

# The role that is stationary, and the dimensions of M x N x K over rows, over columns.
_LAID: Mapping[Dataflow, tuple[str, str, str]] = {
    "os": ("output", "M", "N"),
    "ws": ("weight", "K", "N"),
    "is": ("input", "K", "M"),
}


def machine_of(array: ScaleSimArray, dataflow: Dataflow) -> Accelerator:
    """The array as a machine on which a dataflow is the only one.

    Args:
        array: as SCALE-Sim has it; its bandwidths are left out.
        dataflow: what is stationary.

    Raises:
        ConfigError: it is a single element, which has no rows to load or to fill.
    """
    if array.rows * array.columns == 1:
        raise ConfigError("ArrayHeight, ArrayWidth: expected several elements, got one.")
    stationary, down, across = _LAID[dataflow]
    others = [role for role in ("input", "weight", "output") if role != stationary]
    spread = {
        "fanout": array.rows * array.columns,
        "mesh": [array.columns, array.rows],
        "spatial": {"x": [across], "y": [down]},
        "array": {
            "stationary": stationary,
            "load": 0 if dataflow == "os" else "rows",
            "fill": "rows + columns - 2",
        },
    }
    return accelerator(
        {
            "name": f"scalesim-{array.rows}x{array.columns}-{dataflow}",
            "word_bits": 8,
            "mac_energy_pj": 1.0,
            "levels": [
                {"name": "DRAM", "energy_pj": 200.0},
                {
                    "name": "SRAM",
                    "energy_pj": 6.0,
                    "capacity_words": array.input_bytes + array.filter_bytes + array.output_bytes,
                    "multiple_buffering": 2.0,
                    **spread,
                },
                {
                    "name": "Register",
                    "energy_pj": 1.0,
                    "capacity_words": 1,
                    "keep": [stationary],
                    "bypass": others,
                },
            ],
        }
    )


def product_of(array: ScaleSimArray, layer: TopologyLayer, dataflow: Dataflow) -> Workload:
    """One run of a layer as a matrix product, padded to whole folds of a dataflow.

    Args:
        array: its rows and columns.
        layer: of a topology.
        dataflow: what is stationary.
    """
    sizes = {"M": layer.pixels, "N": layer.filters, "K": layer.window}
    _, down, across = _LAID[dataflow]
    for name, side in ((down, array.rows), (across, array.columns)):
        sizes[name] = -(-sizes[name] // side) * side
    return workload({"name": layer.name, "gemm": sizes})
