"""The command line. Every command imports what it needs itself, so that `search` starts at once."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mapspace.errors import ConfigError, MapspaceError, UnwritableError
from mapspace.extras import require, what_is_missing
from mapspace.less_collecting import collect_less
from mapspace.notices import noticed_by
from orchestrator.commands import COMMANDS
from orchestrator.commands.options import (
    LENIENT,
    PLACE,
    TIMELOOP,
    Commands,
    OneOf,
    check_plot,
    check_timeloop,
    fail,
    pair_of,
    problem_asked,
    with_store,
)
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import RUNS, local_file
from orchestrator.schemas.json_text import answer_text, json_text
from orchestrator.schemas.runs import ReportAnswer

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.folder import Store

# Commands that keep what they have done, and go on from it.
RESUMABLE = ("generate", "train", "benchmark", "sweep", "design", "run")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mapspace")
def cli() -> None:
    """Finds mappings of tensor operations on spatial accelerators, and compares the methods."""


for _command in COMMANDS:
    cli.add_command(_command)


@cli.command()
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@TIMELOOP
@LENIENT
@click.option("--family", help="Random problems of cnn or mttkrp in place of WORKLOAD.")
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--samples", type=int, default=1_000_000, show_default=True, help="Mappings drawn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--plot", type=PLACE, help="PNG or SVG for the cost surface.")
@click.option(
    "--surface",
    metavar="A,B",
    help="Dimensions whose tilings the surface varies, or any attributes such as order.L2.",
)
@with_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def space(
    workloads: tuple[str, ...],
    family: str | None,
    plot: Place | None,
    surface: str | None,
    store: Store | None,
    as_json: bool,
    timeloop: bool,
    lenient: bool,
    **drawn: Any,
) -> None:
    """Describes the map space of WORKLOAD: its size, what random mappings cost, its surface.

    Costs are those of mappings drawn uniformly among the feasible ones, over the algorithmic
    minimum. With --family problems are drawn too, as for training data. Ctrl-C describes what has
    been drawn so far. With --timeloop the arguments are Timeloop's input files.
    """
    from orchestrator.map_space.describe import describe_family, describe_spaces
    from orchestrator.map_space.text import description_text

    if plot is not None:
        check_plot(plot, ".svg")
    check_timeloop(timeloop, lenient, workloads)
    if bool(workloads) == (family is not None):
        raise click.UsageError("Expected either WORKLOAD or --family.")
    if family is not None:
        if plot is not None or surface is not None:
            raise ConfigError("--plot and --surface are for a WORKLOAD, not for --family.")
        found = describe_family(family, **drawn)
    else:
        asked: Sequence[Any] = workloads
        if timeloop:
            work, drawn["accelerator"] = problem_asked(
                workloads, drawn["accelerator"], timeloop=True, lenient=lenient
            )
            asked = [work]
        if plot is not None and len(asked) > 1:
            raise ConfigError("--plot is for a single WORKLOAD.")
        if plot is None and surface is not None:
            raise ConfigError("--surface says what --plot draws; give --plot FILE.png too.")
        found = describe_spaces(
            asked,
            plot=plot,
            surface=None if surface is None else pair_of(surface),
            store=store,
            **drawn,
        )
    text = description_text(found.summary, plot if found.undrawn is None else None)
    click.echo(json_text(found.summary) if as_json else fitted(text))
    if found.undrawn is not None:
        raise found.undrawn
    if found.interrupted:
        raise click.exceptions.Exit(fail("interrupted: this is of what was drawn so far.", 130))


def _experiment(function: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options of every command that runs an experiment."""
    for add in (
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object on standard output."
        ),
        click.option("--output", type=PLACE, help="Run folder; else runs/NAME."),
        click.option("--tracking-uri", help="MLflow; else what the kind of run has by itself."),
        click.argument("experiment"),
    ):
        function = add(function)
    return function


def _of_timeloop(function: Callable[..., None]) -> Callable[..., None]:
    """Adds Timeloop's files, whose machine and problem stand for the experiment's own."""

    @click.argument("files", nargs=-1, metavar="[FILE]...")
    @TIMELOOP
    @LENIENT
    @functools.wraps(function)
    def command(
        experiment: str,
        files: tuple[str, ...],
        timeloop: bool,
        lenient: bool,
        output: Place | None,
        **options: Any,
    ) -> None:
        check_timeloop(timeloop, lenient, files)
        if timeloop:
            from orchestrator.records.timeloop_experiment import experiment_of

            experiment, output = experiment_of(experiment, files, output, lenient=lenient)
        elif files:
            raise click.UsageError(f"Got unexpected extra argument ({files[0]})")
        function(experiment=experiment, output=output, **options)

    return command


def _with_limits(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what a call may take, which the function has as `limits`."""

    @click.option("--cores", type=int, help="Processors that are used at once; else all.")
    @click.option("--hours", type=float, help="Stop after so many, to go on later.")
    @click.option("--core-hours", type=float, help="Stop after so many hours x processors.")
    @functools.wraps(function)
    def limited(
        cores: int | None, hours: float | None, core_hours: float | None, **options: Any
    ) -> None:
        from orchestrator.runs.limits import Limits

        function(limits=Limits(cores, hours, core_hours), **options)

    return limited


def _run(command: str, experiment: str, *, as_json: bool, **options: Any) -> None:
    from orchestrator.runs.command import run_experiment

    # Standard output is the answer's alone.
    echo = functools.partial(click.echo, err=as_json)
    answer = run_experiment(experiment, command=command, echo=echo, **options)
    if as_json:
        click.echo(json_text(answer))


@cli.command()
@_experiment
@with_store
def generate(**options: Any) -> None:
    """Makes the data set of EXPERIMENT (a YAML file or a shipped one's name), on Ray tasks."""
    _run("generate", **options)


@cli.command()
@_experiment
@with_store
def train(**options: Any) -> None:
    """Trains the surrogate of EXPERIMENT (a YAML file or a shipped one's name), on Ray Train.

    A study of kind training-study is several trainings, and a report that compares them.
    """
    _run("train", **options)


@cli.command()
@_experiment
@_of_timeloop
@with_store
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Continue what lies in the run folder, or refuse it.",
)
@_with_limits
def benchmark(**options: Any) -> None:
    """Runs the comparison EXPERIMENT (a YAML file or a shipped one's name) on Ray Tune.

    The same command again continues an interrupted run, which is logged to MLflow in a SQLite file
    in the run folder, or where --tracking-uri says; not where MLflow is not installed. A study of
    kind marvel runs on Ray tasks and is logged only where --tracking-uri says so. A limit that is
    reached ends the call with 1 and a line that says what is missing.
    """
    _run("benchmark", **options)


@cli.command()
@_experiment
@_of_timeloop
@with_store
@_with_limits
def sweep(**options: Any) -> None:
    """Proves the best mapping of every accelerator x workload of EXPERIMENT, on Ray tasks.

    EXPERIMENT is a YAML file or a shipped one's name. The same command again continues an
    interrupted sweep, which is logged to MLflow as a benchmark is. A limit that is reached ends the
    call with 1 and a line that says what is missing.
    """
    _run("sweep", **options)


@cli.command()
@_experiment
@_of_timeloop
@with_store
@_with_limits
def design(**options: Any) -> None:
    """Proves the best machines of EXPERIMENT's grid without proving all of them, on Ray tasks.

    EXPERIMENT is a YAML file or a shipped one's name: a sweep's grid, workloads, limits and area.
    Bounds on whole boxes of machines settle most of them. The same command again continues an
    interrupted design. A limit that is reached ends the call with the best machine found so far,
    and how far it is above the best at most.
    """
    _run("design", **options)


@cli.command()
@click.argument("run", type=PLACE)
@click.option("--tracking-uri", help="MLflow that the page is added to; else the run folder's own.")
@click.option("--keep", type=PLACE, help="Also write a small copy of the results there.")
@click.option("--iohprofiler", type=PLACE, help="Also write the curves for IOHprofiler there.")
@click.option("--coco", type=PLACE, help="Also write the curves for COCO there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def report(
    run: Place,
    tracking_uri: str | None,
    keep: Place | None,
    as_json: bool,
    **formats: Place | None,
) -> None:
    """Draws the curves and tables of RUN, a benchmark's run folder or a folder of several.

    RUN can also be the run folder of a Marvel study. Prints the local page; where RUN is a URI, the
    page is also written there. A server that only the folder names is not contacted: name it. What
    --keep writes is again a folder that can be reported, of some ten kilobytes.
    """
    from orchestrator.runs.command import report as draw

    if keep is not None:
        from orchestrator.kept.results import keep as keep_results

        keep_results(run, keep)
    for name, folder in formats.items():
        if folder is not None:
            from orchestrator.comparison.curve_formats import write_curves
            from orchestrator.comparison.results_files import load

            write_curves(load(run), name, folder)
    page = str(draw(run, tracking_uri=tracking_uri))
    answer: ReportAnswer = {"page": page}
    click.echo(answer_text(answer) if as_json else page)


@cli.command()
@click.option("--output", type=PLACE, default=str(RUNS / "table1"), show_default=True)
@click.option("--quick", is_flag=True, help="Little data and small budgets: a test of the set-up.")
@with_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def run(output: Place, quick: bool, store: Store | None, as_json: bool) -> None:
    """The Mind Mappings experiment: data, surrogates, both benchmarks, report. Resumable."""
    from orchestrator.runs.kinds import LEARNING

    require(LEARNING)  # said now, not when the first data set is made
    from orchestrator.mind_mappings import main_job

    echo = functools.partial(click.echo, err=as_json)
    page, from_store = main_job(output, quick=quick, echo=echo, store=store)
    if as_json:
        answer: ReportAnswer = {"page": str(page)}
        click.echo(json_text({**answer, "from_store": from_store}))


@cli.command()
@click.argument("machine", nargs=-1, required=True, metavar="MACHINE | searcher NAME")
@click.option("--plot", type=PLACE, help="Also draw it, as a .png or .svg file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def describe(machine: tuple[str, ...], plot: Place | None, as_json: bool) -> None:
    """Prints an accelerator (levels, fan-outs, totals) or a searcher.

    MACHINE is a preset's name or a YAML file. `describe searcher NAME` prints a searcher's
    hyperparameters: meaning, default, presets and where they come from.
    """
    from costmodel.machines.accelerators import accelerator
    from costmodel.machines.machine_summary import summary, tree

    if len(machine) == 2 and machine[0] == "searcher":
        from orchestrator.catalogue import searcher_answer, searcher_text

        if plot is not None:
            raise click.UsageError("--plot is for a MACHINE.")
        name = machine[1]
        click.echo(answer_text(searcher_answer(name)) if as_json else searcher_text(name))
        return
    if len(machine) > 1:
        raise click.UsageError(f"Expected MACHINE or searcher NAME, got {' '.join(machine)}.")
    # In the text it stands beneath the machine.
    try:
        with nullcontext() if as_json else noticed_by(lambda _: None):
            found = accelerator(machine[0])
    except ConfigError as error:
        from searchers import SEARCHERS

        name = machine[0]
        if name == "searcher":
            raise click.UsageError(
                "Expected a name behind searcher; mapspace list searchers prints them."
            ) from error
        if name not in SEARCHERS:
            raise
        raise click.UsageError(
            f"{name} is a searcher: mapspace describe searcher {name}"
        ) from error
    if plot is not None:
        check_plot(plot, ".svg")
    click.echo(answer_text(summary(found)) if as_json else fitted(tree(found)))
    if plot is not None:
        from orchestrator.answers.machine_figure import draw

        with local_file(plot) as file:
            draw(found, file)


@cli.command()
def mcp() -> None:
    """Serves search, verify, evaluate, explain and more to an agent, by MCP on standard input.

    For a client's settings: command `mapspace`, arguments `mcp`. No port is opened, and tools read
    no file that a caller names.
    """
    from orchestrator.agent_tools import server

    server().run("stdio")


@cli.command("list")
@click.argument(
    "kind",
    required=False,
    metavar="[KIND]",
    type=OneOf(["searchers", "models", "accelerators", "workloads", "networks", "experiments"]),
)
@click.option("--long", is_flag=True, help="With the hyperparameters of every searcher.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def list_(kind: str | None, long: bool, as_json: bool) -> None:
    """Lists what there is, plug-ins of other packages too.

    KIND is searchers, models, accelerators, workloads, networks or experiments; without it, all.
    """
    from orchestrator.catalogue import catalogue, tables

    click.echo(json_text(tables(kind)) if as_json else catalogue(kind, long=long))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command; an error that was foreseen is one line on standard error.

    Exits with 0, with 2 for what the user has to correct, with 1 for other failures, with 3 for a
    certificate that the time did not suffice to prove again and with 130 after Ctrl-C (143 after
    SIGTERM, in a process of `orchestrator.__main__`, which minds both before anything is imported).
    """
    collect_less()
    # Before NumPy and Ray are imported: threads beyond the processes that we start slow them down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with noticed_by(lambda text: click.echo(f"warning: {text}", err=True)):
            status = cli.main(args=arguments, prog_name="mapspace", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        status = 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "mapspace"
        status = fail(f"{error.format_message()} See {where} --help.", 2)
    except click.ClickException as error:
        status = fail(error.format_message(), error.exit_code)
    except ConfigError as error:
        status = fail(error.as_option, 2)
    except UnwritableError as error:
        status = fail(f"{error.filename}: {error.strerror}{_continues(arguments)}.", 1)
    except MapspaceError as error:
        status = fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort) as error:
        # Click raises its own in place of the one that may say what goes on.
        said = str(error.__cause__ or error)
        status = fail(f"interrupted{f'; {said}' if said else _continues(arguments)}.", 130)
    except BrokenPipeError:
        # The reader of a pipe has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except ModuleNotFoundError as error:
        missing = what_is_missing(error)
        if missing is None:
            raise
        status = fail(missing, 2)
    except OSError as error:
        # A full disk above all. Arrow's own errors have the reason only in their number.
        where = f"{error.filename}: " if error.filename else ""
        reason = os.strerror(error.errno) if error.errno else str(error)
        status = fail(f"{where}{reason}{_continues(arguments)}.", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _continues(arguments: Sequence[str] | None) -> str:
    """What is said of a command that was cut off, where it can go on."""
    given = sys.argv[1:] if arguments is None else arguments
    named = next((word for word in given if not word.startswith("-")), "")
    return "; the same command continues what is resumable" if named in RESUMABLE else ""
