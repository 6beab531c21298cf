"""Sections of a Marvel report that hold it to variants of itself and to other searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from orchestrator.marvel import figures
from orchestrator.marvel.network_numbers import (
    METHODS,
    blocks_ratio,
    found_after,
    mean,
    relative_performance,
    relative_performances,
    runs_of,
    search_seconds,
    spent_seconds,
    tie_gains,
    uniform_dataflow,
)
from orchestrator.marvel.numbers import MEASURES, Row, Study, geometric_mean, label, remainder_gains
from orchestrator.report.document import LEFT, Figure, Section, Table, Value, sizes_text
from orchestrator.report.document import Row as Cells

MEANS = ("", "", "speed", "blocks", "effic.", "blocks")


def remainders_section(study: Study) -> Section:
    """What prologues and epilogues bring, where a row has the variant."""
    some = [row for row in study.rows if row["remainders"]]
    gains = remainder_gains(some)
    rows: list[Cells] = [
        (
            row["accelerator"],
            label(row),
            *(100 * (gains[measure][place] - 1) for measure in MEASURES),
            row["remainders"]["seconds"],
            row["remainders"]["reference_seconds"],
            "yes" if row["remainders"]["proven"] else "no",
        )
        for place, row in enumerate(some)
    ]
    means = [100 * (geometric_mean(gains[measure]) - 1) for measure in MEASURES]
    foot = [("geometric mean", "", *means, None, None, "")]
    table = Table(
        "remainders",
        "With tiles and factors that do not divide: gains, and seconds with and without them",
        ("", "layer", "throughput", "efficiency", "with, s", "without, s", "proven"),
        (LEFT, LEFT, "{:+.1f} %", "{:+.1f} %", "{:.2f}", "{:.3f}", LEFT),
        rows,
        foot,
    )
    notes = [
        "The variant without the pruning of prologues and epilogues. Both sides are in the "
        "corrected fidelity, since MAESTRO miscounts tiles that do not divide. Where the search "
        "ran out of time the gain is a lower bound."
    ]
    return Section("Prologues and epilogues", [*notes, table])


def dataflows_section(study: Study) -> Section:
    """One dataflow for all layers of the study, or of each of its networks."""
    rows: list[Cells] = []
    for measure in MEASURES:
        for accelerator in study.accelerators:
            for network in study.networks or (None,):
                inside = [
                    row
                    for row in study.on(accelerator)
                    if network is None or network in row["networks"]
                ]
                cells: list[Value] = []
                for dimensions in (1, 2, 3):
                    found = uniform_dataflow(inside, measure, dimensions, network)
                    cells += [found.family, 100 * found.excess] if found else [None, None]
                rows.append((measure, accelerator, network or "all layers", *cells))
    table = Table(
        "uniform-dataflow",
        "One dataflow for all layers: the best 1, 2 and 3 parallel dimensions, and their cost",
        ("", "", "", "1", "excess", "2", "excess", "3", "excess"),
        (LEFT, LEFT, LEFT, *[LEFT, "{:.1f} %"] * 3),
        rows,
    )
    note = (
        "An array that can be parallel along two dimensions may leave one alone in a layer. "
        + (
            "Totals of the network count. "
            if study.networks
            else "Geometric means over the layers, so that each counts alike. "
        )
        + "The paper names C and P (width of the outputs) as best for throughput on platform 1."
    )
    return Section("One dataflow for all layers", [note, table])


def baselines_section(study: Study) -> Section:
    """Searches that do not decouple, where a row has them."""
    methods = [method for method in METHODS if runs_of(study.rows, method)]
    groups = {a: study.on(a) for a in study.accelerators} | {"all": study.rows}
    means = Table(
        "baselines-means",
        "Figure 10: other searches over Marvel, geometric means; seconds and mappings, means",
        (*MEANS, "more", "less", "found, s", "all, s", "mappings"),
        (LEFT, LEFT, *["{:.3f}x", "{:.2f}x"] * 2, *["{:.0f}"] * 2, *["{:.2f}"] * 2, "{:.1e}"),
        [
            _summary(method, name, rows)
            for method in methods
            for name, rows in groups.items()
            if runs_of(rows, method)
        ],
    )
    notes = [
        "Speed is the throughput of the whole layer over that of Marvel's mapping, efficiency its "
        "work per energy, each followed by the off-chip blocks of the tile that was found. More "
        "and less count the layers on which the other search found more throughput, and less "
        "energy. Seconds: until the best was found, and in all. Marvel's own two searches take "
        f"{mean(map(search_seconds, study.rows)):.2f} s per layer on average."
    ]
    tables = [means, _each(study, methods)]
    if "joint" in methods:
        tables.insert(1, _decoupling(study))
        complete = [found["complete"] for _, found in runs_of(study.rows, "joint")]
        notes.append(
            "The joint search is for the best over all level-3 tiles and their on-chip mappings; "
            f"{sum(complete)} of {len(complete)} came to their end, the others give a lower bound "
            "of what decoupling costs. MAESTRO counts no DRAM, so that nothing keeps any of these "
            "searches from a tile that moves more blocks off chip."
        )
        better, tied, share = tie_gains(study.rows, "runtime")
        notes.append(
            f"{tied} of the {better} joint searches that found more throughput did so on a tile "
            "with the off-chip cost of Marvel's. That part of the price of decoupling, "
            f"{100 * (share - 1):.1f} % over all layers, is the price of breaking ties without a "
            "look at the array."
        )
    drawn = Figure(
        "baselines", "Other searches over Marvel", partial(figures.draw_baselines, study)
    )
    return Section("Other searches", [*notes, drawn, *tables])


def _summary(method: str, name: str, rows: Sequence[Row]) -> Cells:
    """One method over the rows of a group."""
    runs = runs_of(rows, method)
    ratios = [relative_performances(rows, method, measure) for measure in MEASURES]
    blocks = [
        geometric_mean(blocks_ratio(row, found, measure) for row, found in runs)
        for measure in MEASURES
    ]
    spent = [spent_seconds(row, method) for row in rows]
    found = spent if method == "joint" else [found_after(row, method) for row in rows]
    return (
        METHODS[method],
        name,
        geometric_mean(ratios[0]),
        blocks[0],
        geometric_mean(ratios[1]),
        blocks[1],
        *(float(sum(value > 1 + 1e-9 for value in values)) for values in ratios),
        mean(found),
        mean(spent),
        mean(found["evaluated"] for _, found in runs),
    )


def _each(study: Study, methods: Sequence[str]) -> Table:
    """Every layer with every method."""
    rows: list[Cells] = [
        (
            row["accelerator"],
            label(row),
            *(relative_performance(row, method, e) for e in MEASURES for method in methods),
            search_seconds(row),
            *(
                spent_seconds(row, method) if method == "joint" else found_after(row, method)
                for method in methods
            ),
        )
        for row in study.rows
    ]
    return Table(
        "baselines",
        "Throughput and efficiency over Marvel's, and seconds (sampling: until the best was found)",
        ("", "", *methods, *methods, "Marvel, s", *methods),
        (LEFT, LEFT, *["{:.3f}"] * (2 * len(methods)), "{:.3f}", *["{:.2f}"] * len(methods)),
        rows,
        brief=False,
    )


def _decoupling(study: Study) -> Table:
    """Per layer what the joint search gains, on which tile, and what that moves off chip."""
    rows: list[Cells] = []
    known: list[list[float]] = []
    for row, found in runs_of(study.rows, "joint"):
        numbers: list[float] = []
        cells: list[Value] = []
        for measure in MEASURES:
            gain = relative_performance(row, "joint", measure)
            numbers += [gain, blocks_ratio(row, found, measure)]
            cells += [100 * (gain - 1), sizes_text(found["best"][measure]["tile"]), numbers[-1]]
        known.append(numbers)
        rows.append((row["accelerator"], label(row), *cells, "yes" if found["complete"] else "no"))
    runtime, blocks, energy, energy_blocks = map(geometric_mean, zip(*known, strict=True))
    means = (100 * (runtime - 1), "", blocks, 100 * (energy - 1), "", energy_blocks)
    foot = [("geometric mean", "", *means, "")]
    return Table(
        "decoupling",
        "What decoupling costs on chip, and what the joint search's tile moves off chip",
        ("", "", "runtime", "tile", "blocks", "energy", "tile", "blocks", "proven"),
        (LEFT, LEFT, "{:.1f} %", LEFT, "{:.2f}x", "{:.1f} %", LEFT, "{:.2f}x", LEFT),
        rows,
        foot,
    )
