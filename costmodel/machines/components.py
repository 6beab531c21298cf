"""Machines whose levels and units are named as components: where their numbers come from.

A file that says `component: {kind: sram, ports: 1, banks: 4}` in place of energies gets them, its
area and its leakage from the shipped tables, or from the library that made these. Numbers that the
file gives stand. `sources` says of every number that was looked up what it comes from; it is
written with the machine, and numbers that have a source are not looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from costmodel.machines import component_tables
from costmodel.machines.component_entries import (
    DRAMS,
    LEVEL_FIGURES,
    MACHINE_BITS,
    UNIT_FIGURES,
    Memory,
    Unit,
    named,
)
from costmodel.machines.component_library import from_library
from costmodel.machines.component_tables import Figures, NotInTableError, significant


def with_components(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A machine as a file has it, with the numbers that its components stand for.

    What is no component, no number or no level is left for the fields to refuse.

    Args:
        value: the content of a machine file, `levels` a list.

    Returns:
        The same with energies, leakages and areas that were not there, and their `sources`.

    Raises:
        ValueError: a component that neither table nor library has, in one line with its place.
    """
    levels = list(value["levels"])
    if value.get("mac_component") is None and not any(_asked_of(level) for level in levels):
        return value
    whole = _with_unit(dict(value))
    for place, level in enumerate(levels):
        if isinstance(level, Mapping):
            levels[place] = _with_memory(dict(level), whole, place)
    return {**whole, "levels": levels}


def without_looked_up(data: dict[str, Any]) -> dict[str, Any]:
    """A machine's content without the numbers that were looked up, so that they are once more.

    Args:
        data: as `model_dump` writes it.
    """

    def own(entry: Mapping[str, Any]) -> dict[str, Any]:
        sources = entry.get("sources") or {}
        drop = {"sources", *(key for key, source in sources.items() if source is not None)}
        return {key: kept for key, kept in entry.items() if key not in drop}

    return {**own(data), "levels": [own(level) for level in data["levels"]]}


def _asked_of(level: object) -> bool:
    return isinstance(level, Mapping) and level.get("component") is not None


def _complete(entry: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Whether numbers were looked up before, or are all given."""
    said = entry.get("sources")
    looked_up = said if isinstance(said, Mapping) else {}
    return all(entry.get(key) is not None or looked_up.get(key) is not None for key in keys)


def _with_unit(machine: dict[str, Any]) -> dict[str, Any]:
    unit = _model(Unit, machine.get("mac_component"))
    if unit is not None and _complete(machine, UNIT_FIGURES):
        return machine
    if unit is None:
        if machine.get("mac_component") is not None:
            # Wrong as it is; nothing else is to be missed.
            machine.setdefault("mac_energy_pj", 0.0)
        return machine
    bits = machine.get("word_bits", MACHINE_BITS)
    clock = machine.get("clock_ghz", 1.0)
    if type(bits) is not int or not isinstance(clock, int | float) or not clock > 0:
        return {"mac_energy_pj": 0.0, **machine}
    multiplier = unit.multiplier_bits or bits
    wanted = {
        "node_nm": _node(machine, "mac_component"),
        "multiplier_bits": multiplier,
        "adder_bits": unit.adder_bits or 2 * multiplier,
    }
    found = _looked_up("int-mac", wanted, component_tables.int_mac, "mac_component")
    return _filled(
        machine,
        {
            "mac_energy_pj": found.read_pj,
            "mac_leakage_pj": per_cycle(found.leakage_w, float(clock)),
            "mac_area_mm2": found.area_mm2,
        },
        dict.fromkeys(UNIT_FIGURES, found.source),
    )


def _with_memory(level: dict[str, Any], machine: Mapping[str, Any], place: int) -> dict[str, Any]:
    memory = _model(Memory, level.get("component"))
    if memory is not None and _complete(level, _of_level(memory)):
        return level
    numbers: dict[str, Any] = {}
    sources: dict[str, str] = {}
    clock = machine.get("clock_ghz", 1.0)
    if memory is None:
        if level.get("component") is not None:
            level.setdefault("energy_pj", 0.0)
    else:
        found = _memory(memory, level, machine, f"levels[{level.get('name', place)}].component")
        if found is None or not isinstance(clock, int | float) or not clock > 0:
            return {"energy_pj": 0.0, **level}
        numbers = {
            "energy_pj": found.read_pj
            if found.read_pj == found.write_pj
            else {"read": found.read_pj, "fill": found.write_pj, "update": found.write_pj},
            "leakage_pj": per_cycle(found.leakage_w, float(clock)),
            "area_mm2": found.area_mm2,
        }
        sources = dict.fromkeys(_of_level(memory), found.source)
    return _filled(level, numbers, sources)


def _of_level(memory: Memory) -> tuple[str, ...]:
    """The numbers that a component stands for: what is outside the chip has no area."""
    return LEVEL_FIGURES[:-1] if memory.kind in DRAMS else LEVEL_FIGURES


def _memory(
    memory: Memory, level: Mapping[str, Any], machine: Mapping[str, Any], where: str
) -> Figures | None:
    """What a level costs per access; None where its file has no numbers to ask with."""
    word = level.get("word_bits") or machine.get("word_bits", MACHINE_BITS)
    block = level.get("block_words", 1)
    if type(word) is not int or type(block) is not int or word < 1 or block < 1:
        return None
    width = word * block
    if level.get("cluster_size", 1) != 1:
        raise ValueError(f"{where}: goes with cluster_size 1, got {level['cluster_size']}.")
    if memory.kind != "sram" and (memory.ports, memory.banks) != (1, 1):
        raise ValueError(f"{where}: ports and banks go with kind: sram, not with {memory.kind}.")
    if memory.kind in DRAMS:
        return component_tables.dram(memory.kind, width)
    bits = _bits(level, word)
    if bits is None:
        raise ValueError(f"{where}: {memory.kind} needs a capacity, which is without limit.")
    wanted = {"node_nm": _node(machine, where), "width_bits": width, "bits": bits}
    if memory.kind == "registers":
        return _looked_up("registers", wanted, component_tables.registers, where)
    wanted |= {"ports": memory.ports, "banks": memory.banks}
    return _looked_up("sram", wanted, component_tables.sram, where)


def _bits(level: Mapping[str, Any], word: int) -> int | None:
    """Bits of whole words of an instance, or None."""
    for key, width in (("capacity_words", word), ("capacity_bytes", 8), ("capacity_bits", 1)):
        size = level.get(key)
        if type(size) is int and size > 0:
            return size * width // word * word or None
    return None


def _looked_up(
    kind: str, wanted: Mapping[str, float], table: Callable[..., Figures], where: str
) -> Figures:
    try:
        try:
            return table(**wanted)
        except NotInTableError as missing:
            return from_library(kind, wanted, missing)
    except NotInTableError as error:
        raise ValueError(f"{where}: {error}") from error


def _node(machine: Mapping[str, Any], where: str) -> float:
    node = machine.get("node_nm")
    if not isinstance(node, int | float) or isinstance(node, bool) or not node > 0:
        raise ValueError(f"{where}: needs node_nm of the machine, the technology in nm; add it.")
    return float(node)


def _model(model: type[Any], value: object) -> Any:
    """What is meant, or None where the field will say what is wrong with it."""
    if isinstance(value, model):
        return value
    try:
        return None if value is None else model.model_validate(named(value))
    except ValidationError:
        return None


def _filled(
    entry: dict[str, Any], numbers: Mapping[str, Any], sources: Mapping[str, str]
) -> dict[str, Any]:
    """An entry with the numbers that it does not give, and where those are from."""
    said = entry.get("sources")
    kept = dict(said) if isinstance(said, Mapping) else {}
    missing = {
        key: number
        for key, number in numbers.items()
        if entry.get(key) is None and number is not None
    }
    named = kept | {key: sources[key] for key in missing}
    return {**entry, **missing, **({"sources": named} if named else {})}


def per_cycle(watts: float, clock_ghz: float) -> float:
    """Leakage as a machine has it, pJ per cycle."""
    return significant(1e3 * watts / clock_ghz)


def in_watts(leakage_pj: float, clock_ghz: float) -> float:
    """The same, W."""
    return 1e-3 * leakage_pj * clock_ghz
