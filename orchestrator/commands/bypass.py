"""`mapspace bypass`: what it is worth that tensors may skip memory levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mapspace.errors import ConfigError, MapspaceError
from orchestrator.commands.options import PLACE, OnceEach, check_records_output, fail, with_store
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.folder import Store


@click.command(cls=OnceEach)
@click.argument("workload", required=False)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="The most per proof.")
@click.option("--output", type=PLACE, help="Also write both mapping records of every layer.")
@with_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def bypass(
    workload: str | None,
    network: str | None,
    accelerator: str,
    seconds: float,
    output: Place | None,
    store: Store | None,
    as_json: bool,
) -> None:
    """Proves what it is worth that tensors of WORKLOAD may skip memory levels.

    The best mapping with every tensor kept at every level against the best one with bypass
    searched, on the same machine; with a warning where free multicast makes bypass degenerate.
    """
    from orchestrator.bypass.compare import compare_bypass
    from orchestrator.bypass.text import layer_text, network_text
    from orchestrator.records.found_mapping import save_records

    if (workload is None) == (network is None):
        raise click.UsageError("Expected either WORKLOAD or --network.")
    if seconds <= 0:
        raise ConfigError(f"--seconds: expected more than 0, got {seconds:g}.")
    if output is not None:
        check_records_output(output)
    result = compare_bypass(
        workload or network or "",
        accelerator,
        network=network is not None,
        seconds=seconds,
        store=store,
    )
    if output is not None:
        save_records(result.records, output)
    found = result.to_dict()
    text = layer_text if network is None else network_text
    click.echo(json_text(found) if as_json else text(found))
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: layers are missing.", 130))
    failed = sum(layer.failure is not None for layer in result.layers)
    if failed:
        raise MapspaceError(f"{failed} layers have no mapping; the output says why.")
