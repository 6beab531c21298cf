"""`mapspace import`: files of other tools as files of this one."""

from __future__ import annotations

import sys
from pathlib import Path

from costmodel.maestro.dataflow_layers import read_maestro_network
from costmodel.network_files import ReadNetwork, network_text
from costmodel.zigzag.workload import read_zigzag_network
from mapspace.errors import ConfigError


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
