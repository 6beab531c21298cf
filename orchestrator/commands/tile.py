"""`mapspace tile`: a tiling of a matrix product for this processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrator.commands.options import (
    PLACE,
    OnceEach,
    check_tiling_output,
    fail,
    with_hyperparameters,
    with_store,
)
from orchestrator.report.text_table import fitted
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.folder import Store


@click.command(cls=OnceEach)
@click.argument("workload")
@click.option(
    "--model",
    default="tvm",
    show_default=True,
    help="tvm: measure on this processor; tiling: model a core's caches.",
)
@click.option("--searcher", help="By name; else multi-fidelity, or na2c by model.")
@with_hyperparameters
@click.option("--seconds", type=float, help="Budget of search time; else 60, or 2 by model.")
@click.option("--iterations", type=int, help="Budget of tilings.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--time-limit", type=float, help="The most seconds one measurement takes; else 10.")
@click.option("--output", type=PLACE, help="Write the best tiling as a record.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@with_store
def tile(as_json: bool, output: Place | None, store: Store | None, **options: Any) -> None:
    """Finds a tiling of the matrix product WORKLOAD for this processor, compiled with TVM.

    WORKLOAD is a preset's name, a YAML file, or inline such as gemm:M=512,N=512,K=512. Ctrl-C
    prints the best tiling so far; what was measured once is in the store, and not measured again.
    """
    from orchestrator.records.found_mapping import save_records
    from orchestrator.search.tiling import TileRequest, tile_text
    from orchestrator.search.tiling import tile as run_tile

    if output is not None:
        check_tiling_output(output)
    result = run_tile(TileRequest(**options), store=store)
    click.echo(json_text(result.to_dict()) if as_json else fitted(tile_text(result)))
    if output is not None:
        save_records([result.record], output)
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))
