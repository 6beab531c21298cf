"""`mapspace import`: files of other tools as files of this one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from costmodel.accelerators import accelerator
from costmodel.accelforge.architecture import read_accelforge_machine
from costmodel.accelforge.mapping import mapping_record
from costmodel.accelforge.mapping_files import read_mapping_lines
from costmodel.accelforge.workload import read_accelforge_network, read_operations
from costmodel.maestro.dataflow_layers import read_maestro_network
from costmodel.maestro.dataflow_records import read_mappings
from costmodel.network_files import ReadNetwork, network_text
from costmodel.workloads import workload
from costmodel.zigzag.workload import read_zigzag_network
from mapspace.bounded_reading import read_text
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.imports.from_onnx import from_onnx

_ARCHITECTURE = re.compile(r"^arch\s*:", re.MULTILINE)
_WORKLOAD = re.compile(r"^workload\s*:", re.MULTILINE)
_MAPPING = re.compile(r"^mapping\s*:", re.MULTILINE)
# Unknown operators that an error names.
MOST_NAMED = 5


def imported(
    path: Path,
    *,
    lenient: bool = False,
    word_bits: int | None = None,
    batch: int | None = None,
) -> str:
    """The text of the file that says the same here.

    What has no effect, and what is left out, is listed on standard error.

    Args:
        path: MAESTRO's network (`.m`), ZigZag's workload, or AccelForge's workload or
            architecture (`.yaml`).
        lenient: whether to leave out layers that are not modelled, instead of refusing them.
        word_bits: of an architecture: bits of a value.
        batch: of AccelForge's workload: what `BATCH_SIZE` stands for.

    Raises:
        ConfigError: one line that names the file, the key's path and what was expected.
    """
    of_yaml = path.suffix in (".yaml", ".yml")
    if of_yaml and _ARCHITECTURE.search(read_text(path)):
        if word_bits is None:
            raise ArgumentError(
                "word_bits", f" is missing: bits of a value, which {path} leaves to a workload."
            )
        machine = read_accelforge_machine(path, word_bits)
        _list("not used", machine.unused)
        text = yaml.safe_dump(machine.content, sort_keys=False, default_flow_style=None)
        return f"# {path.name}: AccelForge's architecture\n{text}"
    if word_bits is not None:
        raise ArgumentError("word_bits", f" is for AccelForge's architectures, not for {path}.")
    if of_yaml and _WORKLOAD.search(read_text(path)):
        return _of_network(read_accelforge_network(path, _sizes(batch)))
    if batch is not None:
        raise ArgumentError("batch", f" is for ONNX and AccelForge's workloads, not for {path}.")
    if path.suffix == ".m":
        return _of_network(read_maestro_network(path, lenient=lenient))
    if of_yaml:
        return _of_network(read_zigzag_network(path, lenient=lenient))
    raise ConfigError(
        f"{path}: expected an ONNX model (.onnx), a network of MAESTRO (.m), or a workload of "
        "ZigZag or a workload or an architecture of AccelForge (.yaml)."
    )


def imported_onnx(
    path: Path,
    *,
    lenient: bool = False,
    batch: int | None = None,
    sequence: int | None = None,
) -> str:
    """An ONNX model as a network's file; what it has beside layers is listed.

    Args:
        path: the model.
        lenient: whether to leave out operators that no rule knows.
        batch: the size of the inputs' first axes where the model leaves it open.
        sequence: the size of their second axes where the model leaves it open.

    Raises:
        ConfigError: as `from_onnx`, or one line that names what no rule knows.
    """
    found = from_onnx(path, batch=batch, sequence=sequence)
    if found.unknown and not lenient:
        named = "; ".join(map(str, found.unknown[:MOST_NAMED]))
        more = len(found.unknown) - MOST_NAMED
        raise ConfigError(
            f"{path}: unknown operators: {named}{f' (and {more:,} more)' if more > 0 else ''}; "
            f"with --skip-unknown {len(found.nodes):,} layers of {found.macs:,} "
            f"multiply-accumulates are counted, and {found.moved_words:,} words that others move."
        )
    return _of_network(found.network)


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
    _list("left out", left_out)
    return "".join(json.dumps(record) + "\n" for record in records)


def imported_answer(
    path: Path,
    architecture: Path,
    word_bits: int | None,
    layer: str,
    *,
    batch: int | None = None,
) -> str:
    """AccelForge's mapping as mapping records, JSON lines for `evaluate`.

    Args:
        path: a text of one line, as its search prints it, or its mapping file (`.yaml`).
        architecture: AccelForge's file of the machine.
        word_bits: bits of a value.
        layer: its workload's file, or a workload as `search` takes it, with AccelForge's
            dimensions in capitals.
        batch: what `BATCH_SIZE` stands for in its files.

    Raises:
        ConfigError: one line that names the file and what has no counterpart.
    """
    if word_bits is None:
        raise ArgumentError("word_bits", f" is missing: bits of a value on {architecture}.")
    machine = read_accelforge_machine(architecture, word_bits)
    _list("not used", machine.unused)
    device, text = accelerator(machine.content), read_text(path)
    source = Path(layer)
    if source.suffix in (".yaml", ".yml") and _WORKLOAD.search(read_text(source)):
        operations, _ = read_operations(source, _sizes(batch))
    else:
        operations = ()
    if path.suffix in (".yaml", ".yml") and _MAPPING.search(text):
        if not operations:
            raise ArgumentError(
                "workload", f": expected AccelForge's file, whose Einsums {path} maps."
            )
        lines = read_mapping_lines(path, operations, _sizes(batch))
        nests = [(workload(one.nest()), line) for one, line in lines]
    elif len(operations) > 1:
        raise ArgumentError(
            "workload", f": {path} maps one Einsum, and {source} has {len(operations)}."
        )
    else:
        problem = workload(operations[0].nest()) if operations else workload(layer)
        nests = [(problem, text.strip())]
    records = (
        mapping_record(line, str(path), work, device, machine.fanouts) for work, line in nests
    )
    return "".join(json.dumps(record) + "\n" for record in records)


def _sizes(batch: int | None) -> dict[str, int]:
    return {} if batch is None else {"BATCH_SIZE": batch}


def _of_network(network: ReadNetwork) -> str:
    text = network_text(network)
    _list("not used", network.unused)
    _list("no multiply-accumulates", network.without_macs)
    _list("left out", network.left_out)
    return text


def _list(what: str, keys: Sequence[str]) -> None:
    for key in keys:
        print(f"{what}: {key}", file=sys.stderr)
