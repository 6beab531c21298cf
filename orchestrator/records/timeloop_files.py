"""`mapspace evaluate --timeloop`: Timeloop's own input files, read and scored."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import score
from costmodel.timeloop.reading import BUDGETS, TimeloopInput, from_timeloop
from mapspace.errors import ConfigError
from orchestrator.report.document import LEFT, Table
from orchestrator.report.shown import aligned
from orchestrator.report.text_table import table_lines

_COUNTS = ("tile", "instances", "reads", "fills", "updates")


def read_files(
    files: Sequence[str | Path], *, lenient: bool = False, link_transfers: bool | None = None
) -> TimeloopInput:
    """Reads input files of Timeloop's, and says on standard error what of them has no effect.

    Args:
        files: the files.
        lenient: whether what is not modelled is left out.
        link_transfers: as in `from_timeloop`.

    Raises:
        ConfigError: a file that cannot be read, or says what is not modelled.
    """
    read = from_timeloop(files, lenient=lenient, link_transfers=link_transfers)
    budgets = [key for key in read.mapper if key.replace("_", "-") in BUDGETS]
    if budgets:
        print(f"says how Timeloop searches: mapper.{', '.join(budgets)}", file=sys.stderr)
    for name, keys in (("changes no cost", read.idle), ("left out", read.left_out)):
        for line in _said_once(keys):
            print(f"{name}: {line}", file=sys.stderr)
    return read


def _said_once(places: Sequence[str]) -> list[str]:
    """A line per file and last key, which names the first place and counts the others."""
    alike: dict[tuple[str, str], list[str]] = {}
    for place in places:
        file, _, key = place.rpartition(": ")
        alike.setdefault((file, key.rsplit(".", 1)[-1]), []).append(place)
    return [
        first + (f", and {len(others)} more places of {last}" if others else "")
        for (_, last), (first, *others) in alike.items()
    ]


def evaluate_files(
    files: Sequence[str | Path], *, lenient: bool = False, link_transfers: bool | None = None
) -> dict[str, Any]:
    """What the mapping in Timeloop's files costs, in the keys of a record's `result`.

    Raises:
        ConfigError: files that cannot be read, or a mapping that Timeloop rejects, and why.
    """
    record = read_files(files, lenient=lenient, link_transfers=link_transfers).mapped()
    (scored,) = score([record], LoopNestModel())
    result: dict[str, Any] = scored["result"]
    if result.get("valid") is False:
        why = f"mapping: {result['why'].removesuffix('.')}"
        if "X expansion" in why:
            why += "; a spatial directive without split runs all of its dimensions along X"
        raise ConfigError(f"{why}.")
    return result


def costs_text(result: Mapping[str, Any]) -> str:
    """Costs of such a mapping for people: a row per level and tensor, counts per instance."""
    rows = [
        (level["name"], name, *(tensor[key] for key in _COUNTS), tensor["energy_pj"])
        for level in result["levels"]
        for name, tensor in level["tensors"].items()
    ]
    header = ("level", "tensor", *_COUNTS, "energy, pJ")
    formats = (LEFT, LEFT, *("{:,}" for _ in _COUNTS), "{:,.2f}")
    facts = (
        ("energy", f"{result['energy_pj']:.9g} pJ"),
        ("latency", f"{result['cycles']:,} cycles"),
        ("utilisation", f"{result['utilization']:.2%}"),
    )
    lines = table_lines(Table("costs", "", header, formats, rows))
    return "\n".join([*lines, "", *aligned(facts)])
