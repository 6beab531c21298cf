"""What a file is, by its name and what stands at its top: whose, and how it is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from costmodel.timeloop.documents import PARTS
from mapspace.bounded_reading import read_text

Kind = Literal[
    "onnx", "torch", "maestro", "maestro-hardware", "scalesim", "scalesim-array", "timeloop",
    "zigzag", "accelforge", "accelforge-machine", "accelforge-mapping", "machine", "network",
    "workload", "other",
]  # fmt: skip


class Recognised(NamedTuple):
    """What a file is."""

    kind: Kind
    what: str
    """In words, such as `ZigZag's workload`."""
    how: str
    """How it is given, or what to do with it."""


_KEY = re.compile(r"""^['"]?([A-Za-z_][\w.-]*)['"]?\s*:""", re.MULTILINE)
_TEMPLATE = re.compile(r"^[^#\n]*(\{\{|\{%)", re.MULTILINE)
_ACCELFORGE = re.compile(
    r"!(Memory|Compute|Toll|Storage|Reservation)\b|^\s*einsums\s*:", re.MULTILINE
)
_ZIGZAG_MAPPING = re.compile(
    r"^\s*(- )?\s*(core_allocation|spatial_mapping|memory_operand_links)\s*:", re.MULTILINE
)
_TIMELOOP = {*PARTS, "components", "compound_components", "globals", "dumped_by_timeloop_front_end"}
_NATIVE: dict[str, tuple[Kind, str, str]] = {
    "levels": ("machine", "a machine", "--accelerator FILE"),
    "extends": ("machine", "a machine", "--accelerator FILE"),
    "layers": ("network", "a network", "mapspace search --network FILE"),
    **dict.fromkeys(
        ("cnn", "conv1d", "gemm", "mttkrp", "dimensions", "tensors"),
        ("workload", "a workload", "mapspace search FILE"),
    ),
    "kind": ("other", "an experiment", "mapspace benchmark, sweep, design, generate or train FILE"),
}


def recognised(path: Path) -> Recognised:
    """What a file is; nothing of it is checked.

    Raises:
        ConfigError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return Recognised("onnx", "an ONNX model", "mapspace import FILE -o network.yaml")
    if suffix in (".pt2", ".pt", ".pth"):
        return Recognised(
            "torch",
            "PyTorch's",
            "loading it may run code that it holds: in Python, where you trust it, "
            "ms.from_torch(torch.export.load(FILE), sizes={...}).save('network.yaml')",
        )
    if suffix in (".jsonl", ".json", ".gz"):
        how = "mapspace evaluate, explain or verify FILE"
        return Recognised("other", "mapping records or a certificate", how)
    text = read_text(path)
    if suffix == ".m":
        if re.search(r"^\s*Network\b", text, re.MULTILINE):
            return Recognised(
                "maestro", "MAESTRO's network", "mapspace import FILE [--hardware FILE]"
            )
        how = "with a mapping: mapspace evaluate MAPPING.m --hardware FILE"
        return Recognised("maestro-hardware", "MAESTRO's hardware", how)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if suffix == ".csv":
        if first.casefold().startswith("layer"):
            return Recognised("scalesim", "SCALE-Sim's topology", "mapspace import FILE")
        return Recognised(
            "other", "a table, not SCALE-Sim's topology", "write a network's file of it"
        )
    if suffix == ".cfg" and first.startswith("["):
        how = "with a topology: mapspace search --scalesim FILE topology.csv"
        return Recognised("scalesim-array", "SCALE-Sim's configuration", how)
    return _of_text(path, text)


def _of_text(path: Path, text: str) -> Recognised:
    """What YAML, or libconfig, is."""
    keys = set(_KEY.findall(text))
    if {"accelerator", "mapping"} <= keys:
        return Recognised("other", "a mapping record", "mapspace evaluate FILE")
    if _ACCELFORGE.search(text) or "workload" in keys:
        if "arch" in keys:
            return Recognised(
                "accelforge-machine",
                "AccelForge's architecture",
                "mapspace import FILE --word-bits N",
            )
        if "mapping" in keys:
            how = "mapspace import FILE --architecture FILE --workload FILE --word-bits N"
            return Recognised("accelforge-mapping", "AccelForge's mapping", how)
        return Recognised("accelforge", "AccelForge's workload", "mapspace import FILE")
    parts = [key for key in keys if key in _TIMELOOP]
    if parts or path.suffix == ".cfg":
        named = ", ".join(sorted(parts)) or "libconfig"
        template = "a template of " if _TEMPLATE.search(text) else ""
        how = "mapspace search, evaluate or export --timeloop FILE..."
        if template:
            how = "Timeloop's front end (timeloopfe) writes it out as parsed-processed-input.yaml"
        return Recognised("timeloop", f"{template}Timeloop's {named}", how)
    if "shape" in keys:
        return Recognised("other", "a shape of Timeloop's", "give it under problem.shape")
    if {"memories", "operational_array"} & keys:
        how = "write its memories as levels of a machine's file"
        return Recognised("other", "ZigZag's hardware, which is not read", how)
    if re.search(
        r"^-?\s*(- )?\s*(core_allocation|spatial_mapping|memory_operand_links)\s*:",
        text,
        re.MULTILINE,
    ):
        how = "write its spatial mapping as constraints of a machine's file"
        return Recognised("other", "ZigZag's mapping, which is not read", how)
    if re.search(r"^\s*(- )?operator_type\s*:", text, re.MULTILINE):
        return Recognised("zigzag", "ZigZag's workload", "mapspace import FILE")
    for key, (kind, what, how) in _NATIVE.items():
        if key in keys:
            return Recognised(kind, what, how)
    named = ", ".join(sorted(keys)[:5]) or "no keys"
    return Recognised("other", f"not known (at its top: {named})", "see docs/guide/formats.md")
