"""The commands that answer for one machine, now. Each imports what it needs itself."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from costmodel.costs import OBJECTIVES
from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import place
from orchestrator.runs.locations import PlaceParam, local_file
from orchestrator.search.options import (
    OnceEach,
    check_certificate_output,
    check_plot,
    check_records_output,
    check_timeloop,
    fail,
    share_of,
    tensors_by_level,
)

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.search.request import Request

PLACE = PlaceParam()
TIMELOOP = click.option(
    "--timeloop", is_flag=True, help="The arguments are Timeloop's input files (YAML, .cfg)."
)
LENIENT = click.option(
    "--lenient", is_flag=True, help="With --timeloop: leave out what is not modelled, and list it."
)


COUNTING = click.option(
    "--counting",
    type=click.Choice(("timeloop", "true")),
    help="Of remainders: as Timeloop, or every element by itself; else as the machine says.",
)


@click.command(cls=OnceEach)
@click.argument("workload", required=False, nargs=-1)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@TIMELOOP
@LENIENT
@click.option(
    "--problems",
    type=PLACE,
    metavar="FILE.jsonl",
    help="Every line's problem on its own machine: arch, problem and perhaps constraints.",
)
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--searcher", help="The method; else exact where it applies.")
@click.option("--seconds", type=float, help="Budget of search time; else 60 (proof) or 2.")
@click.option("--iterations", type=int, help="Budget of cost queries.")
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES, case_sensitive=False),
    default="edp",
    show_default=True,
    help="What to minimise; less energy (of equal energy: fewer cycles) breaks ties.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--surrogate", help="Surrogate folder for --searcher gradient; else the shipped one.")
@click.option("--gap", default="0", help="Stop a proof within so much of the optimum, such as 1%.")
@click.option("--top", type=click.IntRange(1), default=1, help="Find so many of the best tilings.")
@click.option(
    "--keep",
    multiple=True,
    metavar="LEVEL=TENSORS",
    help="Tensors that a level keeps where the machine leaves it open: L1=Weights,Outputs.",
)
@click.option(
    "--factors",
    type=click.Choice(("perfect", "imperfect")),
    help="Whether loops may have a shorter last pass; else as the machine says.",
)
@click.option(
    "--continue",
    "continued",
    type=PLACE,
    metavar="CERTIFICATE",
    help="Go on with the unfinished proof of a certificate, which says the problem.",
)
@click.option("--explain", is_flag=True, help="Prove what holds a proven optimum up.")
@COUNTING
@click.option("--pad", is_flag=True, help="Pad sizes with awkward factors where that is better.")
@click.option(
    "--output",
    type=PLACE,
    help="Also write the mapping record (one per layer, line or tiling of --top), and beside it "
    "the certificate.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def search(
    workload: tuple[str, ...],
    network: str | None,
    timeloop: bool,
    lenient: bool,
    problems: Place | None,
    seconds: float | None,
    iterations: int | None,
    gap: str,
    keep: tuple[str, ...],
    continued: Place | None,
    output: Place | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Finds a mapping of WORKLOAD now: the proven best one where a proof is possible.

    WORKLOAD is a preset's name, a YAML file, or inline such as gemm:M=384,N=4096,K=1024. Ctrl-C
    prints the best mapping so far and how far from the optimum it can be. With --network in place
    of WORKLOAD every distinct layer of a network is searched, with --problems every line of a file;
    budgets are then for each of them.
    """
    from orchestrator.search.one_workload import search as run_search
    from orchestrator.search.request import Request
    from orchestrator.search.result_text import search_text

    check_timeloop(timeloop, lenient, workload)
    given = [name for name in (*workload, network, problems) if name is not None]
    if continued is not None and (timeloop or network is not None or problems is not None):
        raise click.UsageError("Expected --continue alone or with a WORKLOAD.")
    if not given and continued is None:
        raise click.UsageError("Missing argument 'WORKLOAD' (or --network), or --problems.")
    if problems is not None and len(given) > 1:
        raise click.UsageError("Expected --problems alone, without WORKLOAD or --network.")
    if len(workload) > 1 and not timeloop:
        raise click.UsageError(f"Got unexpected extra argument ({workload[1]})")
    if workload and network is not None:
        raise click.UsageError("Expected either WORKLOAD or --network, got both.")
    kept = tensors_by_level(keep)
    if output is not None:
        check_records_output(output)
        if network is None:
            check_certificate_output(output.with_suffix(".certificate.json"))
    request = Request(
        network or (workload or ("",))[0],
        seconds=seconds,
        iterations=iterations,
        gap=share_of(gap),
        keep=kept,
        **options,
    )
    if problems is not None:
        _search_problems(request, problems, output, as_json)
        return
    if timeloop:
        _search_timeloop(request, workload, lenient, output, as_json)
        return
    if network is not None:
        _search_network(request, output, as_json)
        return
    if continued is not None:
        request = _continued(request, continued)
    result = run_search(request)
    if output is not None:
        result.save(output)
    click.echo(json.dumps(result.to_dict()) if as_json else search_text(result))
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))
    if result.failure is not None:
        raise MapspaceError(f"The search stopped early, with the best so far: {result.failure}")


def _continued(request: Request, file: Place) -> Request:
    """The request of a certificate, of the same problem as WORKLOAD where that is given."""
    from costmodel.exact.certificate import read_certificate
    from orchestrator.search.continuing import check_same, problem_of

    with local_file(file, there=True) as path:
        certificate = read_certificate(path)
    if request.workload:
        check_same(certificate, request)
    else:
        context = click.get_current_context()
        for name in ("accelerator", "objective", "keep", "factors"):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise ConfigError(f"--{name}: the certificate says it; give WORKLOAD to compare.")
    return problem_of(certificate, request)


def _search_problems(
    request: Request, problems: Place, output: Place | None, as_json: bool
) -> None:
    from orchestrator.search.found_mapping import save_records
    from orchestrator.search.problem_lines import read_problems, search_problems

    for name, asked in (("pad", request.pad), ("keep", request.keep), ("explain", request.explain)):
        if asked:
            raise ConfigError(f"--{name} is for a single WORKLOAD, not for --problems.")
    with local_file(problems, there=True) as file:
        lines = read_problems(file)
    found = []
    for answer in search_problems(request, lines):
        click.echo(json.dumps(answer.to_dict()) if as_json else f"{answer.text()}\n")
        if answer.result is not None:
            found.append({"line": answer.problem.where, **answer.result.record})
        if output is not None:
            save_records(found, output)
        if answer.interrupted:
            raise click.exceptions.Exit(fail("interrupted: lines are missing.", 130))


def _search_timeloop(
    request: Request, files: tuple[str, ...], lenient: bool, output: Place | None, as_json: bool
) -> None:
    from orchestrator.search import timeloop_files
    from orchestrator.search.one_workload import with_explanation
    from orchestrator.search.problem_lines import search_problems

    for name, asked in (("pad", request.pad), ("keep", request.keep)):
        if asked:
            raise ConfigError(f"--{name}: Timeloop's files say it themselves.")
    read = timeloop_files.read_files(files, lenient=lenient)
    context = click.get_current_context()
    if context.get_parameter_source("objective") is click.core.ParameterSource.DEFAULT:
        request = replace(request, objective=timeloop_files.objective_of(read))
    (answer,) = search_problems(request, [timeloop_files.problem_of(read, files)])
    if request.explain and answer.result is not None:
        explained = with_explanation(request, answer.result, sys.stderr)
        answer = replace(answer, result=explained)
    if output is not None and answer.result is not None:
        timeloop_files.save(answer.result, output)
    click.echo(json.dumps(answer.to_dict()) if as_json else answer.text())
    if answer.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))
    if answer.result is None:
        raise MapspaceError(f"No mapping: {answer.why}")


def _search_network(request: Request, output: Place | None, as_json: bool) -> None:
    from orchestrator.search.network import search_network
    from orchestrator.search.network_text import network_text

    if request.top > 1:
        raise ConfigError("--top is for a single WORKLOAD, not for --network.")
    for name, asked in (("pad", request.pad), ("explain", request.explain)):
        if asked:
            raise ConfigError(f"--{name} is for a single WORKLOAD, not for --network.")
    result = search_network(request)
    if output is not None:
        result.save(output)
    click.echo(json.dumps(result.to_dict()) if as_json else network_text(result))
    if result.interrupted:
        raise click.exceptions.Exit(fail(str(result.failure), 130))
    if result.failure is not None:
        raise MapspaceError(result.failure)


@click.command(cls=OnceEach)
@click.argument("workload")
@click.option(
    "--model",
    default="tvm",
    show_default=True,
    help="tvm: measure on this processor; tiling: model a core's caches.",
)
@click.option("--searcher", default="na2c", show_default=True)
@click.option("--seconds", type=float, help="Budget of search time; else 60, or 2 by model.")
@click.option("--iterations", type=int, help="Budget of tilings.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--time-limit", type=float, help="The most seconds one measurement takes; else 10.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def tile(as_json: bool, **options: Any) -> None:
    """Finds a tiling of the matrix product WORKLOAD for this processor, compiled with TVM.

    WORKLOAD is a preset's name, a YAML file, or inline such as gemm:M=512,N=512,K=512. Ctrl-C
    prints the best tiling so far; what was measured once is kept and not measured again.
    """
    from orchestrator.search.tiling import TileRequest, tile_text
    from orchestrator.search.tiling import tile as run_tile

    result = run_tile(TileRequest(**options))
    click.echo(json.dumps(result.to_dict()) if as_json else tile_text(result))
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))


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
    from orchestrator.search.certificates import verification_text, verify_file

    with local_file(certificate, there=True) as file:
        result = verify_file(file, independent=independent, seconds=seconds)
    click.echo(json.dumps(result.to_dict()) if as_json else verification_text(result))
    if not result.holds:
        raise MapspaceError(f"{certificate}: the certificate does not hold.")
    if not result.complete:
        left = f"{certificate}: not proven again within {seconds:g} s."
        raise click.exceptions.Exit(fail(left, 3))


@click.command(cls=OnceEach)
@click.argument("workload")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--plot", type=PLACE, help="Also draw it into a PNG file.")
@click.option("--output", type=PLACE, help="Also write a mapping record per point, as JSON lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def pareto(
    workload: str, accelerator: str, plot: Place | None, output: Place | None, as_json: bool
) -> None:
    """Proves the energy-latency front of WORKLOAD: every mapping that no other beats in both."""
    from orchestrator.search.pareto import draw_front, front, front_text

    if plot is not None:
        check_plot(plot)
    if output is not None:
        check_records_output(output)
    result = front(workload, accelerator)
    written = []
    if plot is not None:
        with local_file(plot) as file:
            draw_front(result, file)
        written.append(f"plot     {plot}")
    if output is not None:
        result.save(output)
        written.append(f"records  {output}, one per point")
    text = "\n".join([front_text(result), *([""] if written else []), *written])
    click.echo(json.dumps(result.to_dict()) if as_json else text)


@click.command(cls=OnceEach)
@click.argument("workload", required=False)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="The most per proof.")
@click.option("--output", type=PLACE, help="Also write both mapping records of every layer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def bypass(
    workload: str | None,
    network: str | None,
    accelerator: str,
    seconds: float,
    output: Place | None,
    as_json: bool,
) -> None:
    """Proves what it is worth that tensors of WORKLOAD may skip memory levels.

    The best mapping with every tensor kept at every level against the best one with bypass
    searched, on the same machine; with a warning where free multicast makes bypass degenerate.
    """
    from orchestrator.search.bypass import compare_bypass
    from orchestrator.search.bypass_text import layer_text, network_text
    from orchestrator.search.found_mapping import save_records

    if (workload is None) == (network is None):
        raise click.UsageError("Expected either WORKLOAD or --network.")
    if seconds <= 0:
        raise ConfigError(f"--seconds: expected more than 0, got {seconds:g}.")
    if output is not None:
        check_records_output(output)
    result = compare_bypass(
        workload or network or "", accelerator, network=network is not None, seconds=seconds
    )
    if output is not None:
        save_records(result.records, output)
    found = result.to_dict()
    text = layer_text if network is None else network_text
    click.echo(json.dumps(found) if as_json else text(found))
    if result.interrupted:
        raise click.exceptions.Exit(fail("interrupted: layers are missing.", 130))
    failed = sum(layer.failure is not None for layer in result.layers)
    if failed:
        raise MapspaceError(f"{failed} layers have no mapping; the output says why.")


@click.command(cls=OnceEach)
@click.option(
    "--model",
    default="loopnest",
    show_default=True,
    help="Cost model; see `mapspace list models`.",
)
@click.argument("records", nargs=-1, required=True)
@click.option("--output", type=PLACE, help="Else standard output.")
@click.option("--link-transfers", is_flag=True, help="Neighbours hand words to each other.")
@COUNTING
@TIMELOOP
@LENIENT
@click.option("--json", "as_json", is_flag=True, help="With --timeloop: print one JSON object.")
def evaluate(
    model: str,
    records: tuple[str, ...],
    output: Place | None,
    link_transfers: bool,
    counting: str | None,
    timeloop: bool,
    lenient: bool,
    as_json: bool,
) -> None:
    """Scores the mapping RECORDS (JSON lines, plain or .gz), or a mapping in Timeloop's files.

    With --timeloop any number of files, in any order, say architecture, problem, mapping and
    perhaps energies (ERT); link transfers are off unless asked for.
    """
    from orchestrator.search.evaluate_records import evaluate_file

    check_timeloop(timeloop, lenient, records)
    if timeloop:
        from orchestrator.search.timeloop_files import costs_text, evaluate_files

        if output is not None or counting or model != "loopnest":
            raise click.UsageError("--timeloop is for --model loopnest, and prints its answer.")
        result = evaluate_files(records, lenient=lenient, link_transfers=link_transfers)
        click.echo(json.dumps(result) if as_json else costs_text(result))
        return
    if len(records) > 1 or as_json:
        more = f"argument ({records[1]})" if len(records) > 1 else "option --json"
        raise click.UsageError(f"Got unexpected extra {more}")
    with (
        local_file(place(records[0]), there=True) as source,
        nullcontext() if output is None else local_file(output) as target,
    ):
        scored, infeasible = evaluate_file(
            model, source, target, link_transfers=link_transfers, counting=counting
        )
    note = f", {infeasible:,} of them infeasible" if infeasible else ""
    click.echo(f"{scored:,} records scored{note}", err=True)


COMMANDS = (search, tile, verify, pareto, bypass, evaluate)
