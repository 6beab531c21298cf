"""What `mapspace space` says, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from mapspace.storage import Place
from orchestrator.report.document import LEFT, RIGHT, Row, Table
from orchestrator.report.text_table import table_lines
from orchestrator.report.units import percent

COSTS = (("energy", "energy"), ("cycles", "cycles"), ("edp", "EDP"))
ROWS = (
    ("mean", "mean"),
    ("standard deviation", "standard_deviation"),
    ("least", "minimum"),
    ("1 % of them below", "quantile_0.01"),
    ("5 %", "quantile_0.05"),
    ("25 %", "quantile_0.25"),
    ("median", "median"),
    ("75 %", "quantile_0.75"),
    ("95 %", "quantile_0.95"),
    ("99 %", "quantile_0.99"),
    ("greatest", "maximum"),
)


def description_text(summary: Mapping[str, Any], plot: Place | None) -> str:
    """Everything that is known of some map spaces, or of a family's.

    Args:
        summary: as `SpaceDescription` has it.
        plot: where the surface was drawn, if it was.
    """
    if "family" in summary:
        return family_text(summary)
    texts = [space_text(entry) for entry in summary["spaces"]]
    if "pooled" in summary:
        texts.append(pooled_text(summary["pooled"], len(summary["spaces"])))
    if plot is not None:
        texts.append(surface_text(summary["surface"], plot))
    return "\n\n".join(texts)


def space_text(entry: Mapping[str, Any]) -> str:
    """One map space: its size attribute by attribute, what is feasible, what mappings cost."""
    first = f"{entry['workload']} on {entry['accelerator']}: 10^{entry['log10']:.1f} mappings"
    sizes = table_lines(_sizes_table(entry))
    return "\n".join([first, "", *sizes, "", *_table(entry), "", *_optimum(entry)])


def pooled_text(summary: Mapping[str, Any], spaces: int) -> str:
    """All spaces together."""
    return "\n".join([f"the {spaces} spaces together", "", *_table(summary)])


def family_text(summary: Mapping[str, Any]) -> str:
    """Random problems of a family."""
    first = (
        f"{summary['problems']:,} {summary['family']} problems, drawn as training data is, "
        f"on {summary['accelerator']}"
    )
    return "\n".join([first, "", *_table(summary)])


def surface_text(surface: Mapping[str, Any], path: Place) -> str:
    """The cost surface that was drawn."""
    names = " and ".join(surface["dimensions"])
    which = "all values" if surface["shape"] == surface["whole"] else "some values"
    around = "the proven best one" if surface["proven"] else "the best one known"
    return (
        f"surface         {which} of {names} around {around}: {surface['points']:,} mappings, "
        f"{surface['feasible']:,} feasible,\n"
        f"{'':<16}normalised EDP {surface['minimum']:.4g} to {_number(surface['maximum'])}, "
        f"{surface['local_minima']:,} local minima; {path}"
    )


def _sizes_table(entry: Mapping[str, Any]) -> Table:
    """The attributes; below them all of the space, what is feasible of it and why not all."""
    drawn, share = entry["drawn"], entry["feasible_share"]
    counted = entry["feasible"] is not None
    feasible = int(entry["feasible"]) if counted else int(entry["mappings"]) * share
    foot: list[Row] = [
        ("all", f"{int(entry['mappings']):.2e}", entry["log10"], ""),
        (
            "feasible",
            f"{feasible:.2e}",
            math.log10(feasible),
            f"{'counted; ' if counted else ''}{percent(share)} of {drawn:,} drawn",
        ),
        *(
            ("", "", "", f"{percent(count / drawn)}: {reason}")
            for reason, count in entry["rejected"].items()
        ),
    ]
    rows: list[Row] = [
        (name, count, math.log10(count), "") for name, count in entry["attributes"].items()
    ]
    header = ("attribute", "values", "10^", "")
    return Table("sizes", "", header, (LEFT, "{:,}", "{:.1f}", LEFT), rows, foot)


def _table(summary: Mapping[str, Any]) -> list[str]:
    rows = [(label, *(_number(summary[cost][key]) for cost, _ in COSTS)) for label, key in ROWS]
    header = ("", *(label for _, label in COSTS))
    table = Table("costs", "", header, (LEFT, *[RIGHT] * len(COSTS)), rows)
    first = f"{summary['samples']:,} feasible mappings, costs over the algorithmic minimum"
    return [first, *table_lines(table)]


def _optimum(entry: Mapping[str, Any]) -> Iterator[str]:
    best = entry["optimum"]
    if best is None:
        yield f"no proven optimum: {entry['optimum_note']}"
        return
    normalised = f"{best['normalised_edp']:.4f} x the algorithmic minimum"
    yield f"proven optimum  EDP {best['edp_js']:.6g} J s, {normalised}"
    yield (
        f"above it        best sample {percent(best['best_sample_above'])}, "
        f"median {_number(100 * best['median_above'])} %, "
        f"mean {_number(100 * best['mean_above'])} %"
    )
    yield (
        f"near it         {percent(best['within_10_percent'])} of the samples within 10 %, "
        f"{percent(best['within_twice'])} within twice the optimum"
    )


def _number(value: float) -> str:
    """Four figures or whole numbers, with separators."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
