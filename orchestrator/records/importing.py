"""`mapspace import`: files of other tools as files of this one."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from costmodel.accelforge.architecture import read_accelforge_machine
from costmodel.accelforge.mapping import mapping_record
from costmodel.accelforge.mapping_files import read_mapping_lines
from costmodel.accelforge.workload import read_accelforge_network, read_operations
from costmodel.machines.accelerators import accelerator
from costmodel.maestro.dataflow_layers import read_maestro_network
from costmodel.maestro.dataflow_records import read_mappings
from costmodel.networks.network_files import ReadNetwork, distinct_layers, network_text
from costmodel.networks.scalesim_topology import read_scalesim_network
from costmodel.problems.workloads import workload
from costmodel.zigzag.workload import read_zigzag_network
from mapspace.bounded_reading import read_text
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.imports.from_onnx import from_onnx
from orchestrator.imports.imported import refuse_unknown
from orchestrator.records.recognising import recognised

_ARCHITECTURE = re.compile(r"^arch\s*:", re.MULTILINE)
_WORKLOAD = re.compile(r"^workload\s*:", re.MULTILINE)
_MAPPING = re.compile(r"^mapping\s*:", re.MULTILINE)
# Beyond so many nodes without work they are counted by what stands in brackets.
MOST_NODES, OPERATOR = 10, re.compile(r" \((\w+)\)")


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
    found = recognised(path)
    if found.kind == "accelforge-machine":
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
    if found.kind == "accelforge":
        return _of_network(read_accelforge_network(path, _sizes(batch)))
    if batch is not None:
        raise ArgumentError("batch", f" is for ONNX and AccelForge's workloads, not for {path}.")
    if found.kind not in _NETWORKS:
        raise ConfigError(
            f"{path}: this is {found.what}: {found.how.replace('FILE', str(path), 1)}. Read are "
            "networks of ONNX (.onnx), MAESTRO (.m), SCALE-Sim (.csv), ZigZag and AccelForge, and "
            "AccelForge's architectures."
        )
    return _of_network(_NETWORKS[found.kind](path, lenient))


_NETWORKS: Mapping[str, Callable[[Path, bool], ReadNetwork]] = {
    "maestro": lambda path, lenient: read_maestro_network(path, lenient=lenient),
    "zigzag": lambda path, lenient: read_zigzag_network(path, lenient=lenient),
    "scalesim": lambda path, _: read_scalesim_network(path),
}


def read_network(path: Path, kind: str, sizes: Mapping[str, int]) -> ReadNetwork:
    """A network of any tool, what is not modelled of it left out and listed.

    Args:
        path: the file.
        kind: what `recognised` says that it is.
        sizes: of open axes of an ONNX model, or of names in AccelForge's template.

    Raises:
        ConfigError: one line that names the file and what was expected.
    """
    if kind == "onnx":
        return from_onnx(path, sizes=sizes, skip_unknown=True).network
    if kind == "accelforge":
        return read_accelforge_network(path, dict(sizes))
    return _NETWORKS[kind](path, True)


def imported_onnx(
    path: Path,
    *,
    lenient: bool = False,
    batch: int | None = None,
    sequence: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """An ONNX model as a network's file; what it has beside layers is listed.

    Args:
        path: the model.
        lenient: whether to leave out operators that no rule knows.
        batch: the size of the inputs' first axes where the model leaves it open.
        sizes: of open axes by name or place.
        sequence: the size of their second axes where the model leaves it open.

    Raises:
        ConfigError: as `from_onnx`, or one line that names what no rule knows.
    """
    found = from_onnx(path, batch=batch, sequence=sequence, sizes=sizes, skip_unknown=True)
    if not lenient:
        refuse_unknown(found, "--skip-unknown")
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
    count, distinct = sum(layer.times for layer in network.layers), len(distinct_layers(network))
    _list("read", [f"{network.source}: {count:,} layers, {distinct:,} of them distinct, "
                   f"{network.macs:,} multiply-accumulates"])  # fmt: skip
    _list("not used", network.unused)
    _list("no multiply-accumulates", _counted(network.without_macs))
    _list("left out", network.left_out)
    return text


def _counted(nodes: Sequence[str]) -> Sequence[str]:
    """Nodes such as `relu1 (Relu) moves 12 words` one by one; of many the operators alone.

    The network's file has each of them in either case.
    """
    if len(nodes) <= MOST_NODES:
        return nodes
    kinds = Counter(found[1] if (found := OPERATOR.search(node)) else "others" for node in nodes)
    listed = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
    return [f"{len(nodes):,} operators: {listed}; the file lists them"]


def _list(what: str, keys: Sequence[str]) -> None:
    for key in keys:
        print(f"{what}: {key}", file=sys.stderr)
