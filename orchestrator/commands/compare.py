"""`mapspace compare`: two runs of a benchmark, and whether one of them is worse."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from mapspace.storage import Place
from orchestrator.commands.options import PLACE, OnceEach
from orchestrator.report.document import LEFT, RIGHT, Row, Table
from orchestrator.report.text_table import fitted, table_lines, wrapped
from orchestrator.schemas.json_text import answer_text

if TYPE_CHECKING:
    from orchestrator.comparison.two_runs import Compared, Difference


@click.command(cls=OnceEach)
@click.argument("before", type=PLACE)
@click.argument("after", type=PLACE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def compare(before: Place, after: Place, as_json: bool) -> int:
    """Says which methods of the benchmark in AFTER are better or worse than in BEFORE.

    Both are run folders of the same problems, machine, budget and objective, or copies that
    `mapspace report --keep` made. Searches with the same seed are paired. It ends with 1 where a
    method, or a method on one problem, is worse and that is no chance, else with 0.
    """
    from orchestrator.comparison.two_runs import compare as hold
    from orchestrator.comparison.two_runs import one_result

    found = hold(one_result(before), one_result(after))
    click.echo(answer_text(found.to_dict()) if as_json else fitted(_text(found)))
    return 1 if found.worse else 0


def _text(found: Compared) -> str:
    cells = [one for one in found.cells if one.verdict in ("better", "worse")]
    lines = table_lines(_table(found.methods, "method"))
    if cells:
        lines += ["", *table_lines(_table(cells, "method on"))]
    for label in found.alone:
        lines += wrapped(f"{label}: in one of them alone.")
    for note in found.notes:
        lines += wrapped(note)
    return "\n".join([*lines, "", *wrapped(found.conclusion)])


def _table(found: tuple[Difference, ...] | list[Difference], first: str) -> Table:
    rows: list[Row] = []
    for one in found:
        named = one.method if one.workload is None else f"{one.method} on {one.workload}"
        rows.append(
            (
                named,
                f"{one.pairs}",
                _ratio(one.ratio),
                _ratio(one.time),
                f"{one.p:.2g}",
                one.verdict,
            )
        )
    header = (first, "pairs", "loss", "time", "p", "")
    return Table("compared", "", header, (LEFT, RIGHT, RIGHT, RIGHT, RIGHT, LEFT), rows)


def _ratio(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none found"
