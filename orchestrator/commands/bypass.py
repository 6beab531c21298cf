"""`mapspace bypass`: what it is worth that tensors may skip memory levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mapspace.errors import MapspaceError
from orchestrator.commands.options import (
    LENIENT,
    PLACE,
    TIMELOOP,
    OnceEach,
    check_records_output,
    fail,
    problem_asked,
    with_store,
)
from orchestrator.report.text_table import fitted
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.folder import Store


@click.command(cls=OnceEach)
@click.argument("workload", nargs=-1)
@TIMELOOP
@LENIENT
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="The most per proof.")
@click.option("--output", type=PLACE, help="Also write both mapping records of every layer.")
@with_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def bypass(
    workload: tuple[str, ...],
    network: str | None,
    accelerator: str,
    seconds: float,
    output: Place | None,
    store: Store | None,
    as_json: bool,
    **files: bool,
) -> None:
    """Proves what it is worth that tensors of WORKLOAD may skip memory levels.

    The best mapping with every tensor kept at every level against the best one with bypass
    searched, on the same machine; with a warning where free multicast makes bypass degenerate. With
    --timeloop the arguments are Timeloop's input files.
    """
    from orchestrator.bypass.compare import compare_bypass
    from orchestrator.bypass.text import layer_text, network_text
    from orchestrator.records.found_mapping import save_records

    if bool(workload) == (network is not None):
        raise click.UsageError("Expected either WORKLOAD or --network.")
    if output is not None:
        check_records_output(output)
    source: tuple[Any, Any] = (network, accelerator)
    if network is None:
        source = problem_asked(workload, accelerator, **files)
    result = compare_bypass(
        *source,
        network=network is not None,
        seconds=seconds,
        store=store,
    )
    found = result.to_dict()
    text = layer_text if network is None else network_text
    click.echo(json_text(found) if as_json else fitted(text(found)))
    if output is not None:
        save_records(result.records, output)
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: layers are missing.", 130))
    failed = sum(layer.failure is not None for layer in result.layers)
    if failed:
        raise MapspaceError(f"{failed} layers have no mapping; the output says why.")
