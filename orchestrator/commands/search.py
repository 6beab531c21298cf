"""`mapspace search`: one workload, every layer of a network, every line of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from costmodel.costs import OBJECTIVES
from mapspace.errors import ConfigError, MapspaceError, noted, refuse, together
from orchestrator.commands.options import (
    AXES,
    BITS,
    COUNTING,
    HTML,
    LENIENT,
    LINKS,
    PLACE,
    TILES,
    TIMELOOP,
    OnceEach,
    OneOf,
    check_certificate_output,
    check_network_certificate_output,
    check_page,
    check_records_output,
    check_timeloop,
    fail,
    pair_of,
    share_of,
    tensors_by_level,
    with_hyperparameters,
    with_store,
)
from orchestrator.commands.search_lines import search_lines, search_timeloop
from orchestrator.commands.search_networks import search_layers, search_whole
from orchestrator.commands.search_scalesim import check_scalesim, search_scalesim
from orchestrator.report.text_table import fitted
from orchestrator.runs.locations import local_file
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.answers.request import Request
    from orchestrator.answers.results import SearchResult
    from orchestrator.explain.why_not import WhyNot
    from orchestrator.search.widening import Widened


_OF_SIMULATOR = ("simulator", "events", "query_seconds")


@dataclass(frozen=True)
class _Asked:
    """Where the problems of a search stand: one of these, each an argument or an option."""

    workload: tuple[str, ...]
    network: str | None
    jointly: bool
    resident: bool
    problems: Place | None
    continued: Place | None
    timeloop: bool
    lenient: bool
    scalesim: bool

    @property
    def name(self) -> str:
        """The workload's or the network's name; empty where a file says it."""
        return self.network or (self.workload or ("",))[0]

    @property
    def single(self) -> bool:
        """Whether it is one workload, of its name or of a certificate."""
        given = (self.timeloop, self.scalesim, self.network is not None, self.problems is not None)
        return not any(given)

    def check(self) -> None:
        """Refuses none and several.

        Raises:
            UsageError: what is expected.
        """
        workload, network, problems = self.workload, self.network, self.problems
        check_timeloop(self.timeloop, self.lenient, workload)
        if self.scalesim:
            check_scalesim(workload)
            return
        given = [name for name in (*workload, network, problems) if name is not None]
        if self.continued is not None and not self.single:
            raise click.UsageError("Expected --continue alone or with a WORKLOAD.")
        if not given and self.continued is None:
            raise click.UsageError("Missing argument 'WORKLOAD' (or --network), or --problems.")
        if problems is not None and len(given) > 1:
            raise click.UsageError("Expected --problems alone, without WORKLOAD or --network.")
        if len(workload) > 1 and not self.timeloop:
            raise click.UsageError(f"Got unexpected extra argument ({workload[1]})")
        if workload and network is not None:
            raise click.UsageError("Expected either WORKLOAD or --network, got both.")
        if self.jointly and network is None:
            raise click.UsageError("--jointly is for --network.")
        if self.resident and not self.jointly:
            raise click.UsageError("--resident is for --network --jointly.")

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuses options that are for other problems than these.

        Raises:
            UsageError: what they are for.
        """
        here = {
            "max_cycles": (self.jointly, "--network --jointly"),
            "max_energy_pj": (self.jointly, "--network --jointly"),
            "workers": (self.single, "a single WORKLOAD"),
            "islands": (self.single and self.continued is None, "a single WORKLOAD"),
            "why_not": (self.single, "a single WORKLOAD"),
            "widen": (self.single and self.continued is None, "a single WORKLOAD"),
            "bits": (
                self.continued is None
                and not (self.resident or self.timeloop or self.problems is not None),
                "a WORKLOAD, or --network without --resident",
            ),
            "warm_start": (self.single and self.continued is None, "a single WORKLOAD"),
            "html": (self.single or self.jointly, "a single WORKLOAD, or --network --jointly"),
            "fused": (self.network is not None, "--network"),
            "moves": (self.network is not None, "--network"),
        }
        for name, (fits, what) in here.items():
            if given[name] not in (None, False) and not fits:
                raise click.UsageError(f"--{name.replace('_', '-')} is for {what}.")


@click.command(cls=OnceEach)
@click.argument("workload", required=False, nargs=-1)
@click.option("--network", help="Every layer of a network, a preset or YAML file, and the totals.")
@click.option(
    "--jointly", is_flag=True, help="Choose all layers' mappings for the network's own optimum."
)
@click.option(
    "--resident", is_flag=True, help="Of --jointly: choose what stays on the chip between layers."
)
@click.option("--fused", is_flag=True, help="Of --network: also run layers in a row as cascades.")
@click.option(
    "--moves", is_flag=True, help="Of --network: count softmax and all that only moves words."
)
@click.option("--max-cycles", type=int, help="Of --jointly: the most cycles of the least energy.")
@click.option(
    "--max-energy-pj", type=float, help="Of --jointly: the most energy, pJ, of the fewest cycles."
)
@TIMELOOP
@LENIENT
@click.option(
    "--scalesim",
    is_flag=True,
    help="The arguments are SCALE-Sim's files (.cfg, .csv): cycles of its three dataflows.",
)
@click.option(
    "--prove", is_flag=True, help="Of --scalesim: prove the fastest mapping of every layer, too."
)
@click.option(
    "--problems",
    type=PLACE,
    metavar="FILE.jsonl",
    help="Every line's problem on its own machine: arch, problem and perhaps constraints.",
)
@click.option("--accelerator", default="mm256", show_default=True, help="Preset or YAML file.")
@click.option("--searcher", help="The method; else exact where it applies.")
@with_hyperparameters
@click.option("--seconds", type=float, help="Budget of search time; else 60 (proof) or 2.")
@click.option("--iterations", type=int, help="Budget of cost queries.")
@click.option(
    "--objective",
    type=OneOf(OBJECTIVES, case_sensitive=False),
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
    type=OneOf(("perfect", "imperfect")),
    help="Whether loops may have a shorter last pass; else as the machine says.",
)
@AXES
@LINKS
@TILES
@click.option(
    "--continue",
    "continued",
    type=PLACE,
    metavar="CERTIFICATE",
    help="Go on with the unfinished proof of a certificate, which says the problem.",
)
@click.option("--explain", is_flag=True, help="Prove what holds a proven optimum up.")
@click.option(
    "--why-not",
    "why_not",
    type=PLACE,
    metavar="RECORD",
    help="Say how far a mapping of your own is from the best, and which decision loses most.",
)
@click.option(
    "--widen",
    is_flag=True,
    help="Say what each rule of the map space costs, such as perfect factors.",
)
@COUNTING
@BITS
@click.option(
    "--simulator",
    metavar="FILE.yaml|MODULE:NAME",
    help="Search with your own simulator instead of the model (docs/own-model.md).",
)
@click.option("--islands", type=int, help="So many searches side by side that exchange their best.")
@click.option(
    "--workers",
    type=int,
    help="Side by side, on Ray: pieces of a proof, islands, or evaluators of --simulator.",
)
@click.option(
    "--warm-start",
    is_flag=True,
    default=None,
    help="Begin from the winners that the store has of similar problems.",
)
@click.option("--events", type=PLACE, help="Of --simulator: the log that a search goes on from.")
@click.option("--query-seconds", type=float, help="Of --simulator: the most that a query may take.")
@click.option("--pad", is_flag=True, help="Pad sizes with awkward factors where that is better.")
@click.option(
    "--output",
    type=PLACE,
    help="Also write the mapping record (one per layer, line or tiling of --top), and beside it "
    "the certificate.",
)
@with_store
@HTML
@click.option(
    "--slice",
    "slices",
    multiple=True,
    metavar="A,B",
    help="Of --html: two attributes to draw the map space over, such as K,order.L2.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def search(
    gap: str,
    keep: tuple[str, ...],
    why_not: Place | None,
    output: Place | None,
    page: Place | None,
    slices: tuple[str, ...],
    prove: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Finds a mapping of WORKLOAD now: the proven best one where a proof is possible.

    WORKLOAD is a preset's name, a YAML file, or inline such as gemm:M=384,N=4096,K=1024. Ctrl-C
    prints the best mapping so far and how far from the optimum it can be. With --network in place
    of WORKLOAD every distinct layer of a network is searched, with --problems every line of a file;
    budgets are then for each of them, but for the --seconds of a network,
    which are those of all its layers.
    """
    from orchestrator.answers.request import Request
    from orchestrator.answers.result_text import search_text
    from orchestrator.search.one_workload import search as run_search

    asked = _Asked(**{field.name: options.pop(field.name) for field in fields(_Asked)})
    widen = bool(options.pop("widen"))
    asked.check()
    if options["fused"]:
        asked = replace(asked, jointly=True, resident=True)
    if asked.scalesim:
        search_scalesim(
            asked.workload, as_json, prove=prove, seconds=options["seconds"], output=output
        )
        return
    if prove:
        raise click.UsageError("--prove is for --scalesim; without it a proof is tried anyway.")
    asked.check_options({**options, "why_not": why_not, "widen": widen, "html": page})
    options["warm_start"] = bool(options["warm_start"])
    simulated = {name: options.pop(name) for name in _OF_SIMULATOR}
    workers = options.pop("workers")
    if simulated["simulator"] is not None:
        simulated["workers"] = workers
        of_model = {"gap": gap != "0", "keep": keep, "why-not": why_not, "widen": widen}
        of_model["html"] = page or slices
        request = Request(asked.name, **options)
        _search_simulated(request, asked, simulated, of_model, output, as_json)
        return
    for name, given in simulated.items():
        if given is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --simulator.")
    options["workers"] = workers
    wrong: list[ConfigError] = []
    options["gap"] = noted(wrong, lambda: share_of(gap), 0.0)
    options["keep"] = noted(wrong, lambda: tensors_by_level(keep), None)
    pairs, own, *_ = together(
        lambda: _pairs(slices, asked, page, options["accelerator"]),
        lambda: None if why_not is None else _own_mapping(why_not),
        lambda: check_page(page),
        lambda: _check_output(output, asked),
        lambda: _check_request(asked, options),
        lambda: refuse(wrong),
    )
    request = Request(asked.name, **options)
    if not asked.single:
        _search_several(request, asked, output, page, as_json=as_json)
        return
    if asked.continued is not None:
        request = _continued(request, asked.continued)
    if own is not None:
        _check_own(request, own)
    result = run_search(request)
    further = [*_further(result, own, request, widen=widen)]
    if as_json:
        answer = dict(result.to_dict())
        for one in further:
            answer |= one.to_dict()
        click.echo(json_text(answer))
    else:
        click.echo(fitted("\n\n".join([search_text(result), *(one.text() for one in further)])))
    # The answer first: nothing that cannot be written takes it away.
    if output is not None:
        result.save(output)
    if page is not None:
        _write_page(page, result, further, pairs)
    if result.interrupted or any(one.interrupted for one in further):
        raise click.exceptions.Exit(fail("interrupted: this is the best so far.", 130))
    if result.failure is not None:
        raise MapspaceError(f"The search stopped early, with the best so far: {result.failure}")


def _search_several(
    request: Request, asked: _Asked, output: Place | None, page: Place | None, *, as_json: bool
) -> None:
    """A search of a file's problems, of Timeloop's files or of a network."""
    if asked.problems is not None:
        search_lines(request, asked.problems, output, as_json)
    elif asked.timeloop:
        search_timeloop(request, asked.workload, asked.lenient, output, as_json)
    elif asked.jointly:
        search_whole(request, output, page, resident=asked.resident, as_json=as_json)
    else:
        search_layers(request, output, as_json)


def _search_simulated(
    request: Request,
    asked: _Asked,
    simulated: dict[str, Any],
    of_model: dict[str, Any],
    output: Place | None,
    as_json: bool,
) -> None:
    """A search with a simulator of one's own; refuses what is given of the options `of_model`."""
    from pathlib import Path

    from orchestrator.records.found_mapping import save_records
    from orchestrator.search.own_simulator import OwnSearch
    from orchestrator.search.own_simulator import search as search_simulated

    if not asked.single or asked.continued is not None:
        raise click.UsageError("--simulator is for a single WORKLOAD.")
    names = ("pad", "explain", "surrogate", "islands", "warm_start")
    further = {name.replace("_", "-"): getattr(request, name) for name in names}
    for name, given in {**of_model, **further, "top": request.top > 1}.items():
        if given:
            raise click.UsageError(f"--{name} is for the model, not for --simulator.")
    events = simulated["events"]
    if events is not None and not isinstance(events, Path):
        raise ConfigError(f"--events: expected a path, got {events}.")
    if output is not None:
        check_records_output(output)
    query_seconds = simulated["query_seconds"]
    if query_seconds is not None and not query_seconds > 0:
        raise ConfigError(f"--query-seconds: expected more than 0, got {query_seconds:g}.")
    workers = 1 if simulated["workers"] is None else simulated["workers"]
    result = search_simulated(
        request, OwnSearch(simulated["simulator"], workers, events, query_seconds)
    )
    click.echo(json_text(result.to_dict()) if as_json else fitted(result.text()))
    if output is not None:
        save_records([result.record], output)


def _check_output(output: Place | None, asked: _Asked) -> None:
    """Refuses a place where records, or the certificate beside them, cannot be written."""
    if output is None:
        return
    check_records_output(output)
    beside = output.with_suffix(".certificate.json")
    if asked.jointly:
        check_network_certificate_output(beside)
    elif asked.network is None:
        check_certificate_output(beside)


def _check_request(asked: _Asked, options: Mapping[str, Any]) -> None:
    """Refuses a search that is none; those of several problems look at them first."""
    from orchestrator.answers.request import Request
    from orchestrator.search.one_workload import asked_of

    request = Request(asked.name, **options)
    if asked.single and asked.continued is None:
        asked_of(request, *together(lambda: request.operation, lambda: request.device))


def _own_mapping(file: Place) -> dict[str, Any]:
    """The first record of a file, read before the search spends any time."""
    from orchestrator.records.evaluate_records import numbered_record

    with local_file(file, there=True) as path:
        return numbered_record(path, None)


def _check_own(request: Request, own: dict[str, Any]) -> None:
    from orchestrator.explain.why_not import check_own

    check_own(request, own)


def _further(
    result: SearchResult, own: dict[str, Any] | None, request: Request, *, widen: bool
) -> Iterator[WhyNot | Widened]:
    """What is asked beside the search; each may take as long again.

    Args:
        result: of the search; of one that was interrupted there is no more.
        own: a mapping of which is said what keeps it from the optimum; None: there is none.
        request: the search's.
        widen: whether what each rule of the map space costs is asked.
    """
    from orchestrator.explain.why_not import explain_why_not
    from orchestrator.search.one_workload import PROOF_SECONDS
    from orchestrator.search.widening import widen as widened

    seconds = request.seconds or PROOF_SECONDS
    if own is not None and not result.interrupted:
        yield explain_why_not(result, own, seconds=seconds)
    if widen and not result.interrupted:
        yield widened(result, seconds=seconds, store=request.store)


def _pairs(
    slices: Sequence[str], asked: _Asked, page: Place | None, machine: str
) -> list[tuple[str, str]]:
    """The attributes of --slice; refuses what is none before anything is searched."""
    pairs = [pair_of(text, "slice") for text in slices]
    if pairs and (page is None or not asked.single):
        raise click.UsageError("--slice is for --html of a single WORKLOAD.")
    if pairs and asked.continued is None:
        from costmodel import MapSpace, accelerator, workload
        from orchestrator.map_space.surface import check_attributes

        space = MapSpace(workload(asked.name), accelerator(machine))
        for pair in pairs:
            check_attributes(space, pair, "slice")
    return pairs


def _write_page(
    page: Place,
    result: SearchResult,
    further: Sequence[WhyNot | Widened],
    slices: Sequence[tuple[str, str]],
) -> None:
    from orchestrator.answers.mapping_page import facts_section, save_document, search_document

    sections = [facts_section(one.heading(), one.facts()) for one in further]
    with local_file(page) as file:
        save_document(search_document(result, sections, slices), file)


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
        for name in (
            "accelerator",
            "objective",
            "keep",
            "factors",
            "axes",
            "tiles",
            "link_transfers",
        ):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                said = name.replace("_", "-")
                raise ConfigError(f"--{said}: the certificate says it; give WORKLOAD to compare.")
    return problem_of(certificate, request)
