"""What `mapspace bypass` says, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from orchestrator.explain import percent

WIDTH = 100
LABELS = {"kept": "every tensor kept", "searched": "bypass searched"}


def layer_text(summary: dict[str, Any]) -> str:
    """One layer, in full."""
    row = summary["layers"][0]
    lines = [f"{row['workload']} on {summary['accelerator']}: what bypass is worth", ""]
    lines.append(f"{'':<20}{'energy, mJ':>12}{'cycles':>18}{'EDP':>14}  standing")
    for key, label in LABELS.items():
        best = row[key]
        lines.append(
            f"{label:<20}{best['energy_pj'] / 1e9:>12.4f}{best['latency_cycles']:>18,.0f}"
            f"{best['edp']:>14.5g}  {_standing(best)}"
        )
    lines.append(
        f"{'times less':<20}{row['energy_ratio']:>12.3f}{row['latency_ratio']:>18.3f}"
        f"{row['edp_ratio']:>14.3f}"
    )
    parts = [part for part in row["kept"]["energy_share"] if part != "network" or _hops(row)]
    lines += ["", f"{'share of energy':<20}" + "".join(f"{part:>12}" for part in parts)]
    for key, label in LABELS.items():
        shares = row[key]["energy_share"]
        lines.append(f"{label:<20}" + "".join(f"{percent(shares[part]):>12}" for part in parts))
    found = row["searched"]["deliveries"]
    width = max(14, *(len(entry["tensor"]) + 2 for entry in found))
    lines += ["", f"{'tensor':<{width}}{'skips':<10}{'served by':<12}MACs per access   pJ per MAC"]
    for entry in found:
        skipped = ", ".join(
            level for level, tensors in row["searched"]["skips"].items()
            if entry["tensor"] in tensors
        )  # fmt: skip
        lines.append(
            f"{entry['tensor']:<{width}}{skipped or '-':<10}{entry['level']:<12}"
            f"{entry['macs_per_access']:>15,.1f}{entry['pj_per_mac']:>13.3f}"
            + ("   free" if entry["free"] else "")
        )
    lines.append("")
    if row["degenerate"]:
        lines += _warning(row)
    lines.append(f"proofs              {summary['seconds']:.2f} s")
    return "\n".join(lines)


def network_text(summary: dict[str, Any]) -> str:
    """A row per layer, and the network as a whole."""
    header = ("layer", "count", "EDP, all kept", "EDP, bypass", "times less", "skipped", "standing")
    table = [header, *(_cells(row) for row in summary["layers"])]
    totals = summary["totals"]
    if totals is not None:
        edps = [f"{totals[key]['edp']:.5g}" for key in LABELS]
        table.append(("total", "", *edps, f"{totals['edp_ratio']:.3f}", "", ""))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 5, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]
    rule = "-" * max(map(len, lines))
    lines.insert(1, rule)
    if totals is not None:
        lines.insert(len(lines) - 1, rule)
    first = f"{summary['network']} on {summary['accelerator']}: what bypass is worth, per layer"
    lines = [first, "", *lines, ""]
    for row in summary["layers"]:
        if row["failure"] is not None:
            lines += textwrap.wrap(f"{row['workload']}: {row['failure']}", WIDTH)
    if totals is not None and totals["degenerate"]:
        lines += textwrap.wrap(
            f"Warning: degenerate (*) in {totals['degenerate']} of {totals['layers']} layers: "
            "tensors skip the element buffers because sending a word to many elements costs "
            "nothing in this model. `mapspace bypass LAYER` has the numbers; limit the bandwidth "
            "or charge hop energy for a comparison that means more.",
            WIDTH,
        )
    if summary["interrupted"]:
        lines.append("interrupted: layers are missing, from the totals too.")
    lines.append(f"proofs  {2 * len(summary['layers'])} in {summary['seconds']:.2f} s")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    first = (row["workload"], f"{row['count']:,}")
    if row["failure"] is not None:
        return (*first, "", "", "", "", "no mapping")
    skipped = "; ".join(
        f"{level}: {', '.join(tensors)}"
        for level, tensors in row["searched"]["skips"].items()
        if tensors
    )
    standings = dict.fromkeys(_standing(row[key]) for key in LABELS)
    return (
        *first,
        f"{row['kept']['edp']:.5g}",
        f"{row['searched']['edp']:.5g}",
        f"{row['edp_ratio']:.3f}" + (" *" if row["degenerate"] else "  "),
        skipped or "nothing",
        ", ".join(standings),
    )


def _standing(best: dict[str, Any]) -> str:
    return "proven" if best["proven"] else f"within {percent(best['gap'])}"


def _hops(row: dict[str, Any]) -> bool:
    return any(row[key]["energy_share"]["network"] > 0 for key in LABELS)


def _warning(row: dict[str, Any]) -> Iterator[str]:
    """Why a result is degenerate, with its numbers."""
    free = [entry for entry in row["searched"]["deliveries"] if entry["free"]]
    inner = list(row["searched"]["skips"])[-1]
    outer = " and ".join(dict.fromkeys(entry["level"] for entry in free))
    words = sum(entry["words_per_cycle"] for entry in free)
    yield from textwrap.wrap(
        f"Warning: degenerate. {', '.join(entry['tensor'] for entry in free)} (free, above): an "
        f"access of {outer} serves so many MACs at once that it costs less per MAC than a single "
        f"access of {inner} would, so no tile in {inner} could pay. That is because the way to the "
        f"elements costs nothing: no hop energy, and no limit on the {words:,.0f} words per cycle "
        "that cross it. Limit the bandwidth (mm256-bw) or charge hop energy for a comparison that "
        "means more.",
        WIDTH,
    )
    yield ""
