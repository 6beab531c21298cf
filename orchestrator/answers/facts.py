"""What results say of costs, of limits and of what is certain: a label and a text each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from costmodel.costs import TIE_BREAKERS, UNITS
from orchestrator.answers.limits import Limit, limits_text, slowest
from orchestrator.report.shown import Fact
from orchestrator.report.units import energy_text, latency_text, percent, value_text

if TYPE_CHECKING:
    from costmodel.costs import Detail, Objective
    from costmodel.map_space.mapping import Mapping
    from orchestrator.answers.standing import Proof, Standing
    from orchestrator.records.found_mapping import MappingCosts


def cost_facts(
    costs: MappingCosts, limits: tuple[Limit, ...], utilisation: float, normalised_edp: float
) -> Iterator[Fact]:
    """What a mapping costs, and what its speed is limited by."""
    yield "energy", energy_text(costs.energy_pj)
    yield "latency", latency_text(costs.latency_cycles, costs.clock_ghz)
    yield "mean power", f"{costs.power_w:.4g} W"
    yield "utilisation", percent(utilisation)
    yield "limited by", str(slowest(limits))
    yield from limits_text(limits)
    edp = value_text("edp", costs.edp, costs.clock_ghz)
    yield "EDP", f"{edp} ({costs.edp:.6g} {UNITS['edp']})"
    yield "normalised EDP", f"{normalised_edp:.4f} x the algorithmic minimum"


def standing_facts(
    standing: Standing, proof: Proof | None, objective: Objective, clock_ghz: float, which: str
) -> Iterator[Fact]:
    """What is certain about a mapping.

    Args:
        standing: what is.
        proof: how far its proof came; None where nothing could be proven.
        objective: what was minimised.
        clock_ghz: the accelerator's clock, GHz.
        which: among which mappings, beginning with a space; empty: all.
    """
    bound = value_text(objective, standing.lower_bound, clock_ghz)
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


def tiling(mapping: Mapping) -> str:
    """The trip counts of a mapping's loops on one line, outermost level first."""
    parts = []
    for level in mapping.levels:
        for name, factors in ((level.name, level.temporal), ("parallel", level.spatial)):
            loops = " ".join(f"{d}{count}" for d, count in factors.items() if count > 1)
            if loops:
                parts.append(f"{name} {loops}")
    return " | ".join(parts)


def energy_scale(energy_pj: float) -> tuple[float, str]:
    """A unit of energy that suits a value: picojoules in it, and its name."""
    return next(
        (scale, unit)
        for scale, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
        if energy_pj >= scale or scale == 1.0
    )


def energy_table(
    levels: Sequence[str], tensors: Sequence[str], detail: Detail, total: float
) -> Iterator[str]:
    """Energy by level (rows) and tensor (columns), in a unit that suits the total.

    Args:
        levels: names, outermost first.
        tensors: names.
        detail: of one mapping, `[1, L, T]`.
        total: its energy, pJ.
    """
    scale, unit = energy_scale(total)
    width = max(10, *(len(name) + 2 for name in tensors))
    first = max(14, *(len(name) + 2 for name in levels))
    head = f"energy, {unit}"
    yield f"{head:<{first}}" + "".join(f"{name:>{width}}" for name in (*tensors, "total", "share"))

    def row(label: str, parts: list[float | None], whole: float) -> str:
        cells = [" " * width if part is None else f"{part / scale:>{width}.4f}" for part in parts]
        share = f"{100 * whole / total if total else 0:.1f} %"
        return f"{label:<{first}}{''.join(cells)}{whole / scale:>{width}.4f}{share:>{width}}"

    for index, name in enumerate(levels):
        parts = detail.energy_pj[0, index].tolist()
        yield row(name, parts, sum(parts))
    if detail.network_energy_pj.any():
        parts = detail.network_energy_pj[0].tolist()
        yield row("network", parts, sum(parts))
    blank: list[float | None] = [None] * len(tensors)
    yield row("MAC", blank, detail.mac_energy_pj)
    columns = (detail.energy_pj[0].sum(axis=0) + detail.network_energy_pj[0]).tolist()
    yield row("total", columns, total)
