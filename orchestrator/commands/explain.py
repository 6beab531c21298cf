"""`mapspace explain` and `diff`: one mapping, or two beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from costmodel.costs import OBJECTIVES
from mapspace.storage import place
from orchestrator.commands.options import (
    HTML,
    LENIENT,
    PLACE,
    TIMELOOP,
    OnceEach,
    OneOf,
    check_page,
    check_timeloop,
)
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import answer_text

if TYPE_CHECKING:
    from mapspace.storage import Place


@click.command(cls=OnceEach)
@click.argument("record", nargs=-1, required=True)
@TIMELOOP
@LENIENT
@click.option(
    "--record", "number", type=click.IntRange(1), help="Which of the file; else the first."
)
@click.option(
    "--objective",
    type=OneOf(OBJECTIVES, case_sensitive=False),
    default="edp",
    show_default=True,
    help="What a better mapping has less of.",
)
@HTML
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def explain(
    record: tuple[str, ...],
    number: int | None,
    objective: Any,
    page: Place | None,
    as_json: bool,
    timeloop: bool,
    lenient: bool,
) -> None:
    """Says where the costs of the mapping RECORD come from.

    What each level and tensor costs, which loops cause it, what binds, and the best mapping one
    move away, or that none of these is better. `mapspace search --explain` proves what holds an
    optimum up. With --timeloop the arguments are Timeloop's input files, with a mapping.
    """
    from orchestrator.answers.mapping_page import save_document
    from orchestrator.explain.read_mapping import read_file, read_mapping
    from orchestrator.explain.record_explanation import explain_mapping
    from orchestrator.explain.text import explained_document, explained_text

    check_page(page)
    check_timeloop(timeloop, lenient, record)
    if timeloop:
        from orchestrator.records.timeloop_files import read_files

        if number is not None:
            raise click.UsageError("--record is not for --timeloop.")
        mapped = read_mapping(read_files(record, lenient=lenient).mapped())
    elif len(record) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({record[1]})")
    else:
        with local_file(place(record[0]), there=True) as file:
            mapped = read_file(file, number)
    found = explain_mapping(mapped, objective)
    click.echo(answer_text(found.to_dict()) if as_json else fitted(explained_text(found)))
    if page is not None:
        with local_file(page) as file:
            save_document(explained_document(found), file)


@click.command(cls=OnceEach)
@click.argument("first", type=PLACE)
@click.argument("second", type=PLACE)
@HTML
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def diff(first: Place, second: Place, page: Place | None, as_json: bool) -> None:
    """Says in what the mappings of the records FIRST and SECOND differ, and what that costs.

    Of files with several records the first ones; the machines may differ.
    """
    from orchestrator.answers.mapping_page import save_document
    from orchestrator.explain.comparison import compare
    from orchestrator.explain.read_mapping import read_file
    from orchestrator.explain.text import compared_document, compared_text

    check_page(page)
    with local_file(first, there=True) as one, local_file(second, there=True) as two:
        found = compare(read_file(one), read_file(two))
    click.echo(answer_text(found.to_dict()) if as_json else fitted(compared_text(found)))
    if page is not None:
        with local_file(page) as file:
            save_document(compared_document(found), file)


COMMANDS = (explain, diff)
