"""What `mapspace search` says of a mapping: loop nest, energy, bounds; for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.costs import Objective

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.prover import Prover

UNITS = {"edp": "pJ x cycles", "energy": "pJ", "latency": "cycles", "ed2p": "pJ x cycles^2"}


@dataclass(frozen=True)
class Request:
    """What `mapspace search` was asked.

    Attributes:
        workload: a preset's name, a YAML file or an inline workload.
        accelerator: a preset's name or a YAML file.
        searcher: a key of the table of searchers; None: `exact` where it applies, else the best
            heuristic.
        seconds: budget of search time; with no budget at all a proof may take a minute, another
            searcher two seconds.
        iterations: budget of cost queries.
        objective: what to minimise.
        seed: decides the search under a budget of iterations.
        surrogate: a surrogate's folder for a learned searcher; None: the shipped one.
        gap: a proof stops when the mapping is certainly within this share of the optimum.
        top: how many of the best mappings a proof finds.
        keep: tensors that a level keeps, where the machine leaves that open.
        threads: how many work on a proof at a time; None: one per processor, at most four.
    """

    workload: str
    accelerator: str
    searcher: str | None
    seconds: float | None
    iterations: int | None
    objective: Objective
    seed: int
    surrogate: str | None = None
    gap: float = 0.0
    top: int = 1
    keep: dict[str, tuple[str, ...]] | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Answer:
    """The winner of a search.

    Attributes:
        summary: what `--json` prints.
        text: what a person reads.
        certificate: what is certain about the winner; None where nothing can be proven.
        failure: why the searcher stopped before its budget; None where it did not.
    """

    summary: dict[str, Any]
    text: str
    certificate: Certificate | None = None
    failure: str | None = None


def explain(
    request: Request,
    searcher: str,
    space: Any,
    model: Any,
    result: Any,
    prover: Prover | None,
    *,
    conclusion: str | None = None,
) -> Answer:
    """Explains the winner of a search.

    Args:
        request: what was asked.
        searcher: the method.
        space: the map space.
        model: the cost model.
        result: the `TrialResult`.
        prover: the proof, as far as it came; None where there is none.
        conclusion: what the searcher itself is certain of.
    """
    from costmodel.bounds import algorithmic_minimum, floor
    from costmodel.exact.certificate import certify
    from costmodel.records import mapping_record

    code = result.best_code
    costs = model.evaluate(space, code[None], detail=True)
    energy = float(costs.energy_pj[0])
    cycles = float(costs.latency_cycles[0])
    minimum = algorithmic_minimum(space.workload, space.accelerator)
    lower = floor(space.workload, space.accelerator).objective(request.objective)
    edp = energy * cycles
    standing = _standing(request, space, result, prover, lower)
    summary = {
        **standing,
        "workload": space.workload.name,
        "accelerator": space.accelerator.name,
        "model": model.name,
        "model_version": model.version,
        "searcher": searcher,
        "objective": request.objective,
        "seed": request.seed,
        "iterations": result.iterations,
        "true_queries": result.true_queries,
        "surrogate_queries": result.surrogate_queries,
        "seconds": result.seconds,
        "conclusion": conclusion,
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": edp,
        "utilisation": float(costs.detail.utilisation[0]),
        "normalised_edp": edp / minimum.edp,
        "gap_to_floor": result.best_loss / lower - 1 if lower > 0 else math.inf,
        "record": mapping_record(space, code),
    }
    lines = [
        f"{space.workload}",
        "",
        str(space.describe(code)),
        "",
        *_energy_table(space, costs.detail, energy),
        "",
        f"cycles          {cycles:,.0f}",
        f"utilisation     {percent(summary['utilisation'])}",
        f"EDP             {edp:.6g} pJ x cycles ({_joule_seconds(space, edp)})",
        f"normalised EDP  {summary['normalised_edp']:.4f} x the algorithmic minimum",
        *_standing_lines(request, summary, prover, lower),
        f"search          {result.iterations:,} iterations in {result.seconds:.2f} s "
        f"with {searcher}, seed {request.seed}",
    ]
    if conclusion is not None:
        lines.append(f"{'':<16}{conclusion}")
    if prover is not None and request.top > 1:
        summary["top"], table = _best(space, model, prover)
        lines += ["", *table]
    certificate = None
    if prover is not None:
        certificate = certify(prover, result.seconds, code)
    return Answer(summary, "\n".join(lines), certificate)


def _standing(
    request: Request, space: Any, result: Any, prover: Prover | None, lower: float
) -> dict[str, Any]:
    """What is certain about the winner: part of the summary."""
    if prover is None:
        return {
            # The floor is a true lower bound, so a mapping on it is optimal.
            "proven": result.best_loss <= lower * (1 + 1e-9),
            "lower_bound": lower,
            "gap": result.best_loss / lower - 1 if lower > 0 else math.inf,
            "gap_to_optimum": None,
        }
    reached = prover.outcomes(result.best_code[None])[0]
    assert reached is not None  # a winner is feasible
    certain = prover.value_of(prover.lower_outcome)
    value = prover.value_of(reached)
    unit = 1 if request.objective == "latency" else prover.unit_pj
    gap = (value - certain) / max(1, certain)
    return {
        "proven": value == certain,
        "lower_bound": float(certain * unit),
        "gap": gap,
        "gap_to_optimum": gap if prover.finished else None,
    }


def _standing_lines(
    request: Request, summary: dict[str, Any], prover: Prover | None, lower: float
) -> Iterator[str]:
    unit = UNITS[request.objective]
    bound = f"{summary['lower_bound']:.6g} {unit}"
    if prover is None:
        gap = percent(summary["gap"])
        yield f"floor           {lower:.6g} {unit}, gap {gap} ({request.objective})"
        if summary["proven"]:
            yield "optimal         the floor is reached"
    elif summary["proven"]:
        work = f"{prover.bounds_computed:,} bounds"
        yield f"proven optimal  no mapping has a lower {request.objective} ({work})"
    elif prover.finished:
        gap = percent(summary["gap"])
        yield f"proven optimum  {bound}; this mapping is {gap} above it ({request.objective})"
    else:
        gap = percent(summary["gap"])
        yield f"certified       within {gap} of the optimum: none is below {bound}"


def _best(space: Any, model: Any, prover: Prover) -> tuple[list[dict[str, Any]], list[str]]:
    """The best tilings that a proof found, for the summary and as a table."""
    from costmodel.records import mapping_record

    codes = prover.codes()
    costs = model.evaluate(space, codes)
    first = float(costs.objective(prover.objective)[0])
    entries, lines = [], [f"the {len(codes)} best tilings, each with its best loop orders"]
    for rank, code in enumerate(codes):
        value = float(costs.objective(prover.objective)[rank])
        entries.append(
            {
                "energy_pj": float(costs.energy_pj[rank]),
                "latency_cycles": float(costs.latency_cycles[rank]),
                "edp": float(costs.edp[rank]),
                "above_best": value / first - 1,
                "record": mapping_record(space, code),
            }
        )
        lines.append(
            f"{rank + 1:>4}  {prover.objective} {value:.6g}  + {percent(value / first - 1)}  "
            f"energy {costs.energy_pj[rank]:.6g} pJ  cycles {costs.latency_cycles[rank]:,.0f}"
        )
    return entries, lines


def _energy_table(space: Any, detail: Any, total: float) -> Iterator[str]:
    """Energy by level (rows) and tensor (columns), in a unit that suits the total."""
    scale, unit = next(
        (scale, unit)
        for scale, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
        if total >= scale or scale == 1.0
    )
    names = space.workload.tensor_names
    width = max(10, *(len(name) + 2 for name in names))
    first = max(14, *(len(level.name) + 2 for level in space.accelerator.levels))
    head = f"energy, {unit}"
    yield f"{head:<{first}}" + "".join(f"{name:>{width}}" for name in (*names, "total", "share"))

    def row(label: str, parts: list[float | None], whole: float) -> str:
        cells = [" " * width if part is None else f"{part / scale:>{width}.4f}" for part in parts]
        share = f"{100 * whole / total:.1f} %"
        return f"{label:<{first}}{''.join(cells)}{whole / scale:>{width}.4f}{share:>{width}}"

    for index, level in enumerate(space.accelerator.levels):
        parts = detail.energy_pj[0, index].tolist()
        yield row(level.name, parts, sum(parts))
    if detail.network_energy_pj.any():
        parts = detail.network_energy_pj[0].tolist()
        yield row("network", parts, sum(parts))
    blank: list[float | None] = [None] * len(names)
    yield row("MAC", blank, detail.mac_energy_pj)
    columns = (detail.energy_pj[0].sum(axis=0) + detail.network_energy_pj[0]).tolist()
    yield row("total", columns, total)


def _joule_seconds(space: Any, edp: float) -> str:
    """EDP in joule seconds: 1 pJ = 1e-12 J, a cycle is 1 / clock."""
    return f"{edp * 1e-12 / (space.accelerator.clock_ghz * 1e9):.4g} J s"


def percent(share: float) -> str:
    """A share for people: 0.0123 is 1.23 %."""
    value = 100 * share
    return f"{value:.2f} %" if abs(value) < 1000 else f"{value:.3g} %"
