"""`mapspace search --scalesim`: the cycles of SCALE-Sim's own input files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.commands.options import check_records_output, fail
from orchestrator.report.text_table import fitted
from orchestrator.schemas.json_text import answer_text

if TYPE_CHECKING:
    from mapspace.storage import Place

_ALLOWED = frozenset(
    {"scalesim", "prove", "output", "seconds", "workload", "as_json", "store", "no_store"}
)


def check_scalesim(files: Sequence[str]) -> None:
    """Refuses --scalesim without its files, or with options that have no part in its answer.

    Raises:
        UsageError: one of them.
    """
    if not files:
        raise click.UsageError("--scalesim needs files: a configuration and a topology.")
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is click.core.ParameterSource.COMMANDLINE and parameter.name not in _ALLOWED:
            name = max(parameter.opts, key=len)
            raise click.UsageError(f"{name} is not for --scalesim.")


def search_scalesim(
    files: Sequence[str],
    as_json: bool,
    *,
    prove: bool,
    seconds: float | None,
    output: Place | None,
) -> None:
    """Counts the layers of a topology by each dataflow, and proves the fastest mapping of each."""
    from costmodel.scalesim.reading import from_scalesim
    from orchestrator.records.found_mapping import save_records
    from orchestrator.search.scalesim_best import prove_layer
    from orchestrator.search.scalesim_cycles import ScaleSimCycles

    for name, given in (("output", output), ("seconds", seconds)):
        if given is not None and not prove:
            raise click.UsageError(f"--{name} of --scalesim is for --prove.")
    if output is not None:
        check_records_output(output)
    read = from_scalesim(files)
    by_file: dict[str, list[str]] = {}
    for place in read.idle:
        file, _, key = place.rpartition(": ")
        by_file.setdefault(file, []).append(key.rpartition(".")[2])
    for file, keys in by_file.items():
        print(f"changes no cycle: {file}: {', '.join(keys)}", file=sys.stderr)
    best = []
    try:
        for number, layer in enumerate(read.layers if prove else (), start=1):
            print(f"proving {layer.name}, {number} of {len(read.layers)}", file=sys.stderr)
            best.append(prove_layer(read, layer, seconds))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(fail("interrupted: layers are missing.", 130)) from None
    found = ScaleSimCycles(read, tuple(best))
    click.echo(answer_text(found.to_dict()) if as_json else fitted(found.text()))
    if output is not None:
        save_records([one.record for one in best], output)
