"""AccelForge's mappings as records of whole nests.

AccelForge writes a mapping as one line: where tensors are stored, temporal loops (`T-`) and spatial
ones (`S-`, after the name of the fan-out), outermost first. Its tensors may be stored at different
loops of one memory; here a level stands at one place, so every such place is tried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

_NODE = re.compile(
    r"\[(?P<tensors>[\w,]+) in (?P<level>\w+)\]"
    r"|(?P<kind>T|S-\w+)-(?P<dim>\w+) in \[0\.\.(?P<factor>\d+)\)"
)


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
