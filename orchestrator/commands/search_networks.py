"""`mapspace search --network`: layer by layer, or all layers together."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mapspace.errors import ConfigError, MapspaceError, refuse
from orchestrator.commands.options import fail
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.answers.request import Request


def search_layers(request: Request, output: Place | None, as_json: bool) -> None:
    """Answers every distinct layer of a network by itself."""
    from orchestrator.networks.search import explain_layers, search_network

    _check(request)
    result = search_network(request)
    if request.explain:
        result = explain_layers(result, request, sys.stderr)
    click.echo(json_text(result.to_dict()) if as_json else fitted(result.picture()))
    if output is not None:
        result.save(output)
    if result.interrupted:
        raise click.exceptions.Exit(fail(str(result.failure), 130))
    if result.failure is not None:
        raise MapspaceError(result.failure)


def search_whole(
    request: Request, output: Place | None, page: Place | None, *, resident: bool, as_json: bool
) -> None:
    """Answers all layers of a network together: fused, or with tensors resident on the chip."""
    from orchestrator.answers.mapping_page import save_document
    from orchestrator.networks.search_jointly import search_jointly
    from orchestrator.networks.search_resident import search_resident

    _check(request)
    result = search_resident(request) if resident else search_jointly(request)
    click.echo(json_text(result.to_dict()) if as_json else fitted(result.picture()))
    if output is not None:
        result.save(output)
    if page is not None:
        with local_file(page) as file:
            save_document(result.document(), file)
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))


def _check(request: Request) -> None:
    given = {"top": request.top > 1, "pad": request.pad}
    why = "is for a single WORKLOAD, not for --network."
    refuse([ConfigError(f"--{name} {why}") for name in given if given[name]])
