"""What `mapspace search --network` says: a row per layer, totals; for people and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.accelerator import Accelerator
from costmodel.affine import Workload
from costmodel.costs import Objective
from orchestrator.explain import UNITS, Answer, percent

WIDTH = 100
HEADER = ("layer", "count", "energy, mJ", "cycles", "EDP", "utilisation", "standing")
# An objective is energy^a x cycles^b; the exponents' sum.
DEGREES = {"energy": 1, "latency": 1, "edp": 2, "ed2p": 3}


@dataclass(frozen=True)
class LayerResult:
    """What became of one layer.

    Attributes:
        workload: the layer.
        count: how often the network has it.
        summary: what `mapspace search LAYER --json` prints; None where there is no mapping.
        standing: what is certain about the mapping, in a word or two.
        obstacle: why no proof is possible; None where one is.
        failure: why there is no mapping, or why the searcher stopped before its budget.
    """

    workload: Workload
    count: int
    summary: dict[str, Any] | None = None
    standing: str = "no mapping"
    obstacle: str | None = None
    failure: str | None = None


@dataclass(frozen=True)
class NetworkAnswer:
    """The layers of a network with their best mappings.

    Attributes:
        summary: what `--json` prints.
        text: what a person reads.
        records: a mapping record per layer, with `layer` and `count`.
        failure: what is missing, in one line; None where nothing is.
        interrupted: whether Ctrl-C ended the search.
    """

    summary: dict[str, Any]
    text: str
    records: list[dict[str, Any]]
    failure: str | None
    interrupted: bool


def standing(answer: Answer) -> str:
    """What is certain about the mapping of a layer, in a word or two."""
    if answer.summary["proven"]:
        return "proven"
    if answer.certificate is None:
        return "best known"
    gap = percent(answer.summary["gap"])
    return f"{gap} above" if answer.summary["gap_to_optimum"] is not None else f"within {gap}"


def report(
    objective: Objective,
    name: str,
    device: Accelerator,
    results: Sequence[LayerResult],
    unfinished: Sequence[str],
    seconds: float,
) -> NetworkAnswer:
    """Puts the layers of a network together.

    Args:
        objective: what each layer's mapping minimises.
        name: the network.
        device: the accelerator.
        results: the layers that were searched.
        unfinished: names of those that an interruption left out.
        seconds: how long the search took.
    """
    rows = [
        {
            **(result.summary or {"workload": result.workload.name, "accelerator": device.name}),
            "count": result.count,
            "standing": result.standing,
            "failure": result.failure,
        }
        for result in results
    ]
    failed = sum(result.failure is not None for result in results)
    failure = None
    if unfinished:
        every = len(results) + len(unfinished)
        failure = f"interrupted: {len(unfinished)} of {every} layers are missing from the totals."
    elif failed:
        failure = f"{failed} of {len(results)} layers failed; the table says why."
    summary = {
        "network": name,
        "accelerator": device.name,
        "objective": objective,
        "seconds": seconds,
        "interrupted": bool(unfinished),
        "unfinished": list(unfinished),
        "layers": rows,
        "totals": _totals(objective, rows, complete=not unfinished),
    }
    records = [
        {"layer": row["workload"], "count": row["count"], **row["record"]}
        for row in rows
        if "record" in row
    ]
    text = "\n".join(_lines(summary, results, device, failure if unfinished else None))
    return NetworkAnswer(summary, text, records, failure, bool(unfinished))


def _totals(
    objective: Objective, rows: Sequence[dict[str, Any]], *, complete: bool
) -> dict[str, Any] | None:
    """Sums over the layers that have a mapping, each as often as it occurs; None without any.

    The network's objective is that of the sums, and layers that are each the best need not have the
    best product of sums. But by Hölder's inequality no choice of mappings has less than the sum of
    the roots of the layers' bounds, raised again: (sum E) (sum T) >= (sum of sqrt(E T))^2.
    """
    found = [row for row in rows if "record" in row]
    if not found:
        return None
    counts = [row["count"] for row in found]

    def sum_of(values: Iterable[float]) -> float:
        return math.fsum(count * value for count, value in zip(counts, values, strict=True))

    energy = sum_of(row["energy_pj"] for row in found)
    cycles = sum_of(row["latency_cycles"] for row in found)
    busy = sum_of(row["utilisation"] * row["latency_cycles"] for row in found)
    degree = DEGREES[objective]
    value = {
        "energy": energy,
        "latency": cycles,
        "edp": energy * cycles,
        "ed2p": energy * cycles * cycles,
    }[objective]
    bound: float = sum_of(row["lower_bound"] ** (1 / degree) for row in found) ** degree
    # Without a product the sum of the best is the best sum; so is one layer, however often.
    proven = all(row["proven"] for row in found) and (degree == 1 or len(found) == 1)
    gap = max(0.0, value / bound - 1) if bound > 0 else math.inf
    return {
        "complete": complete and len(found) == len(rows),
        "distinct_layers": len(found),
        "layers": sum(counts),
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": energy * cycles,
        "utilisation": busy / cycles,
        "proven_layers": sum(row["proven"] for row in found),
        "proven": proven,
        "lower_bound": value if proven else min(bound, value),
        "gap": 0.0 if proven else gap,
    }


def _lines(
    summary: dict[str, Any],
    results: Sequence[LayerResult],
    device: Accelerator,
    interruption: str | None,
) -> Iterator[str]:
    totals = summary["totals"]
    table = [HEADER, *(_cells(row) for row in summary["layers"])]
    if totals is not None:
        every = f"{totals['proven_layers']} of {totals['distinct_layers']} proven"
        table.append(_cells({**totals, "workload": "total", "count": totals["layers"]}, every))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [_line(cells, widths) for cells in table]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    last = len(lines) - (totals is not None)
    goal = f"each layer for its {summary['objective']}"
    yield f"{summary['network']} on {summary['accelerator']}, {goal}"
    yield ""
    yield from lines[:1]
    yield rule
    for line, result in zip(lines[1:last], results, strict=True):
        yield line
        if result.failure is not None:
            yield from _wrapped(result.failure, "    ")
    if totals is not None:
        yield rule
        yield lines[-1]
    yield ""
    for obstacle in dict.fromkeys(result.obstacle for result in results):
        if obstacle is not None:
            yield from _wrapped(f"best known: no proof is possible: {obstacle}", "")
    if totals is not None:
        yield from _standing_of(summary["objective"], totals, device)
    yield f"search          {len(results)} distinct layers in {summary['seconds']:.2f} s"
    if interruption is not None:
        yield interruption


def _standing_of(
    objective: Objective, totals: dict[str, Any], device: Accelerator
) -> Iterator[str]:
    seconds = totals["latency_cycles"] / (device.clock_ghz * 1e9)
    missing = "" if totals["complete"] else ", of the layers above that have a mapping"
    yield f"energy          {totals['energy_pj'] / 1e9:.6g} mJ{missing}"
    cycles = f"{totals['latency_cycles']:,.0f} cycles ({1e3 * seconds:.4g} ms)"
    yield f"latency         {cycles}, one layer after another"
    yield f"EDP             {totals['edp']:.6g} pJ x cycles (total energy x total cycles)"
    if totals["proven"]:
        yield f"proven optimal  no mappings have a lower {objective} in all"
    else:
        bound = f"{totals['lower_bound']:.6g} {UNITS[objective]}"
        gap = percent(totals["gap"])
        yield f"certified       within {gap} of the network's optimum: none is below {bound}"


def _cells(row: dict[str, Any], standing: str | None = None) -> tuple[str, ...]:
    first = (row["workload"], f"{row['count']:,}")
    if "energy_pj" not in row:
        return (*first, "", "", "", "", row["standing"])
    return (
        *first,
        f"{row['energy_pj'] / 1e9:.4f}",
        f"{row['latency_cycles']:,.0f}",
        f"{row['edp']:.5g}",
        percent(row["utilisation"]),
        standing or row["standing"],
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of the table: names and standings to the left, figures to the right."""
    ends = (0, len(cells) - 1)
    return "  ".join(
        cell.ljust(width) if column in ends else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
