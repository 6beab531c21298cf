"""`mapspace evaluate`: what mappings cost."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from mapspace.errors import MapspaceError
from mapspace.storage import place
from orchestrator.commands.options import (
    COUNTING,
    LENIENT,
    LINKS,
    PLACE,
    TIMELOOP,
    OnceEach,
    check_folder,
    check_timeloop,
    with_store,
)
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import answer_text

if TYPE_CHECKING:
    from mapspace.storage import Place


@click.command(cls=OnceEach)
@click.option(
    "--model",
    help="Cost model, see `mapspace list models`; else loopnest, of MAESTRO's files maestro.",
)
@click.option(
    "--hardware",
    type=PLACE,
    help="MAESTRO's hardware file: RECORDS is one of its mapping files (.m).",
)
@click.option(
    "--simulator",
    metavar="FILE.yaml|MODULE:NAME",
    help="Your own simulator: how it is called (docs/own-model.md). Model: command.",
)
@click.argument("records", nargs=-1, required=True)
@click.option("--output", type=PLACE, help="Else standard output.")
@LINKS
@COUNTING
@TIMELOOP
@LENIENT
@with_store
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="With --timeloop: one JSON object; of records, always in JSON lines: say from_store.",
)
def evaluate(
    model: str | None,
    hardware: Place | None,
    records: tuple[str, ...],
    output: Place | None,
    timeloop: bool,
    lenient: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Scores the mapping RECORDS (JSON lines, plain or .gz), or mappings in others' files.

    MAESTRO's mapping file (.m) needs --hardware; --lenient leaves out what is not modelled. With
    --timeloop any number of files, in any order, say architecture, problem, mapping and
    perhaps energies (ERT).
    """
    from orchestrator.records.evaluate_records import evaluate_file

    check_timeloop(timeloop, lenient and hardware is None, records)
    if timeloop and hardware is not None:
        raise click.UsageError("--hardware is for MAESTRO's files, not for --timeloop.")
    if (hardware is not None) != (records[0].endswith(".m") and not timeloop):
        raise click.UsageError("Expected MAESTRO's mapping file (.m) and --hardware together.")
    if timeloop:
        from orchestrator.records.timeloop_files import costs_text, evaluate_files

        if options["counting"]:
            raise click.UsageError(
                "--counting is for records: mapspace search --timeloop FILE... --counting true."
            )
        if output is not None or model not in (None, "loopnest"):
            raise click.UsageError("--timeloop is for --model loopnest, and prints its answer.")
        result = evaluate_files(records, lenient=lenient, link_transfers=options["link_transfers"])
        click.echo(answer_text(result) if as_json else fitted(costs_text(result)))
        return
    if len(records) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({records[1]})")
    if output is not None:
        check_folder(output)
    with (
        local_file(place(records[0]), there=True) as source,
        nullcontext() if hardware is None else local_file(hardware, there=True) as machine,
        nullcontext() if output is None else local_file(output) as target,
    ):
        counts = evaluate_file(
            model or _model_of(hardware, options["simulator"]),
            source,
            target,
            hardware=machine,
            lenient=lenient,
            says_store=as_json,
            **options,
        )
    parts = (
        (counts.infeasible, "infeasible"),
        (counts.failed, "failed (why stands in the result)"),
    )
    note = "".join(f", {number:,} of them {what}" for number, what in parts if number)
    noun = "record" if counts.scored == 1 else "records"
    click.echo(f"{counts.scored:,} {noun} scored{note}", err=True)
    if 0 < counts.scored == counts.failed:
        raise MapspaceError("the simulator answered none of them; each result says why.")


def _model_of(hardware: Place | None, simulator: str | None) -> str:
    """The cost model where none is named."""
    if simulator is not None:
        return "command"
    return "loopnest" if hardware is None else "maestro"
