"""What `mapspace search` says of a mapping to people: loop nest, energy, what is certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from costmodel.costs import TIE_BREAKERS, UNITS
from orchestrator.report.shown import Fact, aligned
from orchestrator.report.units import energy_text, latency_text, percent, value_text
from orchestrator.search import padding_text
from orchestrator.search.explaining import explained_text
from orchestrator.search.limits import limits_text

if TYPE_CHECKING:
    from costmodel.map_space.mapping import Mapping
    from orchestrator.search.results import SearchResult


def search_text(result: SearchResult) -> str:
    """A search's result in full."""
    lines = [
        f"{result.workload}",
        "",
        str(result.mapping),
        "",
        *_energy_table(result),
        "",
        *aligned([*_costs(result), *_standing(result), *_spent(result)]),
    ]
    if result.conclusion is not None:
        lines.append(f"{'':<16}{result.conclusion}")
    if result.top:
        lines += ["", *_best(result)]
    if result.explained is not None:
        lines += ["", explained_text(result.explained)]
    elif result.unexplained is not None:
        lines += ["", f"nothing explained: {result.unexplained}"]
    lines.append(f"in all          {result.wall_seconds:.2f} s, preparation included")
    return "\n".join([*lines, *padding_text.lines(result)])


def brief(result: SearchResult) -> Iterator[Fact]:
    """What matters most: costs, what is certain, what it took."""
    for label, text in _costs(result):
        if label in ("energy", "latency", "EDP"):
            yield label, text
    yield from _standing(result)
    yield from _spent(result)


def _costs(result: SearchResult) -> Iterator[Fact]:
    costs, clock = result.costs, result.accelerator.clock_ghz
    yield "energy", energy_text(costs.energy_pj)
    yield "latency", latency_text(costs.latency_cycles, clock)
    yield "mean power", f"{costs.power_w:.4g} W"
    yield "utilisation", percent(result.utilisation)
    yield "limited by", str(result.limit)
    yield from limits_text(result.limits)
    edp = value_text("edp", costs.edp, clock)
    yield "EDP", f"{edp} ({costs.edp:.6g} {UNITS['edp']})"
    yield "normalised EDP", f"{result.normalised_edp:.4f} x the algorithmic minimum"


def _spent(result: SearchResult) -> Iterator[Fact]:
    how = f"with {result.searcher}, seed {result.seed}"
    yield "search", f"{result.iterations:,} iterations in {result.seconds:.2f} s {how}"


def _standing(result: SearchResult) -> Iterator[Fact]:
    """What is certain about the winner."""
    which, rules = "", result.accelerator.constraints
    if result.keep is not None or rules:
        from costmodel.exact.restriction import among

        which = f" among {among(result.keep, len(rules))}"
    standing, objective, proof = result.searched, result.objective, result.proof
    bound = value_text(objective, standing.lower_bound, result.accelerator.clock_ghz)
    if proof is None and standing.tie_proven:
        tie = f"of equal {objective} has less {TIE_BREAKERS[objective]}"
        yield "proven optimal", f"every mapping was evaluated: none has a lower {objective}"
        yield "", f"and none {tie}"
    elif proof is None:
        above = f"this mapping is {percent(standing.gap)} above it ({objective})"
        yield "lower bound", f"{bound}; {above}"
        if standing.proven:
            yield "optimal", "the lower bound is reached"
    elif standing.proven:
        work = f"({proof.bounds:,} bounds)"
        if which:
            yield f"proven optimal{which}:", ""
            yield "", f"none of them has a lower {objective} {work}"
        else:
            yield "proven optimal", f"no mapping has a lower {objective} {work}"
        tie = f"of equal {objective} has less {TIE_BREAKERS[objective]}"
        yield "", f"and none {tie}" if standing.tie_proven else f"whether one {tie} is left open"
    elif proof.finished:
        above = f"this mapping is {percent(standing.gap)} above it ({objective})"
        yield f"proven optimum{which}", f"{bound}; {above}"
    else:
        gap = percent(standing.gap, up=True)
        yield "certified", f"within {gap} of the optimum{which}: none is below {bound}"
    if rules:
        from costmodel.map_space.impossible import conflict_text

        yield from zip(
            ("constraints", *[""] * len(rules)), map(conflict_text, zip(rules)), strict=False
        )
    if result.keep is not None:
        yield "", "other mappings of the machine may be better"
        yield "problem", f"{result.problem_hash} (the restriction included)"


def _best(result: SearchResult) -> Iterator[str]:
    """The best tilings that a proof found, as a table."""
    objective, clock = result.objective, result.accelerator.clock_ghz
    yield f"the {len(result.top)} best tilings, each with its best loop orders"
    for rank, entry in enumerate(result.top, start=1):
        value = value_text(objective, entry.costs.objective(objective), clock)
        above = percent(entry.above_best)
        yield f"{rank:>4}  {objective} {value}  + {above}  {tiling(entry.mapping)}"


def tiling(mapping: Mapping) -> str:
    """The trip counts of a mapping's loops on one line, outermost level first."""
    parts = []
    for level in mapping.levels:
        for name, factors in ((level.name, level.temporal), ("parallel", level.spatial)):
            loops = " ".join(f"{d}{count}" for d, count in factors.items() if count > 1)
            if loops:
                parts.append(f"{name} {loops}")
    return " | ".join(parts)


def _energy_table(result: SearchResult) -> Iterator[str]:
    """Energy by level (rows) and tensor (columns), in a unit that suits the total."""
    detail, total = result.detail, result.costs.energy_pj
    scale, unit = next(
        (scale, unit)
        for scale, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
        if total >= scale or scale == 1.0
    )
    names = result.workload.tensor_names
    width = max(10, *(len(name) + 2 for name in names))
    first = max(14, *(len(level.name) + 2 for level in result.accelerator.levels))
    head = f"energy, {unit}"
    yield f"{head:<{first}}" + "".join(f"{name:>{width}}" for name in (*names, "total", "share"))

    def row(label: str, parts: list[float | None], whole: float) -> str:
        cells = [" " * width if part is None else f"{part / scale:>{width}.4f}" for part in parts]
        share = f"{100 * whole / total:.1f} %"
        return f"{label:<{first}}{''.join(cells)}{whole / scale:>{width}.4f}{share:>{width}}"

    for index, level in enumerate(result.accelerator.levels):
        parts = detail.energy_pj[0, index].tolist()
        yield row(level.name, parts, sum(parts))
    if detail.network_energy_pj.any():
        parts = detail.network_energy_pj[0].tolist()
        yield row("network", parts, sum(parts))
    blank: list[float | None] = [None] * len(names)
    yield row("MAC", blank, detail.mac_energy_pj)
    columns = (detail.energy_pj[0].sum(axis=0) + detail.network_energy_pj[0]).tolist()
    yield row("total", columns, total)
