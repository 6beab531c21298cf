"""What `mapspace search --network` says to people: a row per layer, totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from costmodel.machines.machine import Machine
from costmodel.machines.machine_units import chip_text, has_real_units, idle_text
from orchestrator.networks.operators import moves_fact
from orchestrator.report.document import LEFT, RIGHT, Row, Table
from orchestrator.report.text_table import table_lines, wrapped
from orchestrator.report.units import (
    energy_text,
    latency_text,
    millijoules,
    percent,
    value_text,
)

HEADER = (
    "layer",
    "count",
    "energy, mJ",
    "cycles",
    "ms",
    "EDP, J s",
    "utilised",
    "limited by",
    "standing",
)
FORMATS = (LEFT, "{:,}", "{:.5g}", "{:,.0f}", "{:.4g}", "{:.5g}", RIGHT, LEFT, LEFT)
# Of what was proven among the mappings that keep what was asked for.
RESTRICTED = ", restricted"


def network_text(
    summary: Mapping[str, Any],
    obstacles: Iterable[str | None],
    machine: Machine,
    interruption: str | None,
) -> str:
    """A network's result in full.

    Args:
        summary: the result, as JSON has it.
        obstacles: why no proof is possible of each layer; None where one is.
        machine: what it was searched on.
        interruption: what an interruption left out; None without one.
    """
    return "\n".join(_lines(summary, obstacles, machine, interruption))


def _lines(
    summary: Mapping[str, Any],
    obstacles: Iterable[str | None],
    machine: Machine,
    interruption: str | None,
) -> Iterator[str]:
    rows = summary["layers"]
    totals = summary["totals"]
    all_proven = all(row.get("proven", False) for row in rows)
    table = _table(summary, standings=not all_proven)
    goal = f"each layer for its {summary['objective']}"
    yield f"{summary['network']} on {summary['accelerator']}, {goal}"
    yield ""
    failures = {row["workload"]: row["failure"] for row in rows if row["failure"] is not None}
    named: dict[str, list[str]] = {}  # by the first word: there may be ten thousand
    for name in failures:
        named.setdefault(name.split(" ")[0], []).append(name)
    for line in table_lines(table):
        yield line
        for name in named.get(line.split(" ")[0], ()):
            if name in failures and line.startswith(f"{name} "):
                yield from wrapped(failures.pop(name), "    ")
    yield ""
    for name, failure in failures.items():  # of a name that is broken in lines
        yield from wrapped(f"{name}: {failure}")
    for obstacle in dict.fromkeys(obstacles):
        if obstacle is not None:
            yield from wrapped(f"best known: no proof is possible: {obstacle}")
    if all_proven and totals is not None:
        objective = summary["objective"]
        yield f"layers          no mapping of any layer has a lower {objective}: all are proven"
    if totals is not None:
        yield from _standing_of(summary, machine)
    if moves := summary["moves"]:
        label, text = moves_fact(moves)
        yield from wrapped(f"{label:<16}{text}")
    yield f"search          {len(rows)} distinct layers in {summary['seconds']:.2f} s"
    if interruption is not None:
        yield interruption


def _about(summary: Mapping[str, Any]) -> tuple[str, str]:
    """What keys about the mappings that were searched end with, and the note of such figures."""
    return ("", "") if summary["keep"] is None else ("_under_restriction", RESTRICTED)


def _standing_of(summary: Mapping[str, Any], machine: Machine) -> Iterator[str]:
    from costmodel.exact.restriction import among

    objective, totals, keep = summary["objective"], summary["totals"], summary["keep"]
    about, _ = _about(summary)
    which = "" if keep is None else f" among {among(keep)}"
    missing = "" if totals["complete"] else ", of the layers above that have a mapping"
    yield f"energy          {energy_text(totals['energy_pj'])}{missing}"
    latency = latency_text(totals["latency_cycles"], machine.clock_ghz)
    yield f"latency         {latency}, one layer after another"
    yield f"mean power      {totals['power_w']:.4g} W"
    if has_real_units(machine):
        yield f"{'':<16}{idle_text(totals['chip_power_w'])}"
        yield from wrapped(f"{'chip':<16}{chip_text(machine)}")
    edp = value_text("edp", totals["edp"], machine.clock_ghz)
    yield f"EDP             {edp} (total energy x total time)"
    if totals[f"proven{about}"]:
        start = f"proven optimal{which}:" if which else "proven optimal "
        yield f"{start} no mappings have a lower {objective} in all"
    else:
        bound = value_text(objective, totals[f"lower_bound{about}"], machine.clock_ghz)
        gap = percent(totals[f"gap{about}"])
        yield f"certified       within {gap} of the network's optimum{which}: none is below {bound}"
    if keep is not None:
        yield f"{'':<16}other mappings of the machine may be better"


def _table(summary: Mapping[str, Any], *, standings: bool) -> Table:
    """A row per layer and the totals; what holds for every layer is said once, below."""
    rows, foot = [_cells(row, row["standing"]) for row in summary["layers"]], []
    totals = summary["totals"]
    if totals is not None:
        about, note = _about(summary)
        every = f"{totals[f'proven_layers{about}']} of {totals['distinct_layers']} proven{note}"
        foot = [_cells({**totals, "workload": "total", "count": totals["layers"]}, every)]
    columns = len(HEADER) - (not standings)
    return Table(
        "layers",
        "",
        HEADER[:columns],
        FORMATS[:columns],
        [row[:columns] for row in rows],
        [row[:columns] for row in foot],
    )


def _cells(row: Mapping[str, Any], standing: str) -> Row:
    first = (row["workload"], row["count"])
    if "energy_pj" not in row:
        return (*first, *[""] * (len(HEADER) - len(first) - 1), standing)
    return (
        *first,
        millijoules(row["energy_pj"]),
        row["latency_cycles"],
        1e3 * row["latency_s"],
        row["edp_js"],
        percent(row["utilisation"]),
        row.get("limited_by", ""),
        standing,
    )
