"""The command line. Every command imports what it needs itself, so that `search` starts at once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from costmodel.costs import OBJECTIVES
from mapspace.errors import ArgumentError, ConfigError, MapspaceError
from orchestrator.runs.locations import RUNS, PlaceParam, local_file
from orchestrator.search.options import (
    Commands,
    check_certificate_output,
    check_plot,
    check_records_output,
)

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.search.request import Request

PLACE = PlaceParam()

# Commands that keep what they have done, and go on from it.
RESUMABLE = ("generate", "train", "benchmark", "sweep", "run")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mapspace")
def cli() -> None:
    """Finds mappings of tensor operations on spatial accelerators, and compares the methods."""


@cli.command()
@click.argument("workload", required=False)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
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
@click.option("--pad", is_flag=True, help="Pad sizes with awkward factors where that is better.")
@click.option(
    "--output",
    type=PLACE,
    help="Also write the mapping record (one per layer or per tiling of --top), and beside it the "
    "certificate.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def search(
    workload: str | None,
    network: str | None,
    problems: Place | None,
    seconds: float | None,
    iterations: int | None,
    gap: str,
    keep: tuple[str, ...],
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

    given = [name for name in (workload, network, problems) if name is not None]
    if not given:
        raise click.UsageError("Missing argument 'WORKLOAD' (or --network), or --problems.")
    if problems is not None and len(given) > 1:
        raise click.UsageError("Expected --problems alone, without WORKLOAD or --network.")
    if len(given) > 1:
        raise click.UsageError("Expected either WORKLOAD or --network, got both.")
    kept = _keep(keep)
    if output is not None:
        check_records_output(output)
        if network is None:
            check_certificate_output(output.with_suffix(".certificate.json"))
    request = Request(
        workload or network or "",
        seconds=seconds,
        iterations=iterations,
        gap=_share(gap),
        keep=kept,
        **options,
    )
    if problems is not None:
        _search_problems(request, problems, output, as_json)
        return
    if network is not None:
        _search_network(request, output, as_json)
        return
    result = run_search(request)
    if output is not None:
        result.save(output)
    click.echo(json.dumps(result.to_dict()) if as_json else search_text(result))
    if result.interrupted:
        raise click.exceptions.Exit(_fail("interrupted: this is the best so far.", 130))
    if result.failure is not None:
        raise MapspaceError(f"The search stopped early, with the best so far: {result.failure}")


def _search_problems(
    request: Request, problems: Place, output: Place | None, as_json: bool
) -> None:
    from orchestrator.search.problem_lines import read_problems, search_problems

    for name, asked in (("pad", request.pad), ("keep", request.keep), ("output", output)):
        if asked:
            raise ConfigError(f"--{name} is for a single WORKLOAD, not for --problems.")
    with local_file(problems, there=True) as file:
        lines = read_problems(file)
    for answer in search_problems(request, lines):
        click.echo(json.dumps(answer.to_dict()) if as_json else f"{answer.text()}\n")
        if answer.interrupted:
            raise click.exceptions.Exit(_fail("interrupted: lines are missing.", 130))


def _search_network(request: Request, output: Place | None, as_json: bool) -> None:
    from orchestrator.search.network import search_network
    from orchestrator.search.network_text import network_text

    if request.top > 1:
        raise ConfigError("--top is for a single WORKLOAD, not for --network.")
    if request.pad:
        raise ConfigError("--pad is for a single WORKLOAD, not for --network.")
    result = search_network(request)
    if output is not None:
        result.save(output)
    click.echo(json.dumps(result.to_dict()) if as_json else network_text(result))
    if result.interrupted:
        raise click.exceptions.Exit(_fail(str(result.failure), 130))
    if result.failure is not None:
        raise MapspaceError(result.failure)


@cli.command()
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
        raise click.exceptions.Exit(_fail("interrupted: this is the best so far.", 130))


@cli.command()
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
        raise click.exceptions.Exit(_fail(left, 3))


@cli.command()
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


@cli.command()
@click.argument("workload", required=False)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="The most per proof.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def bypass(
    workload: str | None, network: str | None, accelerator: str, seconds: float, as_json: bool
) -> None:
    """Proves what it is worth that tensors of WORKLOAD may skip memory levels.

    The best mapping with every tensor kept at every level against the best one with bypass
    searched, on the same machine; with a warning where free multicast makes bypass degenerate.
    """
    from orchestrator.search.bypass import compare_bypass
    from orchestrator.search.bypass_text import layer_text, network_text

    if (workload is None) == (network is None):
        raise click.UsageError("Expected either WORKLOAD or --network.")
    if seconds <= 0:
        raise ConfigError(f"--seconds: expected more than 0, got {seconds:g}.")
    result = compare_bypass(
        workload or network or "", accelerator, network=network is not None, seconds=seconds
    )
    found = result.to_dict()
    text = layer_text if network is None else network_text
    click.echo(json.dumps(found) if as_json else text(found))
    if result.interrupted:
        raise click.exceptions.Exit(_fail("interrupted: layers are missing.", 130))
    failed = sum(layer.failure is not None for layer in result.layers)
    if failed:
        raise MapspaceError(f"{failed} layers have no mapping; the output says why.")


@cli.command()
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--family", help="Random problems of cnn or mttkrp in place of WORKLOAD.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--samples", type=int, default=1_000_000, show_default=True, help="Mappings drawn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--plot", type=click.Path(path_type=Path), help="PNG file for the cost surface.")
@click.option("--surface", metavar="DIM,DIM", help="Dimensions whose tilings the surface varies.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def space(
    workloads: tuple[str, ...],
    family: str | None,
    accelerator: str,
    samples: int,
    seed: int,
    plot: Path | None,
    surface: str | None,
    as_json: bool,
) -> None:
    """Describes the map space of WORKLOAD: its size, what random mappings cost, its surface.

    Costs are those of mappings drawn uniformly among the feasible ones, over the algorithmic
    minimum. With --family problems are drawn too, as for training data. Ctrl-C describes what has
    been drawn so far.
    """
    from orchestrator.map_space.describe import describe_family, describe_spaces
    from orchestrator.map_space.text import description_text

    if plot is not None:
        check_plot(plot)
    if bool(workloads) == (family is not None):
        raise click.UsageError("Expected either WORKLOAD or --family.")
    if family is not None:
        if plot is not None or surface is not None:
            raise ConfigError("--plot and --surface are for a WORKLOAD, not for --family.")
        found = describe_family(family, accelerator, samples=samples, seed=seed)
    else:
        if plot is not None and len(workloads) > 1:
            raise ConfigError("--plot is for a single WORKLOAD.")
        if plot is None and surface is not None:
            raise ConfigError("--surface says what --plot draws; give --plot FILE.png too.")
        found = describe_spaces(
            workloads,
            accelerator,
            samples=samples,
            seed=seed,
            plot=plot,
            surface=None if surface is None else _pair(surface),
        )
    click.echo(json.dumps(found.summary) if as_json else description_text(found.summary, plot))
    if found.interrupted:
        raise click.exceptions.Exit(_fail("interrupted: this is of what was drawn so far.", 130))


@cli.command()
@click.option("--model", required=True, help="Cost model; see `mapspace list models`.")
@click.argument("records", type=PLACE)
@click.option("--output", type=PLACE, help="Else standard output.")
@click.option("--link-transfers", is_flag=True, help="Neighbours hand words to each other.")
def evaluate(model: str, records: Place, output: Place | None, link_transfers: bool) -> None:
    """Scores the mapping RECORDS (JSON lines, plain or .gz)."""
    from orchestrator.search.evaluate_records import evaluate_file

    with (
        local_file(records, there=True) as source,
        nullcontext() if output is None else local_file(output) as target,
    ):
        scored, infeasible = evaluate_file(model, source, target, link_transfers=link_transfers)
    note = f", {infeasible:,} of them infeasible" if infeasible else ""
    click.echo(f"{scored:,} records scored{note}", err=True)


def _experiment(function: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options of every command that runs an experiment."""
    for add in (
        click.option("--output", type=PLACE, help="Run folder; else runs/NAME."),
        click.option("--tracking-uri", help="MLflow; else what the kind of run has by itself."),
        click.argument("experiment"),
    ):
        function = add(function)
    return function


def _run(command: str, experiment: str, **options: Any) -> None:
    from orchestrator.runs.command import run_experiment

    run_experiment(experiment, command=command, echo=click.echo, **options)


@cli.command()
@_experiment
def generate(**options: Any) -> None:
    """Makes the data set of EXPERIMENT (a YAML file or a shipped one's name), on Ray tasks."""
    _run("generate", **options)


@cli.command()
@_experiment
def train(**options: Any) -> None:
    """Trains the surrogate of EXPERIMENT (a YAML file or a shipped one's name), on Ray Train.

    A study of kind training-study is several trainings, and a report that compares them.
    """
    _run("train", **options)


@cli.command()
@_experiment
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Continue what lies in the run folder, or refuse it.",
)
def benchmark(**options: Any) -> None:
    """Runs the comparison EXPERIMENT (a YAML file or a shipped one's name) on Ray Tune.

    The same command again continues an interrupted run, which is logged to MLflow in a SQLite file
    in the run folder, or where --tracking-uri says. A study of kind marvel runs on Ray tasks and is
    logged only where --tracking-uri says so.
    """
    _run("benchmark", **options)


@cli.command()
@_experiment
def sweep(**options: Any) -> None:
    """Proves the best mapping of every accelerator x workload of EXPERIMENT, on Ray tasks.

    EXPERIMENT is a YAML file or a shipped one's name. The same command again continues an
    interrupted sweep, which is logged to MLflow as a benchmark is.
    """
    _run("sweep", **options)


@cli.command()
@click.argument("run", type=PLACE)
@click.option("--tracking-uri", help="MLflow that the page is added to; else the run folder's own.")
def report(run: Place, tracking_uri: str | None) -> None:
    """Draws the curves and tables of RUN, a benchmark's run folder or a folder of several.

    RUN can also be the run folder of a Marvel study. Prints the local page; where RUN is a URI, the
    page is also written there. A server that only the folder names is not contacted: name it.
    """
    from orchestrator.runs.command import report as draw

    click.echo(draw(run, tracking_uri=tracking_uri))


@cli.command()
@click.option("--output", type=PLACE, default=str(RUNS / "table1"), show_default=True)
@click.option("--quick", is_flag=True, help="Little data and small budgets: a test of the set-up.")
def run(output: Place, quick: bool) -> None:
    """The Mind Mappings experiment: data, surrogates, both benchmarks, report. Resumable."""
    from orchestrator.mind_mappings import main_job

    main_job(output, quick=quick)


@cli.command()
@click.argument("machine")
@click.option("--plot", type=PLACE, help="Also draw it, as a .png or .svg file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def describe(machine: str, plot: Place | None, as_json: bool) -> None:
    """Prints an accelerator: levels, fan-outs, who holds what, totals.

    MACHINE is a preset's name or a YAML file.
    """
    from costmodel.accelerators import accelerator
    from costmodel.machine_summary import summary, tree

    found = accelerator(machine)
    if plot is not None:
        from orchestrator.machine_figure import draw

        check_plot(plot, ".svg")
        with local_file(plot) as file:
            draw(found, file)
    click.echo(json.dumps(summary(found)) if as_json else tree(found))


@cli.command("list")
@click.argument(
    "kind",
    required=False,
    type=click.Choice(
        ["searchers", "models", "accelerators", "workloads", "networks", "experiments"]
    ),
)
@click.option("--long", is_flag=True, help="With the hyperparameters of every searcher.")
def list_(kind: str | None, long: bool) -> None:
    """Lists what there is, plug-ins of other packages too."""
    from orchestrator.catalogue import catalogue

    click.echo(catalogue(kind, long=long))


def _share(text: str) -> float:
    """A share such as 1% or 0.01.

    Raises:
        ConfigError: it is none, or below 0.
    """
    number = text.strip().removesuffix("%").strip()
    per_cent = text.strip().endswith("%")
    try:
        share = float(number) / (100 if per_cent else 1)
    except ValueError:
        share = -1.0
    if 1 < share < float("inf") and not per_cent:
        raise ConfigError(
            f"--gap: expected a share of 0 to 1 or per cent, got {text!r}; did you mean {number}%?"
        )
    if not 0 <= share < float("inf"):
        raise ConfigError(f"--gap: expected a share of 0 or more such as 1% or 0.01, got {text!r}.")
    return share


def _pair(text: str) -> tuple[str, str]:
    """Two names from a text such as K,N.

    Raises:
        ConfigError: there are not two.
    """
    first, comma, second = (part.strip() for part in text.partition(","))
    if not first or not comma or not second:
        raise ConfigError(f"--surface: expected two dimensions such as K,N, got {text!r}.")
    return first, second


def _keep(entries: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """Tensors by level from texts such as L1=Weights,Outputs (L1= for none).

    Raises:
        ConfigError: an entry has another form, or a level is given twice.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        level, equals, tensors = entry.partition("=")
        if not equals or not level or level in kept:
            raise ConfigError(
                f"--keep: expected LEVEL=TENSOR,TENSOR once per level, got {entry!r}."
            )
        kept[level] = tuple(name.strip() for name in tensors.split(",") if name.strip())
    return kept or None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command; an error that was foreseen is one line on standard error.

    Exits with 0, with 2 for what the user has to correct, with 1 for other failures, with 3 for a
    certificate that the time did not suffice to prove again and with 130 after Ctrl-C.
    """
    # Before NumPy and Ray are imported: threads beyond the processes that we start slow them down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        status = cli.main(args=arguments, prog_name="mapspace", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        status = 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "mapspace"
        status = _fail(f"{error.format_message()} See {where} --help.", 2)
    except click.ClickException as error:
        status = _fail(error.format_message(), error.exit_code)
    except ArgumentError as error:
        status = _fail(error.as_option, 2)
    except ConfigError as error:
        status = _fail(str(error), 2)
    except MapspaceError as error:
        status = _fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        status = _fail(f"interrupted{_continues(arguments)}.", 130)
    except BrokenPipeError:
        # The reader of a pipe has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        # A full disk above all. Arrow's own errors have the reason only in their number.
        where = f"{error.filename}: " if error.filename else ""
        reason = os.strerror(error.errno) if error.errno else str(error)
        status = _fail(f"{where}{reason}{_continues(arguments)}.", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _continues(arguments: Sequence[str] | None) -> str:
    """What is said of a command that was cut off, where it can go on."""
    given = sys.argv[1:] if arguments is None else arguments
    named = next((word for word in given if not word.startswith("-")), "")
    return "; the same command continues what is resumable" if named in RESUMABLE else ""


def _fail(message: str, status: int) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return status
