"""`mapspace search --scalesim`: the cycles of SCALE-Sim's own input files."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from orchestrator.report.text_table import fitted
from orchestrator.schemas.json_text import answer_text

_ALLOWED = frozenset({"scalesim", "workload", "as_json", "store", "no_store"})


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
            raise click.UsageError(
                f"{name} is not for --scalesim, which counts and searches nothing."
            )


def search_scalesim(files: Sequence[str], as_json: bool) -> None:
    """Counts the layers of a topology by each dataflow."""
    from costmodel.scalesim.reading import from_scalesim
    from orchestrator.search.scalesim_cycles import ScaleSimCycles

    read = from_scalesim(files)
    by_file: dict[str, list[str]] = {}
    for place in read.idle:
        file, _, key = place.rpartition(": ")
        by_file.setdefault(file, []).append(key.rpartition(".")[2])
    for file, keys in by_file.items():
        print(f"changes no cycle: {file}: {', '.join(keys)}", file=sys.stderr)
    found = ScaleSimCycles(read)
    click.echo(answer_text(found.to_dict()) if as_json else fitted(found.text()))
