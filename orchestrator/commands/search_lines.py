"""`mapspace search` of every line of a file, and of Timeloop's input files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from mapspace.errors import ConfigError, MapspaceError
from orchestrator.commands.options import fail
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.answers.request import Request
    from orchestrator.search.problem_lines import Answer


def search_lines(request: Request, problems: Place, output: Place | None, as_json: bool) -> None:
    """Answers every line of a file, in order."""
    from orchestrator.records.found_mapping import save_records
    from orchestrator.search.problem_lines import read_problems, search_problems

    for name, asked in (("pad", request.pad), ("keep", request.keep)):
        if asked:
            raise ConfigError(f"--{name} is for a single WORKLOAD, not for --problems.")
    with local_file(problems, there=True) as file:
        lines = read_problems(file)
    found = []
    for answer in map(partial(_explained, request), search_problems(request, lines)):
        click.echo(json_text(answer.to_dict()) if as_json else fitted(f"{answer.text()}\n"))
        if answer.result is not None:
            found.append({"line": answer.problem.where, **answer.result.record})
        if output is not None:
            save_records(found, output)
        if answer.interrupted:
            raise click.exceptions.Exit(fail("interrupted: lines are missing.", 130))


def _explained(request: Request, answer: Answer) -> Answer:
    """An answer with what explains it, where that is asked for and there is a mapping."""
    from orchestrator.search.one_workload import with_explanation

    if not request.explain or answer.result is None:
        return answer
    return replace(answer, result=with_explanation(request, answer.result, sys.stderr))


def _links(request: Request) -> bool | None:
    """Whether Timeloop's link transfers are counted; None: as Timeloop counts them."""
    said = request.link_transfers
    rules = {"factors": "imperfect", "axes": "both", "tiles": "apart"}
    asked = [f"--{key} {value}" for key, value in rules.items() if getattr(request, key) == value]
    if said is None and asked:
        print(f"left out: link transfers, not counted with {asked[0]}", file=sys.stderr)
        return False
    return said


def search_timeloop(
    request: Request, files: Sequence[str], lenient: bool, output: Place | None, as_json: bool
) -> None:
    """Answers the problem of Timeloop's input files."""
    from orchestrator.records.timeloop_files import read_files
    from orchestrator.search import timeloop_problem
    from orchestrator.search.problem_lines import search_problems

    for name, given in (("pad", request.pad), ("keep", request.keep)):
        if given:
            raise ConfigError(f"--{name}: Timeloop's files say it themselves.")
    read = read_files(files, lenient=lenient, link_transfers=_links(request))
    context = click.get_current_context()
    if context.get_parameter_source("objective") is click.core.ParameterSource.DEFAULT:
        request = replace(request, objective=timeloop_problem.objective_of(read))
    (answer,) = search_problems(request, [timeloop_problem.problem_of(read, files)])
    answer = _explained(request, answer)
    click.echo(json_text(answer.to_dict()) if as_json else fitted(answer.text()))
    if output is not None and answer.result is not None:
        timeloop_problem.save(answer.result, output)
    if answer.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))
    if answer.result is None:
        raise MapspaceError(f"No mapping: {answer.why}")
