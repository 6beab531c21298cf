"""SCALE-Sim's configuration (`.cfg`) of version 2 or 3: the array, its buffers, the interface.

What changes no cycle (offsets, names, queues of traces) is read and listed; what SCALE-Sim models
and this project does not (sparsity, layouts in banks, traces of a DRAM simulator) is refused where
it is switched on.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError, refuse
from mapspace.near_names import meant
from mapspace.strict_yaml import shown

Dataflow = Literal["os", "ws", "is"]
DATAFLOWS: tuple[Dataflow, ...] = ("os", "ws", "is")

_KB = 1024
_MOST = 2**31


class _Key(NamedTuple):
    """A key as it is written, and what is expected of it."""

    name: str
    expected: str
    idle: bool = False
    """Whether it changes no cycle."""
    must: bool = False
    """Whether it has to be there."""


_WHOLE, _FLAG = "a whole number of at least 1", "True or False"
_ANY = "text"
_SECTIONS: Mapping[str, tuple[_Key, ...]] = {
    "general": (_Key("run_name", _ANY, idle=True),),
    "architecture_presets": (
        _Key("ArrayHeight", _WHOLE, must=True),
        _Key("ArrayWidth", _WHOLE, must=True),
        _Key("IfmapSramSzkB", _WHOLE, must=True),
        _Key("FilterSramSzkB", _WHOLE, must=True),
        _Key("OfmapSramSzkB", _WHOLE, must=True),
        _Key("Dataflow", "os, ws or is", must=True),
        _Key("Bandwidth", "whole numbers of at least 1, with commas between"),
        *(_Key(f"{name}Offset", _ANY, idle=True) for name in ("Ifmap", "Filter", "Ofmap")),
        _Key("MemoryBanks", _ANY, idle=True),
        _Key("ReadRequestBuffer", _ANY, idle=True),
        _Key("WriteRequestBuffer", _ANY, idle=True),
    ),
    "layout": tuple(
        _Key(f"{name}{key}", expected, idle=expected == _ANY)
        for name in ("Ifmap", "Filter")
        for key, expected in (
            ("CustomLayout", _FLAG),
            ("SRAMBankBandwidth", _WHOLE),
            ("SRAMBankNum", _ANY),
            ("SRAMBankPort", _ANY),
        )
    ),
    "sparsity": (
        _Key("SparsitySupport", _FLAG),
        *(
            _Key(name, _ANY, idle=True)
            for name in (
                "SparseRep", "NonZeroElems", "OptimizedMapping", "BlockSize",
                "RandomNumberGeneratorSeed",
            )
        ),
    ),
    "run_presets": (
        _Key("InterfaceBandwidth", "CALC or USER"),
        _Key("UseRamulatorTrace", _FLAG),
    ),
    "network_presets": (_Key("TopologyCsvLoc", _ANY, idle=True),),
}  # fmt: skip
_NOT_MODELLED = {
    "SparsitySupport": "sparse filters",
    "IfmapCustomLayout": "layouts in banks",
    "FilterCustomLayout": "layouts in banks",
    "UseRamulatorTrace": "traces of a DRAM simulator",
}


class Bandwidths(NamedTuple):
    """Words per cycle between a buffer and what lies behind it."""

    inputs: int
    filters: int
    outputs: int


@dataclass(frozen=True)
class ScaleSimArray:
    """An array as SCALE-Sim has it: three buffers of two halves each, words of one byte.

    Attributes:
        rows: of processing elements.
        columns: of processing elements.
        input_bytes: of the buffer of inputs (IFMAP).
        filter_bytes: of the buffer of filters.
        output_bytes: of the buffer of outputs (OFMAP).
        dataflow: what is stationary: outputs, weights or inputs.
        bandwidths: of the interface where the configuration limits it; None: as much as is needed.
    """

    rows: int
    columns: int
    input_bytes: int
    filter_bytes: int
    output_bytes: int
    dataflow: Dataflow
    bandwidths: Bandwidths | None


class ReadConfiguration(NamedTuple):
    """What a configuration says."""

    array: ScaleSimArray
    idle: tuple[str, ...]
    """Keys that change no cycle, each with its place."""


def read_configuration(path: Path) -> ReadConfiguration:
    """Reads a configuration.

    Raises:
        ConfigError: one line per problem: the file, the section and key, what was expected, what
            was got.
    """
    texts, idle = _known(path)
    wrong: list[ConfigError] = []

    def place(name: str) -> str:
        return f"{path}: {_section_of(name)}.{name}"

    def number(name: str, default: int = 0) -> int:
        if name not in texts:
            return default
        found = _whole(texts[name])
        if found is None:
            wrong.append(
                ConfigError(f"{place(name)}: expected {_WHOLE}, got {shown(texts[name])}.")
            )
        return found or 1

    def word(name: str, allowed: Mapping[str, str], default: str) -> str:
        given = texts.get(name, default)
        if given not in allowed and given.casefold() not in allowed:
            known = " or ".join(dict.fromkeys(allowed.values()))
            wrong.append(ConfigError(f"{place(name)}: expected {known}, got {shown(given)}."))
            return default
        return allowed.get(given, allowed.get(given.casefold(), default))

    for name, what in _NOT_MODELLED.items():
        if word(name, {"true": "True", "false": "False"}, "False") == "True":
            wrong.append(ConfigError(f"{place(name)}: expected False ({what} are not modelled)."))
    flow = word("Dataflow", {one: one for one in DATAFLOWS}, "ws")
    limited = word("InterfaceBandwidth", {"CALC": "CALC", "USER": "USER"}, "CALC") == "USER"
    words = [_whole(text.strip()) for text in texts.get("Bandwidth", "1").split(",")]
    if limited and "Bandwidth" not in texts:
        wrong.append(ConfigError(f"{place('Bandwidth')}: missing: InterfaceBandwidth is USER."))
    if None in words:
        wrong.append(
            ConfigError(
                f"{place('Bandwidth')}: expected whole numbers of at least 1, with commas between, "
                f"got {shown(texts['Bandwidth'])}."
            )
        )
    # Version 2 has one bandwidth; version 3 reads those of both operands from the layout.
    common = words[0] or 1
    both = [number(f"{name}SRAMBankBandwidth", common) for name in ("Ifmap", "Filter")]
    sizes = [number(f"Array{axis}") for axis in ("Height", "Width")]
    sizes += [number(f"{name}SramSzkB") for name in ("Ifmap", "Filter", "Ofmap")]
    refuse(wrong)
    rows, columns, *kilobytes = sizes
    dataflow = next(one for one in DATAFLOWS if one == flow)
    bandwidths = Bandwidths(both[0], both[1], common) if limited else None
    inputs, filters, outputs = (_KB * size for size in kilobytes)
    array = ScaleSimArray(rows, columns, inputs, filters, outputs, dataflow, bandwidths)
    return ReadConfiguration(array, idle)


def _known(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """The text of every key that there is, by its name, and the places of those without effect."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(read_text(path), source=str(path))
    except configparser.Error as error:
        why = " ".join(str(error).split()).removeprefix("While reading from ")
        raise ConfigError(f"{path}: expected SCALE-Sim's configuration: {why}") from None
    wrong: list[ConfigError] = []
    texts, idle = dict[str, str](), list[str]()
    for section in parser.sections():
        if section not in _SECTIONS:
            wrong.append(_unknown(f"{path}: section [{section}]", section, list(_SECTIONS)))
            continue
        keys = {key.name.casefold(): key for key in _SECTIONS[section]}
        for name, text in parser[section].items():
            key = keys.get(name)
            if key is None:
                names = [one.name for one in keys.values()]
                wrong.append(_unknown(f"{path}: {section}.{name}", name, names))
                continue
            texts[key.name] = text.strip()
            if key.idle:
                idle.append(f"{path}: {section}.{key.name}")
    for section, known in _SECTIONS.items():
        missing = [key.name for key in known if key.must and key.name not in texts]
        if missing and not any(str(error).startswith(f"{path}: {section}.") for error in wrong):
            wrong.append(ConfigError(f"{path}: {section}: missing: {', '.join(missing)}."))
    refuse(wrong)
    return texts, tuple(idle)


def _unknown(place: str, name: str, known: list[str]) -> ConfigError:
    return ConfigError(f"{place}: unknown{meant(name, known)} Expected one of {', '.join(known)}.")


def _section_of(name: str) -> str:
    return next(
        section for section, keys in _SECTIONS.items() if name in [key.name for key in keys]
    )


def _whole(text: str) -> int | None:
    """A number as text, where it is a whole one of at least 1."""
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) < _MOST:
        return None
    return int(text)
