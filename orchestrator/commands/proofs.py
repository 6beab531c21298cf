"""`mapspace verify` and `pareto`: a proof once more, and a proven front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mapspace.errors import MapspaceError
from orchestrator.commands.options import (
    LENIENT,
    PLACE,
    TIMELOOP,
    OnceEach,
    check_plot,
    check_records_output,
    fail,
    problem_asked,
    with_store,
)
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import answer_text, json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.folder import Store


@click.command(cls=OnceEach)
@click.argument("certificate", type=PLACE)
@click.option(
    "--independent",
    is_flag=True,
    help="Also count mappings one by one without the prover: all of a small space, else a sample.",
)
@click.option("--seconds", type=float, help="The most that it may take; else however long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def verify(certificate: Place, independent: bool, seconds: float | None, as_json: bool) -> None:
    """Proves again what CERTIFICATE claims, with the same prover.

    The mapping is evaluated anew and everything below the bound searched anew: a fault in the
    prover's rules would be made twice. --independent looks without it. What the certificate says
    and nothing checks is printed as not verified. Exits with 1 if a claim is wrong, and with 3 if
    --seconds ended before the bound was proven again.
    """
    from orchestrator.networks.verify_file import verify_any_file
    from orchestrator.proofs.certificates import verification_text

    with local_file(certificate, there=True) as file:
        result = verify_any_file(file, independent=independent, seconds=seconds)
    click.echo(answer_text(result.to_dict()) if as_json else fitted(verification_text(result)))
    if not result.holds:
        raise MapspaceError(f"{certificate}: the certificate does not hold.")
    if not result.complete:
        left = f"{certificate}: not proven again within {seconds:g} s."
        raise click.exceptions.Exit(fail(left, 3))


@click.command(cls=OnceEach)
@click.argument("workload", nargs=-1)
@TIMELOOP
@LENIENT
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option(
    "--seconds", type=float, help="End with what is known of it then; else however long it takes."
)
@click.option("--plot", type=PLACE, help="Also draw it, as a .png or .svg file.")
@click.option("--output", type=PLACE, help="Also write a mapping record per point, as JSON lines.")
@with_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def pareto(
    workload: tuple[str, ...],
    accelerator: str,
    seconds: float | None,
    plot: Place | None,
    output: Place | None,
    store: Store | None,
    as_json: bool,
    **files: bool,
) -> None:
    """Proves the energy-latency front of WORKLOAD: every mapping that no other beats in both.

    Where --seconds end before, the mappings known are printed with what each could be bettered by
    at most. With --timeloop the arguments are Timeloop's input files.
    """
    from orchestrator.proofs.pareto import draw_front, front, front_text

    if plot is not None:
        check_plot(plot, ".svg")
    if output is not None:
        check_records_output(output)
    work, machine = problem_asked(workload, accelerator, **files)
    result = front(work, machine, seconds=seconds, store=store)
    click.echo(json_text(result.to_dict()) if as_json else fitted(front_text(result)))
    written = []
    if plot is not None:
        with local_file(plot) as file:
            draw_front(result, file)
        written.append(f"plot     {plot}")
    if output is not None:
        result.save(output)
        written.append(f"records  {output}, one per point")
    if written and not as_json:
        click.echo("\n".join(["", *written]))
