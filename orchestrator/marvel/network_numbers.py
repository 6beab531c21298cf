"""Numbers of Marvel's evaluation over many layers, and of the searches that it is held to.

Source: Chatarasi et al., "Marvel", 2020: whole networks (Figure 9), one dataflow for all layers
(section 4.2) and other searches (Figure 10). Rows are those of `orchestrator.marvel.numbers`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costmodel.maestro.distinct_blocks import DIMENSIONS
from orchestrator.marvel.numbers import FLOWS, MEASURES, Row, Study, flow_value, geometric_mean

METHODS = {"random": "random", "brute-force": "brute force", "joint": "joint search"}

# Whole networks: Figure 9, and one dataflow for all layers.


@dataclass(frozen=True)
class NetworkTotal:
    """A network on an accelerator.

    Attributes:
        macs: multiply-accumulates of all layers that have a result.
        runtime: cycles by `marvel` and by dataflow; nan where one lacks a mapping of a layer.
        energy: the same, in units of one MAC.
    """

    macs: int
    runtime: dict[str, float]
    energy: dict[str, float]


def network_total(rows: Sequence[Row], network: str) -> NetworkTotal:
    """Sums layers x multiplicities x tiles of the rows of one accelerator."""
    inside = [row for row in rows if network in row["networks"]]

    def total(measure: str, flow: str | None) -> float:
        values = [
            flow_value(row, flow, measure) if flow else row["on_chip"]["best"][measure]["value"]
            for row in inside
        ]
        return math.fsum(
            math.nan if value is None else value * row["tiles_per_layer"] * row["networks"][network]
            for row, value in zip(inside, values, strict=True)
        )

    sums = {
        measure: {"marvel": total(measure, None)} | {flow: total(measure, flow) for flow in FLOWS}
        for measure in MEASURES
    }
    macs = sum(row["macs"] * row["networks"][network] for row in inside)
    return NetworkTotal(macs, sums["runtime"], sums["energy"])


def network_ratios(study: Study, measure: str, flows: Sequence[str] = tuple(FLOWS)) -> list[float]:
    """How many times better Marvel's totals are, per network, accelerator and dataflow."""
    totals = [
        getattr(network_total(study.on(accelerator), network), measure)
        for network in study.networks
        for accelerator in study.accelerators
    ]
    ratios = [total[flow] / total["marvel"] for total in totals for flow in flows]
    return [ratio for ratio in ratios if math.isfinite(ratio)]


def family_values(row: Row, measure: str, families: Iterable[str]) -> dict[str, float]:
    """The best of one tile if the array is parallel along some dimensions.

    An array that can be parallel along K and C need not use both: families with fewer of the same
    dimensions count for it.
    """
    kept = row["on_chip"]["families"]
    values = {
        ("" if name == "none" else name): bests[measure]["value"] for name, bests in kept.items()
    }
    return {
        family: min(
            (value for name, value in values.items() if set(name) <= set(family)), default=math.nan
        )
        for family in families
    }


@dataclass(frozen=True)
class UniformDataflow:
    """The parallel dimensions that all layers share at the least cost.

    Attributes:
        family: dimensions, such as CP.
        excess: how much more than with each layer's own, 0.05 for 5 %.
    """

    family: str
    excess: float


def uniform_dataflow(
    rows: Sequence[Row], measure: str, dimensions: int, network: str | None = None
) -> UniformDataflow | None:
    """The best parallel dimensions of so many for all rows of one accelerator.

    Of a network the totals count, layers as often as they occur; of other layers the geometric
    mean of the ratios, so that none decides by its size. None where no family serves all.
    """
    families = list(
        dict.fromkeys(
            "".join(sorted(name, key=DIMENSIONS.index))
            for row in rows
            for name in row["on_chip"]["families"]
            if name != "none" and len(name) == dimensions
        )
    )
    options = [family_values(row, measure, families) for row in rows]
    # Families are found without the bound on the utilisation, so their own least is what counts.
    least = [
        min(bests[measure]["value"] for bests in row["on_chip"]["families"].values())
        for row in rows
    ]
    weights = [row["tiles_per_layer"] * row["networks"][network] if network else 1 for row in rows]
    excess = {}
    for family in families:
        values = [option[family] for option in options]
        if any(map(math.isnan, values)):
            continue
        if network:
            excess[family] = _dot(weights, values) / _dot(weights, least) - 1
        else:
            excess[family] = (
                geometric_mean(v / best for v, best in zip(values, least, strict=True)) - 1
            )
    if not excess:
        return None
    family = min(excess, key=excess.__getitem__)
    return UniformDataflow(family, excess[family])


def _dot(weights: Sequence[int], values: Sequence[float]) -> float:
    return math.fsum(w * value for w, value in zip(weights, values, strict=True))


# Other searches of the whole space: Figure 10.


def runs_of(rows: Sequence[Row], method: str) -> list[tuple[Row, Row]]:
    """Rows, each with a run of the method that found something; seed by seed."""
    return [
        (row, found)
        for row in rows
        for found in row["baselines"]
        if found["method"] == method and found["best"]
    ]


def relative_performance(row: Row, method: str, measure: str) -> float:
    """Marvel's value over a method's, above 1 where the method is better; nan without one.

    Of several seeds the geometric mean.
    """
    return geometric_mean(
        row["whole"][measure] / found["best"][measure]["value"]
        for _, found in runs_of([row], method)
    )


def relative_performances(rows: Sequence[Row], method: str, measure: str) -> list[float]:
    """Those of the rows that have the method."""
    values = (relative_performance(row, method, measure) for row in rows)
    return [value for value in values if math.isfinite(value)]


def blocks_ratio(row: Row, found: Row, measure: str) -> float:
    """Off-chip blocks of the tile that a search found, in its best layouts, over Marvel's."""
    return float(found["best"][measure]["cost"] / row["off_chip"]["cost"])


def joint_search(row: Row) -> Row | None:
    """The search of tile and on-chip mapping together; `complete` says that it is the optimum."""
    runs = runs_of([row], "joint")
    return runs[0][1] if runs else None


def tie_gains(rows: Sequence[Row], measure: str) -> tuple[int, int, float]:
    """Where joint searches are better without moving more off chip than Marvel's tile.

    Returns:
        How many joint searches are better, how many of them on a tile of the same off-chip cost,
        and the geometric mean over all joint searches with only the gains of these.
    """
    gains = [
        (relative_performance(row, "joint", measure), blocks_ratio(row, found, measure))
        for row, found in runs_of(rows, "joint")
    ]
    better = [(gain, math.isclose(blocks, 1.0)) for gain, blocks in gains if gain > 1 + 1e-9]
    tied = [gain for gain, same in better if same]
    return len(better), len(tied), geometric_mean([*tied, *[1.0] * (len(gains) - len(tied))])


def search_seconds(row: Row) -> float:
    """Wall time of Marvel's two searches."""
    return float(row["off_chip"]["seconds"] + row["on_chip"]["seconds"])


def found_after(row: Row, method: str) -> float:
    """Seconds until a sampling method found its last best of either measure, mean over seeds."""
    return mean(
        max(found["best"][measure]["found_after_s"] for measure in MEASURES)
        for _, found in runs_of([row], method)
    )


def spent_seconds(row: Row, method: str) -> float:
    """What a method was given, or the joint search took; mean over seeds."""
    return mean(
        found["seconds"] if method == "joint" else found["budget_s"]
        for _, found in runs_of([row], method)
    )


def mean(values: Iterable[float]) -> float:
    """Arithmetic, of those that are numbers; not a number where there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return statistics.fmean(finite) if finite else math.nan
