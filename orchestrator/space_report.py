"""What `mapspace space` says, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.explain import percent

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


def space_text(entry: dict[str, Any]) -> str:
    """One map space: its size attribute by attribute, what is feasible, what mappings cost."""
    lines = [f"{entry['workload']} on {entry['accelerator']}: 10^{entry['log10']:.1f} mappings", ""]
    width = max(16, *(len(name) + 2 for name in entry["attributes"]))
    lines.append(f"{'attribute':<{width}}{'values':>12}{'10^':>8}")
    for name, count in entry["attributes"].items():
        lines.append(f"{name:<{width}}{count:>12,}{math.log10(count):>8.1f}")
    lines.append(f"{'all':<{width}}{int(entry['mappings']):>12.2e}{entry['log10']:>8.1f}")
    share = entry["feasible_share"]
    feasible = entry["log10"] + math.log10(share)
    cells = f"{int(entry['mappings']) * share:>12.2e}{feasible:>8.1f}"
    lines.append(f"{'feasible':<{width}}{cells}   {percent(share)} of {entry['drawn']:,} drawn")
    for reason, count in entry["rejected"].items():
        lines.append(f"{'':<{width + 20}}   {percent(count / entry['drawn'])}: {reason}")
    lines += ["", *_table(entry), "", *_optimum(entry)]
    return "\n".join(lines)


def pooled_text(summary: dict[str, Any], spaces: int) -> str:
    """All spaces together."""
    return "\n".join([f"the {spaces} spaces together", "", *_table(summary)])


def family_text(summary: dict[str, Any]) -> str:
    """Random problems of a family."""
    first = (
        f"{summary['problems']:,} {summary['family']} problems, drawn as training data is, "
        f"on {summary['accelerator']}"
    )
    return "\n".join([first, "", *_table(summary)])


def surface_text(surface: dict[str, Any], path: Path) -> str:
    """The cost surface that was drawn."""
    names = " and ".join(surface["dimensions"])
    around = "the proven best one" if surface["proven"] else "the best one known"
    return (
        f"surface         all tilings of {names} around {around}: {surface['points']:,} mappings, "
        f"{surface['feasible']:,} feasible,\n"
        f"{'':<16}normalised EDP {surface['minimum']:.4g} to {_number(surface['maximum'])}, "
        f"{surface['local_minima']:,} local minima; {path}"
    )


def _table(summary: dict[str, Any]) -> Iterator[str]:
    yield f"{summary['samples']:,} feasible mappings, costs over the algorithmic minimum"
    yield f"{'':<20}" + "".join(f"{label:>12}" for _, label in COSTS)
    for label, key in ROWS:
        yield f"{label:<20}" + "".join(f"{_number(summary[cost][key]):>12}" for cost, _ in COSTS)


def _optimum(entry: dict[str, Any]) -> Iterator[str]:
    best = entry["optimum"]
    if best is None:
        yield f"no proven optimum: {entry['optimum_note']}"
        return
    normalised = f"{best['normalised_edp']:.4f} x the algorithmic minimum"
    yield f"proven optimum  EDP {best['edp']:.6g} pJ x cycles, {normalised}"
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
