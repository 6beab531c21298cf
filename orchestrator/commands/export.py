"""The commands that write for other tools. Each imports what it needs itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mapspace.strict_yaml import unknown_name
from orchestrator.commands.options import (
    PLACE,
    TIMELOOP,
    OnceEach,
    OneOf,
    check_folder,
    check_timeloop,
    write_text,
)

if TYPE_CHECKING:
    from mapspace.storage import Place


@click.command(cls=OnceEach)
@click.argument("source", nargs=-1, required=True, metavar="RECORD|WORKLOAD")
@click.option(
    "--as",
    "form",
    type=OneOf(["timeloop", "map", "pseudo", "c", "maestro"]),
    default="timeloop",
    show_default=True,
    help="Timeloop's input file, the map that it prints, pseudo-code, a C function, or MAESTRO's "
    "file of a cluster mapping or a layer.",
)
@click.option("--accelerator", help="Preset or YAML file, of a WORKLOAD; else mm256.")
@click.option(
    "--record", "number", type=click.IntRange(1), help="Which of the file; else the first."
)
@TIMELOOP
@click.option("--lenient", is_flag=True, help="Leave out what cannot be said, and list it.")
@click.option("--output", type=PLACE, help="Else standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print the text in a JSON object.")
def export(
    source: tuple[str, ...],
    form: Any,
    accelerator: str | None,
    number: int | None,
    timeloop: bool,
    lenient: bool,
    output: Place | None,
    as_json: bool,
) -> None:
    """Writes a mapping RECORD, or a WORKLOAD and its machine, in the words of other tools.

    A record says all itself: architecture, energies, problem and mapping go into one file that
    timeloop-model reads; of a workload the machine's rules become constraints for
    timeloop-mapper. With --timeloop the arguments are Timeloop's input files.
    """
    from orchestrator.records.exporting import export as written
    from orchestrator.records.exporting import export_timeloop

    check_timeloop(timeloop, False, source)
    if len(source) > 1 and not timeloop:
        raise click.UsageError(f"Got unexpected extra argument ({source[1]})")
    if timeloop and (accelerator is not None or number is not None):
        raise click.UsageError("--accelerator and --record are not for --timeloop.")
    if output is not None:
        check_folder(output)
    if timeloop:
        text = export_timeloop(source, form, lenient=lenient)
    else:
        text = written(source[0], form, accelerator=accelerator, number=number, lenient=lenient)
    write_text(text, output, as_json)


@click.command(cls=OnceEach)
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Prints the JSON Schema NAME of what `--json` prints, or of mapping records (record).

    Without NAME the names there are: the command, and what makes it print another answer. Commands
    that share an answer (such as generate and train: experiment) are names, too.
    """
    from orchestrator.schemas.published import NAMES, OF_COMMANDS, schema_text

    if name is None:
        click.echo("\n".join(NAMES))
        return
    if name not in {*NAMES, *OF_COMMANDS}:
        raise unknown_name("schema", name, (*NAMES, *OF_COMMANDS))
    click.echo(schema_text(name), nl=False)
