"""AccelForge's mappings, as its search prints them, as records of whole nests.

AccelForge writes a mapping as one line: where tensors are stored, temporal loops (`T-`) and spatial
ones (`S-`, after the name of the fan-out), outermost first. Its tensors may be stored at different
loops of one memory; here a level stands at one place, so every such place is tried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from costmodel.loop_nest.nest_writing import arch_of, problem_record
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_LONGEST = 20_000
_MOST_LEVELS = 8
_MOST_STORED = 4
"""Places of one memory, all of which are tried."""
# What it prints beside loops and storage, which says nothing more of the mapping.
_BESIDE = re.compile(r"[\w,]+ reserves \w+|\w+ computes \w+|shape=\d+")
_NODE = re.compile(
    r"\[(?P<tensors>[\w,]+) in (?P<level>\w+)\]"
    r"|(?P<kind>T|S-\w+)-(?P<dim>\w+) in \[0\.\.(?P<factor>\d+)\)"
)


def mapping_record(
    line: str, where: str, work: Workload, machine: Accelerator, fanouts: dict[str, tuple[str, str]]
) -> dict[str, Any]:
    """The record of a mapping whose memories each stand at one place.

    Args:
        line: a mapping as AccelForge prints it.
        where: what messages start with.
        work: the same problem, whose dimensions are its in capitals.
        machine: the same machine.
        fanouts: the level and the axis that each of its fan-outs is.

    Raises:
        ConfigError: it is no such mapping, or has no counterpart.
    """
    if len(line) > _LONGEST:
        raise ConfigError(f"{where}: expected at most {_LONGEST:,} characters.")
    rest = _BESIDE.sub("", _NODE.sub("", line)).split()
    if rest or not _NODE.search(line):
        raise ConfigError(
            f"{where}: expected a mapping such as [A,B in Main] T-m in [0..4) S-X-n in [0..2), "
            f"got {shown(' '.join(rest))}."
        )
    for node in _NODE.finditer(line):
        _check(node, where, work, machine, fanouts)
    stored = [node["level"] for node in _NODE.finditer(line)]
    if max(stored.count(name) for name in machine.level_names) > _MOST_STORED:
        raise ConfigError(f"{where}: expected at most {_MOST_STORED} stores in one memory.")
    if len(machine.levels) > _MOST_LEVELS:
        raise ConfigError(f"{where}: expected at most {_MOST_LEVELS} memories to map onto.")
    blank = {
        "problem": problem_record(work),
        "arch_name": machine.name,
        "arch": arch_of(machine, work),
        "mapping": [],
    }
    found = list(records(line, blank, fanouts))
    loops = {_loops(record) for record in found}
    if len(loops) != 1:
        raise ConfigError(
            f"{where}: tensors of one memory are stored at different loops, or memories in another "
            "order; here a level stands at one place."
        )
    return found[0]


def _check(
    node: re.Match[str],
    where: str,
    work: Workload,
    machine: Accelerator,
    fanouts: dict[str, tuple[str, str]],
) -> None:
    """Refuses names that the problem or the machine has not."""
    if node["level"]:
        unknown = set(node["tensors"].split(",")) - set(work.tensor_names)
        if unknown or node["level"] not in machine.level_names:
            raise ConfigError(
                f"{where}: {node[0]}: expected tensors {', '.join(work.tensor_names)} in one of "
                f"{', '.join(machine.level_names)}."
            )
        return
    if node["dim"].upper() not in work.dimensions:
        known = ", ".join(work.dimensions).lower()
        raise ConfigError(f"{where}: {node[0]}: expected one of the dimensions {known}.")
    if len(node["factor"]) > 18 or int(node["factor"]) < 1:
        raise ConfigError(f"{where}: {node[0]}: expected a range of at least 1.")
    if node["kind"] != "T" and node["kind"][2:] not in fanouts:
        raise ConfigError(f"{where}: {node[0]}: expected one of the fan-outs {', '.join(fanouts)}.")


def _loops(record: dict[str, Any]) -> str:
    return repr(record["mapping"])


def records(
    line: str, record: dict[str, Any], fanouts: dict[str, tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Records with the nest of `line` for each place at which its levels may stand.

    Args:
        line: a mapping as AccelForge prints it; its dimensions are ours in small letters.
        record: of the same problem and machine; its mapping is replaced.
        fanouts: the level and the axis ("X" or "Y") that each of its fan-outs is.
    """
    nodes = list(_NODE.finditer(line))
    names = [level["name"] for level in record["arch"]["levels"]]
    stored: dict[str, list[int]] = {}
    keep: dict[str, list[str]] = {name: [] for name in names}
    for position, node in enumerate(nodes):
        if node["level"]:
            stored.setdefault(node["level"], []).append(position)
            keep[node["level"]] += node["tensors"].split(",")
    for places in itertools.product(*(sorted(set(stored.get(name, [-1]))) for name in names)):
        known = [place for place in places if place >= 0]
        if known == sorted(known):
            yield {**record, "mapping": _nest(nodes, names, keep, places, fanouts)}


def _nest(
    nodes: list[re.Match[str]],
    names: list[str],
    keep: dict[str, list[str]],
    places: tuple[int, ...],
    fanouts: dict[str, tuple[str, str]],
) -> list[dict[str, Any]]:
    """The loops of every level; a level that stores nothing has none."""
    nest: list[dict[str, Any]] = [
        {"level": name, "keep": keep[name], "temporal": [], "spatial": []} for name in names
    ]
    owner = 0
    for position, node in enumerate(nodes):
        if position in places:
            owner = places.index(position)
        if not node["dim"] or node["factor"] == "1":
            continue
        loop: list[Any] = [node["dim"].upper(), int(node["factor"])]
        if node["kind"] == "T":
            nest[owner]["temporal"].append(loop)
        else:
            level, axis = fanouts[node["kind"][2:]]
            nest[names.index(level)]["spatial"].append([*loop, axis])
    return nest
