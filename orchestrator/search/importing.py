"""`mapspace import`: files of other tools as files of this one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from costmodel.maestro.dataflow_layers import read_maestro_network
from costmodel.maestro.dataflow_records import read_mappings
from costmodel.network_files import ReadNetwork, network_text
from costmodel.zigzag.workload import read_zigzag_network
from mapspace.errors import ArgumentError, ConfigError


def imported(path: Path, *, lenient: bool = False) -> str:
    """The text of the file that says the same here.

    What has no effect, and what is left out, is listed on standard error.

    Args:
        path: MAESTRO's network (`.m`) or ZigZag's workload (`.yaml`, `.yml`).
        lenient: whether to leave out what is not modelled, instead of refusing it.

    Raises:
        ConfigError: one line that names the file, the key's path and what was expected.
    """
    if path.suffix == ".m":
        return _of_network(read_maestro_network(path, lenient=lenient))
    if path.suffix in (".yaml", ".yml"):
        return _of_network(read_zigzag_network(path, lenient=lenient))
    raise ConfigError(
        f"{path}: expected a network of MAESTRO (.m) or a workload of ZigZag (.yaml)."
    )


def imported_mappings(path: Path, hardware: Path, *, lenient: bool = False) -> str:
    """The dataflows of a MAESTRO file as mapping records, JSON lines for `evaluate`.

    Args:
        path: a network with dataflows (`.m`).
        hardware: MAESTRO's hardware file.
        lenient: whether to leave out layers whose dataflow has no counterpart.

    Raises:
        ConfigError: one line that names the file, the layer and the directive.
    """
    if path.suffix != ".m":
        raise ArgumentError("hardware", f" is for MAESTRO's mappings (.m), not for {path}.")
    records, left_out = read_mappings(path, hardware, lenient=lenient)
    for key in left_out:
        print(f"left out: {key}", file=sys.stderr)
    return "".join(json.dumps(record) + "\n" for record in records)


def _of_network(network: ReadNetwork) -> str:
    text = network_text(network)
    for name, keys in (
        ("not used", network.unused),
        ("no multiply-accumulates", network.without_macs),
        ("left out", network.left_out),
    ):
        for key in keys:
            print(f"{name}: {key}", file=sys.stderr)
    return text
