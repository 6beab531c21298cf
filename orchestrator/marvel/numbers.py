"""The numbers of Marvel's evaluation, beside the paper's: pure functions from a study's rows.

Source: Chatarasi et al., "Marvel: A Decoupled Model-driven Approach for Efficiently Mapping
Convolutions on Spatial DNN Accelerators", 2020, section 4. A row is one layer on one accelerator;
runtime (cycles) and energy (units of one multiply-accumulate) of `on_chip` are those of one
level-3 tile, and every ratio says how many times better Marvel's mapping is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.maestro.distinct_blocks import (
    LAYOUTS,
    Layout,
)
from mapspace.bounded_reading import parse_json, read_json, read_text
from mapspace.errors import DataError
from orchestrator.marvel.row_models import checked_row

Row = dict[str, Any]

ROWS_FILE, STUDY_FILE = "rows.jsonl", "study.json"
FLOWS = {"KC": "KC, NVDLA", "QP": "QP, ShiDianNao", "QR": "QR, row stationary"}
MEASURES = ("runtime", "energy")
PAPER_LAYOUT = Layout("K", "X", "K")
"""The best uniform layout of the paper (section 4.1)."""

PAPER_TABLE_3: dict[str, tuple[tuple[int, ...], str, int]] = {
    "L1": ((1, 2, 1, 1, 112, 112), "CXP", 1),
    "L2": ((1, 1, 3, 3, 110, 110), "SXP", 1),
    "L3": ((1, 64, 3, 3, 12, 12), "CCK", 1),
    "L4": ((1, 64, 3, 3, 5, 5), "CCK", 1),
    "L5": ((16, 32, 1, 1, 56, 16), "CXP", 2),
    "L6": ((32, 32, 1, 1, 56, 14), "KXP", 2),
    "L7": ((125, 320, 1, 1, 1, 1), "CCK", 2),
    "L8": ((64, 32, 3, 3, 54, 6), "KXK", 2),
    "L9": ((64, 64, 3, 3, 5, 5), "KCK", 2),
    "L10": ((1, 1024, 1, 1, 7, 7), "CCP", 1),
    "L11": ((64, 64, 1, 1, 7, 56), "KCK", 1),
    "L12": ((64, 256, 1, 1, 4, 28), "KCK", 1),
    "L13": ((128, 256, 1, 1, 7, 7), "KCK", 2),
    "L14": ((128, 256, 1, 1, 7, 7), "KCK", 2),
    "L15": ((500, 2, 7, 7, 1, 1), "KXK", 2),
}
"""Level-3 tile, layouts (W, I, O) and number of level-3 loops; their names are lost in the text."""

SPACES = {
    "original": ("original", "2.7 / 9.4 / 1.8"),
    "off_chip": ("off-chip, decoupled", "7.3 / 3.6 / 1.3"),
    "on_chip": ("on-chip, decoupled", "2.9 / 2.4 / 1.4"),
    "off_chip_pruned": ("off-chip, decoupled and pruned", "9.9 / 1.5 / 6.3"),
    "on_chip_pruned": ("on-chip, decoupled and pruned", "3.8 / 5.9 / 2.4"),
}
"""Table 4's variants, and min, average and max of the paper; the text lost the exponents."""

Spread = tuple[float, float, float]


@dataclass(frozen=True)
class Study:
    """The rows of a run.

    Attributes:
        name: of the study.
        description: of the study.
        rows: those with a result, accelerator by accelerator.
        failed: layer, accelerator and reason of the others, those without a row included.
    """

    name: str
    description: str
    rows: list[Row]
    failed: list[tuple[str, str, str]]

    @property
    def accelerators(self) -> list[str]:
        """Those with a row, in their order."""
        return list(dict.fromkeys(row["accelerator"] for row in self.rows))

    @property
    def networks(self) -> list[str]:
        """Those that some row belongs to, in their order."""
        return list(dict.fromkeys(name for row in self.rows for name in row["networks"]))

    @property
    def layers(self) -> list[Row]:
        """One row per layer; off-chip results are the same for all accelerators of the study."""
        return list({row["layer"]: row for row in reversed(self.rows)}.values())[::-1]

    def on(self, accelerator: str) -> list[Row]:
        """The rows of an accelerator."""
        return [row for row in self.rows if row["accelerator"] == accelerator]


def load_study(folder: Path) -> Study:
    """Reads the rows of a run folder; of a layer and accelerator that came twice, the last.

    Raises:
        DataError: there are no rows, or a line is damaged.
    """
    path = folder / ROWS_FILE
    rows: dict[tuple[str, str], Row] = {}
    if not path.exists():
        raise DataError(f"{path}: expected the rows of a study; there is no such file.")
    lines = read_text(path, DataError).splitlines()
    for number, line in enumerate(lines, 1):
        where = f"line {number}"
        try:
            read = checked_row(parse_json(line, where, DataError), where)
        except DataError as error:
            raise DataError(f"{path}: expected a row of a study; {error}") from None
        rows[read["layer"], read["accelerator"]] = read
    named = folder / STUDY_FILE
    try:
        config = read_json(named) if named.exists() else {}
    except ValueError as error:
        raise DataError(f"{named}: expected a study; {error}.") from error
    machines = list(dict.fromkeys(accelerator for _, accelerator in rows))
    found = sorted(
        (row for row in rows.values() if not row["failure"]),
        key=lambda row: machines.index(row["accelerator"]),
    )
    failed = [
        (name, accelerator, row["failure"] if row else "not in the results")
        for name in dict.fromkeys(name for name, _ in rows)
        for accelerator in machines
        if not (row := rows.get((name, accelerator))) or row["failure"]
    ]
    if not found:
        raise DataError(f"{path}: expected at least one layer with a result.")
    name, description = config.get("name", folder.name), config.get("description", "")
    return Study(str(name), " ".join(str(description).split()), found, failed)


def label(row: Row) -> str:
    """What tables and figures call a layer: L5, or its name without its network's."""
    name = str(row["layer"])
    if name.startswith("marvel-l"):
        return name.removeprefix("marvel-").upper()
    for network in row["networks"]:
        name = name.removeprefix(f"{network}-")
    return name


def geometric_mean(values: Iterable[float]) -> float:
    """Not a number where there are no values."""
    values = list(values)
    return statistics.geometric_mean(values) if values else math.nan


# Off-chip: Tables 3 and 4, Figures 6 and 7.


def layout_ratios(row: Row) -> list[float]:
    """`[36]` off-chip cost of each of `LAYOUTS`, its own best tile taken, over the best's."""
    costs = row["off_chip"]["least_costs"]
    return [cost / min(costs) for cost in costs]


def agrees_with_table_3(row: Row) -> bool | None:
    """Whether tile and layouts are the paper's; None for a layer that is not in its Table 3."""
    printed = PAPER_TABLE_3.get(label(row))
    if printed is None:
        return None
    found = row["off_chip"]
    return tuple(found["tile"]) == printed[0] and "".join(found["layout"]) == printed[1]


@dataclass(frozen=True)
class UniformLayouts:
    """One triple of layouts for several layers (Figure 7).

    Attributes:
        excess: `[36]` by `LAYOUTS`: how much more is moved in all than with every layer's own
            best, 0.05 for 5 %.
        mean: `[36]` the same with every layer counted alike: geometric mean of its ratios.
    """

    excess: list[float]
    mean: list[float]

    @property
    def best(self) -> int:
        """The layout of the least total."""
        return self.excess.index(min(self.excess))


def uniform_layouts(rows: Sequence[Row], network: str | None = None) -> UniformLayouts:
    """Every layout for all layers, in a network as often as each occurs."""
    counts = [row["networks"][network] if network else 1 for row in rows]
    blocks = [
        [count * row["macs"] * cost for cost in row["off_chip"]["least_costs"]]
        for count, row in zip(counts, rows, strict=True)
    ]
    least = sum(map(min, blocks))
    excess = [sum(layer[i] for layer in blocks) / least - 1 for i in range(len(LAYOUTS))]
    logs = [[math.log(ratio) for ratio in layout_ratios(row)] for row in rows]
    mean = [
        math.exp(
            sum(count * layer[i] for count, layer in zip(counts, logs, strict=True)) / sum(counts)
        )
        - 1
        for i in range(len(LAYOUTS))
    ]
    return UniformLayouts(excess, mean)


def space_sizes(rows: Sequence[Row]) -> dict[str, Spread]:
    """Min, arithmetic mean and max of each kind of space (Table 4)."""
    sizes = {key: [float(row["space"][key]) for row in rows] for key in SPACES}
    return {key: (min(v), statistics.fmean(v), max(v)) for key, v in sizes.items()}


def space_reduction(rows: Sequence[Row]) -> float:
    """The average original space over the average of the two pruned ones together."""
    sizes = space_sizes(rows)
    return sizes["original"][1] / (sizes["off_chip_pruned"][1] + sizes["on_chip_pruned"][1])


# On-chip: Figure 8.


def throughput(row: Row, cycles: float) -> float:
    """MACs per cycle of a layer whose level-3 tiles take so many cycles each."""
    return float(row["macs"] / (row["tiles_per_layer"] * cycles))


def energy_per_mac(row: Row, energy: float) -> float:
    """Energy per MAC of a layer whose level-3 tiles take so much each, in units of one MAC."""
    return float(row["tiles_per_layer"] * energy / row["macs"])


def flow_value(row: Row, flow: str, measure: str) -> float | None:
    """The best of a reference dataflow for one tile; None where it has no mapping."""
    found = row["on_chip"]["dataflows"].get(flow)
    return float(found[measure]["value"]) if found else None


def flow_ratios(
    rows: Sequence[Row], measure: str, flows: Sequence[str] = tuple(FLOWS)
) -> list[float]:
    """How many times better Marvel's mapping is, per row and dataflow that has a mapping."""
    return [
        value / row["on_chip"]["best"][measure]["value"]
        for row in rows
        for flow in flows
        if (value := flow_value(row, flow, measure)) is not None
    ]


def remainder_gains(rows: Sequence[Row]) -> dict[str, list[float]]:
    """What tiles that do not divide gain: times fewer cycles, times less energy, per row."""
    some = [row["remainders"] for row in rows if row["remainders"]]
    return {
        measure: [
            found["reference"][measure]["value"] / found["best"][measure]["value"] for found in some
        ]
        for measure in MEASURES
    }


def remainder_times(rows: Sequence[Row]) -> list[float]:
    """Times that the search with remainders took longer, where it came to its end."""
    some = [row["remainders"] for row in rows if row["remainders"]]
    return [found["seconds"] / found["reference_seconds"] for found in some if found["proven"]]
