"""What `mapspace bypass` says, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.report.document import LEFT, RIGHT, Row, Table
from orchestrator.report.text_table import table_lines, wrapped
from orchestrator.report.units import millijoules, percent

LABELS = {"kept": "every tensor kept", "searched": "bypass searched"}
HEADER = (
    "layer",
    "count",
    "EDP, J s, all kept",
    "with bypass",
    "times less",
    "skipped",
    "standing",
)
FORMATS = (LEFT, "{:,}", "{:.5g}", "{:.5g}", RIGHT, LEFT, LEFT)


def layer_text(summary: Mapping[str, Any]) -> str:
    """One layer, in full."""
    row = summary["layers"][0]
    lines = [f"{row['workload']} on {summary['accelerator']}: what bypass is worth"]
    for table in (_costs_table(row), _shares_table(row), _deliveries_table(row)):
        lines += ["", *table_lines(table)]
    lines.append("")
    if row["degenerate"]:
        lines += [*_warning(row), ""]
    lines.append(f"proofs              {summary['seconds']:.2f} s")
    return "\n".join(lines)


def network_text(summary: Mapping[str, Any]) -> str:
    """A row per layer, and the network as a whole."""
    totals = summary["totals"]
    all_proven = all(row["failure"] is None and _proven(row) for row in summary["layers"])
    # What holds for every layer is said once, below.
    columns = len(HEADER) - all_proven
    foot = []
    if totals is not None:
        edps = [totals[key]["edp_js"] for key in LABELS]
        foot = [("total", "", *edps, f"{totals['edp_ratio']:.3f}  ", "", "")[:columns]]
    table = Table(
        "layers",
        "",
        HEADER[:columns],
        FORMATS[:columns],
        [_cells(row)[:columns] for row in summary["layers"]],
        foot,
    )
    first = f"{summary['network']} on {summary['accelerator']}: what bypass is worth, per layer"
    lines = [first, "", *table_lines(table), ""]
    for row in summary["layers"]:
        if row["failure"] is not None:
            lines += wrapped(f"{row['workload']}: {row['failure']}")
    if totals is not None and totals["degenerate"]:
        lines += wrapped(
            f"Warning: degenerate (*) in {totals['degenerate']} of {totals['layers']} layers: "
            "tensors skip the element buffers because sending a word to many elements costs "
            "nothing in this model. `mapspace bypass LAYER` has the numbers; limit the bandwidth "
            "or charge hop energy for a comparison that means more."
        )
    if all_proven:
        lines.append("layers  both mappings of every layer are proven optimal")
    if summary["interrupted"]:
        lines.append("interrupted: layers are missing, from the totals too.")
    lines.append(f"proofs  {2 * len(summary['layers'])} in {summary['seconds']:.2f} s")
    return "\n".join(lines)


def _costs_table(row: Mapping[str, Any]) -> Table:
    """Both mappings, and how many times less the second one costs."""
    rows: list[Row] = [
        (
            label,
            f"{millijoules(row[key]['energy_pj']):.5g}",
            f"{row[key]['latency_cycles']:,.0f}",
            f"{1e3 * row[key]['latency_s']:.5g}",
            f"{row[key]['edp_js']:.5g}",
            _standing(row[key]),
        )
        for key, label in LABELS.items()
    ]
    ratios = [f"{row[f'{cost}_ratio']:.3f}" for cost in ("energy", "latency", "edp")]
    rows.append(("times less", *ratios[:2], "", ratios[2], ""))
    header = ("", "energy, mJ", "cycles", "time, ms", "EDP, J s", "standing")
    return Table("costs", "", header, (LEFT, *[RIGHT] * 4, LEFT), rows)


def _shares_table(row: Mapping[str, Any]) -> Table:
    """What the energy is spent on."""
    parts = [part for part in row["kept"]["energy_share"] if part != "network" or _hops(row)]
    return Table(
        "shares",
        "",
        ("share of energy", *parts),
        (LEFT, *[RIGHT] * len(parts)),
        [
            (label, *(percent(row[key]["energy_share"][part]) for part in parts))
            for key, label in LABELS.items()
        ],
    )


def _deliveries_table(row: Mapping[str, Any]) -> Table:
    """Per tensor what it skips, and what serves the multipliers in its place."""
    rows: list[Row] = []
    for entry in row["searched"]["deliveries"]:
        skips = row["searched"]["skips"].items()
        skipped = ", ".join(level for level, tensors in skips if entry["tensor"] in tensors)
        costs = (entry["macs_per_access"], entry["pj_per_mac"])
        free = "free" if entry["free"] else ""
        rows.append((entry["tensor"], skipped or "-", entry["level"], *costs, free))
    return Table(
        "deliveries",
        "",
        ("tensor", "skips", "served by", "MACs per access", "pJ per MAC", ""),
        (LEFT, LEFT, LEFT, "{:,.1f}", "{:.3f}", LEFT),
        rows,
    )


def _cells(row: Mapping[str, Any]) -> Row:
    first = (row["workload"], row["count"])
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
        row["kept"]["edp_js"],
        row["searched"]["edp_js"],
        f"{row['edp_ratio']:.3f}" + (" *" if row["degenerate"] else "  "),
        skipped or "nothing",
        ", ".join(standings),
    )


def _proven(row: Mapping[str, Any]) -> bool:
    return all(row[key]["proven"] for key in LABELS)


def _standing(best: Mapping[str, Any]) -> str:
    return "proven" if best["proven"] else f"within {percent(best['gap'])}"


def _hops(row: Mapping[str, Any]) -> bool:
    return any(row[key]["energy_share"]["network"] > 0 for key in LABELS)


def _warning(row: Mapping[str, Any]) -> list[str]:
    """Why a result is degenerate, with its numbers."""
    free = [entry for entry in row["searched"]["deliveries"] if entry["free"]]
    inner = list(row["searched"]["skips"])[-1]
    outer = " and ".join(dict.fromkeys(entry["level"] for entry in free))
    words = sum(entry["words_per_cycle"] for entry in free)
    return wrapped(
        f"Warning: degenerate. {', '.join(entry['tensor'] for entry in free)} (free, above): an "
        f"access of {outer} serves so many MACs at once that it costs less per MAC than a single "
        f"access of {inner} would, so no tile in {inner} could pay. That is because the way to the "
        f"elements costs nothing: no hop energy, and no limit on the {words:,.0f} words per cycle "
        "that cross it. Limit the bandwidth (mm256-bw) or charge hop energy for a comparison that "
        "means more."
    )
