"""Energies per access: of an energy reference table, of the file, or Timeloop's own technology.

Source: Timeloop v3.0.3, its model `PAT-public` (16 bits at 45 nm or so), measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from costmodel.timeloop.documents import Part
from costmodel.timeloop.keys import misspelt, passed
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

Table = dict[str, float]
"""Energy in pJ by the name of an action."""

_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "read": ("random_read", "read"),
    "fill": ("random_fill", "write"),
    "update": ("random_update", "random_fill", "write"),
    "compute": ("mac_random", "mult_random", "mac", "mult", "compute"),
}
"""Names of actions in the order in which Timeloop looks for them."""
_READ = tuple({name for names in _ACTIONS.values() for name in names} | {"leak", "idle"})


def read_table(part: Part | None, idle: list[str]) -> dict[str, Table]:
    """An energy reference table, by the last name of each component.

    Args:
        part: the table; None where there is none.
        idle: takes the keys that nothing reads.

    Raises:
        ConfigError: it has another form.
    """
    if part is None:
        return {}
    tables = None
    if isinstance(part.value, Mapping):
        idle += passed(part.value, {"version", "tables"}, part.place)
        tables = part.value.get("tables")
    entries: Iterable[tuple[Any, Any]]
    if isinstance(tables, Mapping):  # version 0.2
        entries = tables.items()
    elif isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables):
        for number, table in enumerate(tables):
            here = f"{part.place}.tables[{table.get('name', number)}]"
            idle += passed(table, {"name", "actions"}, here)
        entries = [(table.get("name"), table.get("actions")) for table in tables]
    else:
        raise ConfigError(f"{part.place}.tables: expected a list or mapping, got {shown(tables)}.")
    return {
        _short(name, part.place): _actions(given, f"{part.place}[{name}]", idle)
        for name, given in entries
    }


def unused(table: Mapping[str, Table], part: Part | None, arch: Mapping[str, Any]) -> Iterator[str]:
    """What a table says in vain: of a machine without that part, leakage of arithmetic.

    Args:
        table: the table that was read.
        part: what it was read of.
        arch: the machine, as records have it.
    """
    mac = arch["mac"]["name"]
    names = {*(level["name"] for level in arch["levels"]), mac}
    if part is None:
        return
    for name, actions in table.items():
        if name not in names:
            yield f"{part.place}[{name}]"
        elif name == mac and actions.get("leak"):
            yield f"{part.place}[{name}].leak"


def _short(name: object, place: str) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"{place}.tables: expected names of components, got {shown(name)}.")
    # Timeloop strips a range only where its first index is one digit.
    return re.sub(r"\[\d\.\.\d+\]$", "", name).rpartition(".")[2]


def _actions(given: Any, place: str, idle: list[str]) -> Table:
    """The largest energy of every action."""
    table: Table = {}
    if isinstance(given, Mapping):
        listed = [
            (action, entry)
            for action, entries in given.items()
            for entry in (entries if isinstance(entries, list) else [entries])
        ]
    elif isinstance(given, list):
        listed = [(entry.get("name"), entry) for entry in given if isinstance(entry, Mapping)]
    else:
        raise ConfigError(f"{place}: expected actions, got {shown(given)}.")
    for action, entry in listed:
        word = None if action in _READ else misspelt(str(action), _READ)
        if word is not None:
            raise ConfigError(f"{place}.{action}: unknown; did you mean {word}?")
        if isinstance(entry, Mapping):
            idle += passed(entry, {"name", "energy", "arguments"}, f"{place}.{action}")
            if action is None:
                raise ConfigError(f"{place}: expected actions with a name, got {shown(entry)}.")
        energy = entry.get("energy") if isinstance(entry, Mapping) else entry
        if isinstance(energy, bool) or not isinstance(energy, int | float) or not energy >= 0:
            raise ConfigError(f"{place}.{action}: expected an energy in pJ, got {shown(energy)}.")
        if not math.isfinite(energy):
            raise ConfigError(f"{place}.{action}: expected a finite energy, got {energy}.")
        table[str(action)] = max(table.get(str(action), 0.0), float(energy))
    return table


def found_in(table: Table, action: str) -> float | None:
    """The energy of `read`, `fill`, `update` or `compute`; None: Timeloop takes its own."""
    return next((table[name] for name in _ACTIONS[action] if name in table), None)


def buffer_pj(is_dram: bool, bits: int, block: int, cluster: int, size: int | None) -> float:
    """Energy of an access to a buffer of Timeloop's own technology, pJ."""
    if is_dram:
        return 200.0 * bits * block / 16
    if not size:
        return 0.0
    width, height = bits * block * cluster, -(-size // block)
    kilobytes = width * height / 8192
    return ((kilobytes - 0.5) * 5 / 99.5 + 1) * width / 16 / cluster


def mac_pj(bits: int) -> float:
    """Energy of a multiply-accumulate of Timeloop's own technology, pJ."""
    return (bits / 16) ** 2
