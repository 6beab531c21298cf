"""The sections of a Marvel report: tables of our numbers beside the paper's, and their figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from costmodel.maestro.distinct_blocks import DIMENSIONS, LAYOUTS
from orchestrator.marvel import figures
from orchestrator.marvel.comparisons import (
    baselines_section,
    dataflows_section,
    remainders_section,
)
from orchestrator.marvel.network_numbers import (
    METHODS,
    joint_search,
    network_ratios,
    network_total,
    relative_performances,
    search_seconds,
    spent_seconds,
)
from orchestrator.marvel.numbers import (
    FLOWS,
    MEASURES,
    PAPER_LAYOUT,
    PAPER_TABLE_3,
    SPACES,
    Study,
    agrees_with_table_3,
    energy_per_mac,
    flow_ratios,
    flow_value,
    geometric_mean,
    label,
    remainder_gains,
    remainder_times,
    space_reduction,
    space_sizes,
    throughput,
    uniform_layouts,
)
from orchestrator.report.document import (
    LEFT,
    NOTHING,
    Figure,
    Row,
    Section,
    Table,
    Value,
    sizes_text,
)


def sections(study: Study) -> list[Section]:
    """Those that the study has data for: of layers, or of whole networks."""
    baselines = any(row["baselines"] for row in study.rows)
    parts = [_off_chip(study), _spaces(study)]
    parts.append(_networks(study) if study.networks else _mappings(study))
    if any(row["remainders"] for row in study.rows):
        parts.append(remainders_section(study))
    parts.append(dataflows_section(study))
    if baselines:
        parts.append(baselines_section(study))
    return [_claims(study), *parts]


def _claims(study: Study) -> Section:
    """What the paper claims and what came out here."""
    rows: list[Row] = []
    known = [row for row in study.layers if agrees_with_table_3(row) is not None]
    if known:
        right = sum(agrees_with_table_3(row) is True for row in known)
        rows.append(("rows of Table 3, tile and layouts", "15", f"{right} of {len(known)}"))
    rows.append(
        (
            "original space over the pruned ones",
            "about ten billion",
            f"{space_reduction(study.rows):.1e}",
        )
    )
    if study.networks:
        runtime, energy = (geometric_mean(network_ratios(study, m)) for m in MEASURES)
        rows += [
            ("networks: throughput over the dataflows", "3.43x", f"{runtime:.2f}x"),
            (
                "networks: less energy than the dataflows",
                "9.19 %",
                f"{100 * (1 - 1 / energy):.2f} %",
            ),
        ]
    else:
        uniform = uniform_layouts(study.layers)
        runtime, energy = (geometric_mean(flow_ratios(study.rows, m)) for m in MEASURES)
        rows += [
            (
                "best uniform layout, its cost",
                f"{PAPER_LAYOUT}, up to 5 %",
                f"{LAYOUTS[uniform.best]}, {100 * uniform.excess[uniform.best]:.1f} %",
            ),
            ("throughput over the dataflows", "5.23x", f"{runtime:.2f}x"),
            ("energy of the dataflows over ours", "1.12x", f"{energy:.2f}x"),
        ]
    gains = remainder_gains(study.rows)
    if gains["runtime"]:
        runtime, energy = (geometric_mean(gains[measure]) for measure in MEASURES)
        times = remainder_times(study.rows)
        proven = f"remainders ({len(times)} of {len(gains['runtime'])} proven)"
        rows += [
            (f"{proven}: throughput", "2 % more", f"{100 * (runtime - 1):.1f} % more"),
            (f"{proven}: energy", "10 % less", f"{100 * (1 - 1 / energy):.1f} % less"),
        ]
        if times:
            rows.append(("remainders: search time", "20x", f"{geometric_mean(times):.1f}x"))
    rows += _method_claims(study)
    table = Table(
        "claims", "The paper's figures and ours", ("", "paper", "here"), (LEFT,) * 3, rows
    )
    notes = [
        f"{len(study.layers)} layers on {', '.join(study.accelerators)}; geometric means over "
        "layers, accelerators and dataflows. Runtime is in cycles, energy in units of one "
        "multiply-accumulate, both as MAESTRO counts them, without DRAM."
    ]
    if known:
        notes.append(
            "That the rows of Table 3 come out is a fit: the weight of outputs and the order of "
            "ties, which the paper leaves open, were chosen by that table."
        )
    notes += [
        f"Without a result: {name} on {accelerator}: {reason}"
        for name, accelerator, reason in study.failed
    ]
    return Section("The paper's claims", [*notes, table])


def _method_claims(study: Study) -> Iterator[Row]:
    """What is claimed of other methods than Marvel's."""
    for method in METHODS:
        means = [geometric_mean(relative_performances(study.rows, method, m)) for m in MEASURES]
        if math.isnan(means[0]):
            continue
        if method == "joint":
            found = [joint for row in study.rows if (joint := joint_search(row))]
            proven = sum(joint["complete"] for joint in found)
            least = "" if proven == len(found) else ", at least"
            cost = ", ".join(f"{100 * (mean - 1):.1f} %" for mean in means)
            name = f"decoupling: runtime, energy{least} ({proven}/{len(found)} proven)"
            yield name, "5 %", cost
        else:
            shown = ", ".join(f"{100 * mean:.0f} %" for mean in means)
            name = f"{METHODS[method]}: its throughput, efficiency"
            yield name, "under about 50 %", shown
    ratios = [
        spent / search_seconds(row)
        for row in study.rows
        for method in ("random", "brute-force")
        if math.isfinite(spent := spent_seconds(row, method))
    ]
    if ratios:
        times = f"{geometric_mean(ratios):.0f}x"
        yield "budget of random, brute force over Marvel's", "about 300x", times


def _off_chip(study: Study) -> Section:
    tables = []
    rows: list[Row] = []
    for row in study.layers:
        found, printed = row["off_chip"], PAPER_TABLE_3.get(label(row))
        paper = "same" if agrees_with_table_3(row) else NOTHING
        if printed and paper != "same":
            paper = f"{sizes_text(printed[0])} {'/'.join(printed[1])}"
        rows.append(
            (
                label(row),
                row["kind"],
                sizes_text([row["bounds"][name] for name in DIMENSIONS]),
                sizes_text(found["tile"]),
                " ".join(found["order"]) or NOTHING,
                float(printed[2]) if printed else None,
                "/".join(found["layout"]),
                float(found["tied"]),
                paper,
            )
        )
    tables.append(
        Table(
            "off-chip",
            "Table 3: level-3 tiles (K C R S P Q), loops outermost first, layouts (W/I/O)",
            ("layer", "kind", "bounds", "tile", "loops", "no.", "layout", "ties", "paper"),
            (LEFT, LEFT, LEFT, LEFT, LEFT, "{:.0f}", LEFT, "{:.0f}", LEFT),
            rows,
            brief=not study.networks,
        )
    )
    uniform: list[Row] = []
    drawn: list[Figure] = []
    paper_index = LAYOUTS.index(PAPER_LAYOUT)
    for network in study.networks or (None,):
        inside = [row for row in study.layers if network is None or network in row["networks"]]
        layouts = uniform_layouts(inside, network)
        alike = layouts.mean.index(min(layouts.mean))
        uniform.append(
            (
                network or "all layers",
                str(LAYOUTS[layouts.best]),
                100 * layouts.excess[layouts.best],
                100 * layouts.excess[paper_index],
                str(LAYOUTS[alike]),
                100 * layouts.mean[alike],
            )
        )
        drawn.append(
            Figure(
                f"layouts-{network}" if network else "uniform-layouts",
                f"One layout for {network or 'all layers'}",
                partial(figures.draw_uniform_layouts, study, network=network),
            )
        )
    tables.append(
        Table(
            "uniform-layouts",
            "Figure 7: one layout for all layers, and what it moves above each layer's best",
            ("", "least in all", "excess", "paper's", "layers alike", "excess"),
            (LEFT, LEFT, "{:.1f} %", "{:.1f} %", LEFT, "{:.1f} %"),
            uniform,
        )
    )
    notes = [
        "Loops: the text of the paper lost their names; how many it prints stands beside (no.). "
        "Ties: tiles of equal cost in the same layout; the first in ascending K, C, P, Q is taken. "
        "What a layout moves in all is decided by large layers; with layers alike, it is the "
        "geometric mean of their ratios that is least. The paper's uniform layout is framed, the "
        "least is bold."
    ]
    if not study.networks:
        each = Figure("layouts", "Layouts of each layer", partial(figures.draw_layouts, study))
        drawn.insert(0, each)
    return Section("Off chip: tiles and layouts", [*notes, *drawn, *tables])


def _spaces(study: Study) -> Section:
    sizes = space_sizes(study.rows)
    table = Table(
        "spaces",
        "Table 4: sizes of the mapping spaces",
        ("space", "min", "average", "max", "paper: min / average / max"),
        (LEFT, "{:.1e}", "{:.1e}", "{:.1e}", LEFT),
        [(name, *sizes[key], f"{digits} x 10^?") for key, (name, digits) in SPACES.items()],
    )
    note = (
        "The paper's text lost the exponents; its abstract says over 10^19 mappings of a layer on "
        "average, its conclusion a reduction of ten billion. The reduction here is the average of "
        "the original spaces over the averages of both pruned spaces together."
    )
    return Section("The spaces", [note, table])


def _mappings(study: Study) -> Section:
    layers: list[Row] = []
    for row in study.rows:
        best = row["on_chip"]["best"]
        speed = throughput(row, best["runtime"]["value"])
        flows = {m: [flow_value(row, flow, m) for flow in FLOWS] for m in MEASURES}
        layers.append(
            (
                row["accelerator"],
                label(row),
                speed,
                *(throughput(row, v) if v else None for v in flows["runtime"]),
                row["roofline"]["macs_per_cycle"],
                100 * speed / row["roofline"]["macs_per_cycle"],
                energy_per_mac(row, best["energy"]["value"]),
                *(energy_per_mac(row, v) if v else None for v in flows["energy"]),
            )
        )
    each = Table(
        "mappings",
        "MACs per cycle, and energy per MAC: Marvel, the dataflows, the roofline",
        ("", "", "Marvel", *FLOWS, "roof", "share", "energy", *FLOWS),
        (LEFT, LEFT, *["{:.1f}"] * 5, "{:.0f} %", *["{:.2f}"] * 4),
        layers,
    )
    groups = {a: study.on(a) for a in study.accelerators} | {"all": study.rows}
    paper = {"all": "5.23x, 1.12x", "point-wise layers": "6.1x"}
    pointwise = [row for row in study.rows if row["kind"] == "PWCONV"]
    if pointwise:
        groups["point-wise layers"] = pointwise
    ratios = {
        name: {(m, f): flow_ratios(rows, m, [f]) for m in MEASURES for f in FLOWS}
        for name, rows in groups.items()
    }
    summary = _means_table("mappings-means", "Figure 8", ratios, paper)
    lacking = [
        f"{label(row)} on {row['accelerator']} has no mapping of {flow}"
        for row in study.rows
        for flow in FLOWS
        if flow_value(row, flow, "runtime") is None
    ]
    notes = [
        "Every answer is the best of its pruned space or dataflow, found by enumeration; only "
        "Marvel's space bounds the utilisation of the array, as the paper's pruning does. The "
        "roofline is that of the layer run level-3 tile by level-3 tile.",
        *lacking,
    ]
    unproven = [
        f"{label(row)} on {row['accelerator']}: the enumeration did not come to its end"
        for row in study.rows
        if not row["on_chip"]["proven"]
    ]
    drawn = Figure("mappings", "Mappings of each layer", partial(figures.draw_mappings, study))
    heading = "On chip: Marvel against the dataflows"
    return Section(heading, [*notes, *unproven, drawn, summary, each])


def _means_table(
    key: str,
    figure: str,
    ratios: dict[str, dict[tuple[str, str], list[float]]],
    paper: dict[str, str],
) -> Table:
    """Geometric means by group of rows; ratios by measure and dataflow."""
    rows: list[Row] = []
    for name, found in ratios.items():
        cells: list[Value] = [name]
        for measure in MEASURES:
            each = [found[measure, flow] for flow in FLOWS]
            cells += [geometric_mean(values) for values in (*each, chain(*each))]
        rows.append((*cells, paper.get(name, "")))
    return Table(
        key,
        f"{figure}: the dataflows' runtime and energy over Marvel's, geometric means",
        ("", "runtime KC", "QP", "QR", "all", "energy KC", "QP", "QR", "all", "paper"),
        (LEFT, *["{:.2f}x"] * 8, LEFT),
        rows,
    )


def _networks(study: Study) -> Section:
    rows: list[Row] = []
    notes = ["Sums over all layers, as often as each occurs, one after another."]
    for accelerator in study.accelerators:
        for network in study.networks:
            total = network_total(study.on(accelerator), network)
            rows.append(
                (
                    accelerator,
                    network,
                    total.runtime["marvel"] / 1e6,
                    total.macs / total.runtime["marvel"],
                    *(total.runtime[flow] / total.runtime["marvel"] for flow in FLOWS),
                    total.energy["marvel"] / total.macs,
                    *(total.energy[flow] / total.energy["marvel"] for flow in FLOWS),
                )
            )
            lacking = [flow for flow in FLOWS if math.isnan(total.runtime[flow])]
            if lacking:
                notes.append(
                    f"{network} on {accelerator}: {', '.join(lacking)} lack a mapping of a layer."
                )
    table = Table(
        "networks",
        "Whole networks by Marvel, energy per MAC, and the dataflows over it",
        ("", "", "Mcycles", "MACs/cycle", *FLOWS, "energy", *FLOWS),
        (LEFT, LEFT, "{:.3f}", "{:.1f}", *["{:.2f}x"] * 3, "{:.2f}", *["{:.2f}x"] * 3),
        rows,
    )
    ratios = {
        name: {(m, f): network_ratios(some, m, [f]) for m in MEASURES for f in FLOWS}
        for name, some in {a: replace(study, rows=study.on(a)) for a in study.accelerators}.items()
    }
    ratios["all"] = {(m, f): network_ratios(study, m, [f]) for m in MEASURES for f in FLOWS}
    means = _means_table("networks-means", "Figure 9", ratios, {"all": "3.43x, 9.19 % less"})
    drawn = Figure("networks", "Mappings of whole networks", partial(figures.draw_networks, study))
    return Section("Whole networks", [*notes, drawn, means, table])
