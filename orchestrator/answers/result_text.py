"""What `mapspace search` says of a mapping to people: loop nest, energy, what is certain."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.answers.explained import explained_text
from orchestrator.answers.facts import energy_table, tiling
from orchestrator.answers.padding_text import advice_text, padded_text
from orchestrator.answers.results import SearchResult
from orchestrator.report.shown import aligned
from orchestrator.report.units import percent, value_text


def search_text(result: SearchResult) -> str:
    """A search's result in full."""
    lines = [
        f"{result.workload}",
        "",
        str(result.mapping),
        "",
        *energy_table(
            result.accelerator.level_names,
            result.workload.tensor_names,
            result.detail,
            result.costs.energy_pj,
        ),
        "",
        *aligned(result.facts(every_cost=True)),
    ]
    if result.conclusion is not None:
        lines.append(f"{'':<16}{result.conclusion}")
    if result.begins is not None:
        names = [f"{one.workload} ({len(one.codes)})" for one in result.begins]
        lines.append(f"{'began from':<16}{', '.join(names) or 'nothing: no similar problem there'}")
    if result.top:
        lines += ["", *_best(result)]
    if result.explained is not None:
        lines += ["", explained_text(result.explained)]
    elif result.unexplained is not None:
        lines += ["", f"nothing explained: {result.unexplained}"]
    lines.append(f"in all          {result.wall_seconds:.2f} s, preparation included")
    return "\n".join([*lines, *_padding(result)])


def _best(result: SearchResult) -> Iterator[str]:
    """The best tilings that a proof found, as a table."""
    objective, clock = result.objective, result.accelerator.clock_ghz
    yield f"the {len(result.top)} best tilings, each with its best loop orders"
    for rank, entry in enumerate(result.top, start=1):
        value = value_text(objective, entry.costs.objective(objective), clock)
        above = percent(entry.above_best)
        yield f"{rank:>4}  {objective} {value}  + {above}  {tiling(entry.mapping)}"


def _padding(result: SearchResult) -> Iterator[str]:
    """What a result says of padding; nothing where it was not asked for and would not help."""
    workload, padding = result.workload, result.padding
    if padding is None:
        return
    if result.original is None:
        clock = result.accelerator.clock_ghz
        yield from advice_text(workload, padding, result.utilisation, result.objective, clock)
    else:
        yield from padded_text(workload, result.original, padding)
