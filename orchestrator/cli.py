"""The command line. Every command imports what it needs itself, so that `search` starts at once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from costmodel.costs import OBJECTIVES
from costmodel.errors import ConfigError, MapspaceError
from orchestrator.places import RUNS, PlaceParam, local_file

if TYPE_CHECKING:
    from orchestrator.explain import Request
    from surrogate.storage import Place

PLACE = PlaceParam()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mapspace")
def cli() -> None:
    """Finds mappings of tensor operations on spatial accelerators, and compares the methods."""


@cli.command()
@click.argument("workload", required=False)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--searcher", help="The method; else exact where it applies.")
@click.option("--seconds", type=float, help="Budget of search time; else 60 (proof) or 2.")
@click.option("--iterations", type=int, help="Budget of cost queries.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="edp", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
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
    "--output",
    type=PLACE,
    help="Also write the mapping record, and beside it the certificate; a record per layer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def search(
    workload: str | None,
    network: str | None,
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
    of WORKLOAD every distinct layer of a network is searched; budgets are then per layer.
    """
    from orchestrator.explain import Request
    from orchestrator.search import search as run_search

    if workload is None and network is None:
        raise click.UsageError("Missing argument 'WORKLOAD' (or --network).")
    if workload is not None and network is not None:
        raise click.UsageError("Expected either WORKLOAD or --network, got both.")
    kept = _keep(keep)
    if isinstance(output, Path) and not output.parent.is_dir():
        raise ConfigError(f"{output}: the folder {output.parent} does not exist.")
    request = Request(
        workload or network or "",
        seconds=seconds,
        iterations=iterations,
        gap=_share(gap),
        keep=kept,
        **options,
    )
    if network is not None:
        _search_network(request, output, as_json)
        return
    answer = run_search(request)
    if output is not None:
        with local_file(output) as file:
            file.write_text(json.dumps(answer.summary["record"]) + "\n")
        if answer.certificate is not None:
            with local_file(output.with_suffix(".certificate.json")) as file:
                answer.certificate.write(file)
    click.echo(json.dumps(answer.summary) if as_json else answer.text)
    if answer.failure is not None:
        raise MapspaceError(f"The search stopped early, with the best so far: {answer.failure}")


def _search_network(request: Request, output: Place | None, as_json: bool) -> None:
    from orchestrator.network import search_network

    if request.top > 1:
        raise ConfigError("--top is for a single WORKLOAD, not for --network.")
    answer = search_network(request)
    if output is not None:
        with local_file(output) as file:
            file.write_text("".join(f"{json.dumps(record)}\n" for record in answer.records))
    click.echo(json.dumps(answer.summary) if as_json else answer.text)
    if answer.interrupted:
        raise click.exceptions.Exit(_fail(str(answer.failure), 130))
    if answer.failure is not None:
        raise MapspaceError(answer.failure)


@cli.command()
@click.argument("workload")
@click.option(
    "--model",
    type=click.Choice(["tvm", "tiling"]),
    default="tvm",
    show_default=True,
    help="Measure on this processor, or model a core's caches.",
)
@click.option("--searcher", default="na2c", show_default=True)
@click.option("--seconds", type=float, help="Budget of search time; else 60, or 2 by model.")
@click.option("--iterations", type=int, help="Budget of tilings.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--time-limit", type=float, help="The most seconds one measurement takes; else 10.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def tile(as_json: bool, **options: Any) -> None:
    """Finds a tiling of the matrix product WORKLOAD for this processor, compiled with TVM.

    WORKLOAD is a preset's name, a YAML file, or inline such as gemm:M=512,N=512,K=512. Ctrl-C
    prints the best tiling so far; what was measured once is kept and not measured again.
    """
    from orchestrator.tile import TileRequest
    from orchestrator.tile import tile as run_tile

    answer = run_tile(TileRequest(**options))
    click.echo(json.dumps(answer.summary) if as_json else answer.text)


@cli.command()
@click.argument("certificate", type=PLACE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def verify(certificate: Place, as_json: bool) -> None:
    """Proves again what CERTIFICATE claims: nothing in it is taken on trust.

    Exits with 1 if a claim is wrong.
    """
    from orchestrator.prove import verify_file

    with local_file(certificate, there=True) as file:
        holds, text = verify_file(file, as_json=as_json)
    click.echo(text)
    if not holds:
        raise MapspaceError(f"{certificate}: the certificate does not hold.")


@cli.command()
@click.argument("workload")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--plot", type=PLACE, help="Also draw it into a PNG file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def pareto(workload: str, accelerator: str, plot: Place | None, as_json: bool) -> None:
    """Proves the energy-latency front of WORKLOAD: every mapping that no other beats in both."""
    from orchestrator.prove import front

    with nullcontext() if plot is None else local_file(plot) as file:
        click.echo(front(workload, accelerator, plot=file, as_json=as_json))


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
    from orchestrator.bypass import compare_bypass

    if (workload is None) == (network is None):
        raise click.UsageError("Expected either WORKLOAD or --network.")
    if seconds <= 0:
        raise ConfigError(f"--seconds: expected more than 0, got {seconds:g}.")
    answer = compare_bypass(
        workload or network or "", accelerator, network=network is not None, seconds=seconds
    )
    click.echo(json.dumps(answer.summary) if as_json else answer.text)
    if answer.interrupted:
        raise click.exceptions.Exit(_fail("interrupted: layers are missing.", 130))
    failed = sum(row["failure"] is not None for row in answer.summary["layers"])
    if failed:
        raise MapspaceError(f"{failed} layers have no mapping; the output says why.")


@cli.command()
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--family", help="Random problems of cnn or mttkrp in place of WORKLOAD.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--samples", type=int, default=1_000_000, show_default=True, help="Mappings drawn.")
@click.option("--seed", type=int, default=0, show_default=True)
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
    from orchestrator.space import describe_family, describe_spaces

    if bool(workloads) == (family is not None):
        raise click.UsageError("Expected either WORKLOAD or --family.")
    if family is not None:
        if plot is not None or surface is not None:
            raise ConfigError("--plot and --surface are for a WORKLOAD, not for --family.")
        answer = describe_family(family, accelerator, samples=samples, seed=seed)
    else:
        answer = describe_spaces(
            workloads,
            accelerator,
            samples=samples,
            seed=seed,
            plot=plot,
            surface=None if surface is None else _pair(surface),
        )
    click.echo(json.dumps(answer.summary) if as_json else answer.text)


@cli.command()
@click.option("--model", required=True, help="Cost model; see `mapspace list models`.")
@click.argument("records", type=PLACE)
@click.option("--output", type=PLACE, help="Else standard output.")
def evaluate(model: str, records: Place, output: Place | None) -> None:
    """Scores the mapping RECORDS (JSON lines, plain or .gz)."""
    from orchestrator.records import evaluate_file

    with (
        local_file(records, there=True) as source,
        nullcontext() if output is None else local_file(output) as target,
    ):
        scored, infeasible = evaluate_file(model, source, target)
    note = f", {infeasible:,} of them infeasible" if infeasible else ""
    click.echo(f"{scored:,} records scored{note}", err=True)


@cli.command()
@click.argument("experiment")
@click.option("--output", type=PLACE, help="Data set folder; else runs/NAME.")
def generate(experiment: str, output: Place | None) -> None:
    """Makes the data set of EXPERIMENT (a YAML file or a shipped one's name), on Ray tasks."""
    from orchestrator.experiment import find_experiment
    from orchestrator.generate import run_generate

    run_generate(find_experiment(experiment), output)


@cli.command()
@click.argument("experiment")
@click.option("--output", type=PLACE, help="Surrogate folder; else runs/NAME.")
def train(experiment: str, output: Place | None) -> None:
    """Trains the surrogate of EXPERIMENT (a YAML file or a shipped one's name), on Ray Train.

    A study of kind training-study is several trainings, and a report that compares them.
    """
    from costmodel.loading import load_yaml
    from orchestrator.experiment import find_experiment
    from orchestrator.train import run_train
    from orchestrator.training_study import KIND, run_training_study

    path = find_experiment(experiment)
    if load_yaml(path).get("kind") != KIND:
        run_train(path, output)
        return
    if output is not None and not isinstance(output, Path):
        raise ConfigError(f"{output}: a study of kind {KIND} is written to a local folder.")
    click.echo(run_training_study(path, output))


@cli.command()
@click.argument("experiment")
@click.option("--tracking-uri", help="MLflow; else a SQLite file in the run folder.")
@click.option("--output", type=PLACE, help="Run folder; else runs/NAME.")
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Continue what lies in the run folder, or refuse it.",
)
def benchmark(
    experiment: str, tracking_uri: str | None, output: Place | None, resume: bool
) -> None:
    """Runs the comparison EXPERIMENT (a YAML file or a shipped one's name) on Ray Tune.

    The same command again continues an interrupted run. A study of kind marvel runs on Ray tasks
    and is logged to MLflow only where --tracking-uri says so.
    """
    from costmodel.loading import load_yaml
    from orchestrator.experiment import find_experiment

    path = find_experiment(experiment)
    if load_yaml(path).get("kind") == "marvel":
        from orchestrator.marvel.study import run_marvel

        if output is not None and not isinstance(output, Path):
            raise ConfigError(f"{output}: a study of kind marvel is written to a local folder.")
        answer = run_marvel(path, output, resume=resume, tracking_uri=tracking_uri)
        click.echo(f"{answer.text}\n\nresults  {answer.folder}\npage     {answer.page}")
        return
    from orchestrator.benchmark import run_benchmark
    from orchestrator.experiment import load_benchmark, prepare
    from orchestrator.places import local_copy, publish
    from orchestrator.report import is_result, text_table
    from orchestrator.tracking import TRACKING_FILE, default_uri, log_results

    plan = prepare(load_benchmark(path), str(path))
    folder: Place = output or RUNS / plan.benchmark.name
    if not resume and folder.exists():
        raise ConfigError(f"{folder}: exists already; drop --no-resume to continue it.")
    results = run_benchmark(plan, folder)
    # Before a tracking server is waited for.
    click.echo(text_table(results))
    shown = shlex.quote(str(folder))
    click.echo(f"results  {folder}\nreport   mapspace report {shown}")
    copy = local_copy(folder, is_result)
    uri = tracking_uri or default_uri(copy)
    try:
        log_results(results, copy, uri)
    finally:
        # Also where the server went away, so that the rest is sent to the same run.
        if (copy / TRACKING_FILE).exists():
            publish(copy, [TRACKING_FILE], folder)
    click.echo(f"MLflow   {open_mlflow(uri)}")


@cli.command()
@click.argument("experiment")
@click.option("--tracking-uri", help="MLflow; else a SQLite file in the run folder.")
@click.option("--output", type=PLACE, help="Run folder; else runs/NAME.")
def sweep(experiment: str, tracking_uri: str | None, output: Place | None) -> None:
    """Proves the best mapping of every accelerator x workload of EXPERIMENT, on Ray tasks.

    EXPERIMENT is a YAML file or a shipped one's name. The same command again continues an
    interrupted sweep.
    """
    from orchestrator.experiment import find_experiment
    from orchestrator.sweep import run_sweep
    from orchestrator.tracking import default_uri

    path = find_experiment(experiment)
    answer = run_sweep(path, output, tracking_uri=tracking_uri)
    uri = tracking_uri or default_uri(answer.page.parent)
    click.echo(f"{answer.text}\n\nresults  {answer.folder}\npage     {answer.page}")
    click.echo(f"MLflow   {open_mlflow(uri)}")


@cli.command()
@click.argument("run", type=PLACE)
def report(run: Place) -> None:
    """Draws the curves and tables of RUN, a benchmark's run folder or a folder of several.

    RUN can also be the run folder of a Marvel study. Prints the local page; where RUN is a URI, the
    page is also written there.
    """
    from orchestrator.marvel.study import is_study

    if isinstance(run, Path) and is_study(run):
        from orchestrator.marvel.report import write_marvel_report

        click.echo(write_marvel_report(run))
        return
    from orchestrator.report import write_report

    click.echo(write_report(run))


@cli.command()
@click.option("--output", type=PLACE, default=str(RUNS / "table1"), show_default=True)
@click.option("--quick", is_flag=True, help="Little data and small budgets: a test of the set-up.")
def run(output: Place, quick: bool) -> None:
    """The Mind Mappings experiment: data, surrogates, both benchmarks, report. Resumable."""
    from orchestrator.run import main_job

    main_job(output, quick=quick)


@cli.command("list")
@click.argument(
    "kind",
    required=False,
    type=click.Choice(["searchers", "models", "accelerators", "workloads", "experiments"]),
)
def list_(kind: str | None) -> None:
    """Lists what there is."""
    from orchestrator.catalogue import catalogue

    click.echo(catalogue(kind))


def _share(text: str) -> float:
    """A share such as 1% or 0.01.

    Raises:
        ConfigError: it is none, or below 0.
    """
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = -1.0
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


def open_mlflow(uri: str) -> str:
    """The command that shows an MLflow store in a browser of this machine."""
    if uri.startswith(("http://", "https://")):
        return uri
    command = shutil.which("mlflow") or str(Path(sys.executable).with_name("mlflow"))
    # One worker and no job runners: it starts in seconds and takes a tenth of the memory.
    return (
        f"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false {command} ui --workers 1 --host 127.0.0.1 "
        f"--port 5000 --backend-store-uri {uri}"
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command; an error that was foreseen is one line on standard error.

    Exits with 0, with 2 for what the user has to correct, with 1 for other failures and with 130
    after Ctrl-C.
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
    except ConfigError as error:
        status = _fail(str(error), 2)
    except MapspaceError as error:
        status = _fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        status = _fail("interrupted; the same command continues what is resumable.", 130)
    except BrokenPipeError:
        # The reader of a pipe has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        # A full disk above all. Arrow's own errors have the reason only in their number.
        where = f"{error.filename}: " if error.filename else ""
        reason = os.strerror(error.errno) if error.errno else str(error)
        status = _fail(f"{where}{reason}; the same command continues what is resumable.", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return status
