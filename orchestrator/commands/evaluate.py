"""`mapspace evaluate`: what mappings cost."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from mapspace.storage import place
from orchestrator.commands.options import (
    COUNTING,
    LENIENT,
    PLACE,
    TIMELOOP,
    OnceEach,
    check_timeloop,
)
from orchestrator.runs.locations import local_file

if TYPE_CHECKING:
    from mapspace.storage import Place


@click.command(cls=OnceEach)
@click.option(
    "--model",
    default="loopnest",
    show_default=True,
    help="Cost model; see `mapspace list models`.",
)
@click.argument("records", nargs=-1, required=True)
@click.option("--output", type=PLACE, help="Else standard output.")
@click.option("--link-transfers", is_flag=True, help="Neighbours hand words to each other.")
@COUNTING
@TIMELOOP
@LENIENT
@click.option("--json", "as_json", is_flag=True, help="With --timeloop: print one JSON object.")
def evaluate(
    model: str,
    records: tuple[str, ...],
    output: Place | None,
    link_transfers: bool,
    counting: str | None,
    timeloop: bool,
    lenient: bool,
    as_json: bool,
) -> None:
    """Scores the mapping RECORDS (JSON lines, plain or .gz), or a mapping in Timeloop's files.

    With --timeloop any number of files, in any order, say architecture, problem, mapping and
    perhaps energies (ERT); link transfers are off unless asked for.
    """
    from orchestrator.records.evaluate_records import evaluate_file

    check_timeloop(timeloop, lenient, records)
    if timeloop:
        from orchestrator.records.timeloop_files import costs_text, evaluate_files

        if output is not None or counting or model != "loopnest":
            raise click.UsageError("--timeloop is for --model loopnest, and prints its answer.")
        result = evaluate_files(records, lenient=lenient, link_transfers=link_transfers)
        click.echo(json.dumps(result) if as_json else costs_text(result))
        return
    if len(records) > 1 or as_json:
        more = f"argument ({records[1]})" if len(records) > 1 else "option --json"
        raise click.UsageError(f"Got unexpected extra {more}")
    with (
        local_file(place(records[0]), there=True) as source,
        nullcontext() if output is None else local_file(output) as target,
    ):
        scored, infeasible = evaluate_file(
            model, source, target, link_transfers=link_transfers, counting=counting
        )
    note = f", {infeasible:,} of them infeasible" if infeasible else ""
    click.echo(f"{scored:,} records scored{note}", err=True)
