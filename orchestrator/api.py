"""What `import mapspace` offers beside cost models and searchers: the commands as functions.

Each returns a typed result. Text and JSON of it are made by the command line.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar, Unpack, overload

from costmodel.exact.certificate import Certificate, read_certificate
from costmodel.machines.accelerators import AcceleratorSource
from costmodel.networks.network import NetworkSource
from costmodel.problems.workloads import WorkloadSource
from mapspace.arguments import check, checked
from mapspace.errors import ArgumentError, ConfigError, together
from mapspace.extras import require
from mapspace.storage import Place, RemotePath, check_writable, place
from mapspace.strict_yaml import StrictModel, load_yaml, validate
from orchestrator.answers.explained import ExplainedOptimum
from orchestrator.answers.options import (
    NetworkOptions,
    ProofOptions,
    SearchOptions,
    asked,
    one_by_one,
)
from orchestrator.answers.request import Request
from orchestrator.answers.results import SearchResult
from orchestrator.imports.imported import ImportedNetwork
from orchestrator.proofs import certificates
from orchestrator.proofs import pareto as fronts
from orchestrator.runs.experiments import find_experiment
from orchestrator.runs.kinds import TASKS
from orchestrator.runs.locations import RUNS, local_file
from orchestrator.search import continuing, explaining, one_workload, widening
from orchestrator.store.choice import StoreChoice, chosen

if TYPE_CHECKING:
    from orchestrator.comparison.benchmark_result import BenchmarkResult
    from orchestrator.design.results import DesignResults
    from orchestrator.networks.optimum_result import NetworkOptimum
    from orchestrator.networks.resident_result import ResidentOptimum
    from orchestrator.networks.result import NetworkResult
    from orchestrator.networks.verify_file import AnyCertificate
    from orchestrator.sweep.results import SweepResults

Experiment = str | Path | Mapping[str, Any]
"""A shipped experiment's name, a YAML file or its URI, or the content of such a file."""
Config = TypeVar("Config", bound=StrictModel)


@one_by_one(SearchOptions)
def search(
    workload: WorkloadSource,
    accelerator: AcceleratorSource = "mm256",
    *,
    progress: bool = False,
    **options: Unpack[SearchOptions],
) -> SearchResult:
    """Finds a mapping: the proven best one where a proof is possible.

    An interruption (Ctrl-C, or that of a notebook) ends the search with the best mapping so far.

    Args:
        workload: a preset's name, a YAML file, inline text such as `gemm:M=384,N=4096,K=1024`, the
            content of a file, or a workload.
        accelerator: a preset's name, a YAML file, the content of one, or an accelerator.
        progress: whether progress is printed on standard error.
        options: by name:

            * searcher: a key of `SEARCHERS`; None: `exact` where it applies, else `structured`.
            * preset: a named set of the searcher's hyperparameters, such as `paper`.
            * parameters: hyperparameters of the searcher by name, beside those of the preset;
              `mapspace describe searcher NAME` lists them.
            * objective: what to minimise: `edp`, `energy`, `latency` or `ed2p`.
            * seconds: budget of search time, s; with no budget 60 for a proof, else 2.
            * iterations: budget of cost queries.
            * seed: decides a search under a budget of iterations.
            * surrogate: folder of a surrogate for the gradient searcher; None: a shipped one.
            * gap: a proof ends when the mapping is certainly within this share of the optimum.
            * top: how many of the best tilings a proof finds.
            * keep: tensors kept per level where the machine leaves that open.
            * pad: search larger sizes too, and take those that are better.
            * factors: `imperfect` lets loops have a shorter last pass; None: as the accelerator
              says.
            * counting: of such loops: `timeloop`, or `true`, every element by itself; None:
              likewise.
            * axes: `both` lets one dimension run along both axes of a mesh at once; None: likewise.
            * tiles: `apart` stores the tensors of a level at loops of their own; None: likewise.
            * link_transfers: whether neighbours hand words to each other; None: likewise.
            * constraints: what mappings must obey, entries as under `constraints` of an
              accelerator's file, beside those of the accelerator.
            * threads: 1: a proof and the search beside it take turns; None: each has a thread.
            * warm_start: begin from the winners that the store has of similar problems, with
              `annealing`, `genetic` or `model-guided`.
            * store: where answers are kept and looked for: a path or a URI; None: what
              MAPSPACE_STORE says, else the user's own, as on the command line; False: nowhere.

    Raises:
        ConfigError: an unknown name, a value that is not allowed, or no mapping is feasible.
        MapspaceError: no feasible mapping was found in the budget.
    """
    return one_workload.search(asked(workload, accelerator, options), _stream(progress))


@one_by_one(ProofOptions)
def prove(
    workload: WorkloadSource,
    accelerator: AcceleratorSource = "mm256",
    *,
    seconds: float = one_workload.PROOF_SECONDS,
    top: int = 1,
    progress: bool = False,
    **options: Unpack[ProofOptions],
) -> SearchResult:
    """Proves the best mapping, or gets as far as the time allows.

    Args:
        workload: as in `search`.
        accelerator: as in `search`.
        seconds: the most that the proof may take, s; `math.inf`: what it takes.
        top: as in `search`.
        progress: as in `search`.
        options: `objective`, `gap`, `keep`, `constraints`, `threads` and `store`, as in `search`.

    Returns:
        A result whose `proven` says whether the mapping is the best one, and whose `gap` how far
        it can be above that.

    Raises:
        ConfigError: as in `search`, or no proof is possible; the message says why.
        MapspaceError: no feasible mapping was found in the time.
    """
    request = asked(workload, accelerator, options)
    request = replace(request, searcher="exact", seconds=seconds, top=top)
    return one_workload.search(request, _stream(progress))


@checked
def continue_proof(
    certificate: SearchResult | Certificate | str | Path | Place,
    *,
    seconds: float = one_workload.PROOF_SECONDS,
    gap: float = 0.0,
    threads: int | None = None,
    progress: bool = False,
) -> SearchResult:
    """Goes on with an unfinished proof, from where its certificate says it was.

    Args:
        certificate: of an unfinished proof, its file or URI, or a result that has one.
        seconds: the most that the proof may take now, s.
        gap: as in `search`.
        threads: as in `search`.
        progress: as in `search`.

    Raises:
        ConfigError: the proof is finished, or the certificate contradicts itself.
    """
    if isinstance(certificate, SearchResult):
        if certificate.certificate is None:
            raise ConfigError(f"{certificate.heading()}: nothing is proven that could go on.")
        certificate = certificate.certificate
    if not isinstance(certificate, Certificate):
        with local_file(place(certificate), there=True) as file:
            certificate = read_certificate(file)
    request = Request(workload="", seconds=seconds, gap=gap, threads=threads)
    return one_workload.search(continuing.problem_of(certificate, request), _stream(progress))


@checked
def explain(
    result: SearchResult,
    *,
    seconds: float = one_workload.PROOF_SECONDS,
    progress: bool = False,
) -> ExplainedOptimum:
    """Explains a proven optimum by proving its neighbours.

    What more of every capacity, of instances next to each other and of every bandwidth would gain;
    what every constraint costs; and which decisions the mapping could not do without.

    Args:
        result: of `search` or `prove`, and proven.
        seconds: the most that it may take, s; each neighbour has a share.
        progress: as in `search`.

    Raises:
        ConfigError: nothing is proven of the result, or a wrong time.
    """
    return explaining.explain_result(result, seconds=seconds, stream=_stream(progress))


@checked
def widen(
    result: SearchResult,
    *,
    seconds: float = one_workload.PROOF_SECONDS,
    progress: bool = False,
    store: StoreChoice = None,
) -> widening.Widened:
    """Says what each rule that bounds the map space of a result costs: the best without it.

    Args:
        result: of `search` or `prove`.
        seconds: the most that the searches may take together, s.
        progress: whether progress is printed on standard error.
        store: where answers are read and kept, as in `search`.

    Raises:
        ConfigError: no such store.
    """
    stream = _stream(progress)
    return widening.widen(result, seconds=seconds, stream=stream, store=chosen(store))


@overload
def search_network(
    network: NetworkSource | ImportedNetwork,
    accelerator: AcceleratorSource = "mm256",
    *,
    jointly: Literal[False] = False,
    fused: Literal[False] = False,
    progress: bool = False,
    **options: Unpack[NetworkOptions],
) -> NetworkResult: ...


@overload
def search_network(
    network: NetworkSource | ImportedNetwork,
    accelerator: AcceleratorSource = "mm256",
    *,
    jointly: Literal[True],
    resident: Literal[False] = False,
    fused: Literal[False] = False,
    progress: bool = False,
    **options: Unpack[NetworkOptions],
) -> NetworkOptimum: ...


@overload
def search_network(
    network: NetworkSource | ImportedNetwork,
    accelerator: AcceleratorSource = "mm256",
    *,
    jointly: Literal[True],
    resident: Literal[True],
    fused: bool = False,
    progress: bool = False,
    **options: Unpack[NetworkOptions],
) -> ResidentOptimum: ...


@overload
def search_network(
    network: NetworkSource | ImportedNetwork,
    accelerator: AcceleratorSource = "mm256",
    *,
    jointly: bool = False,
    resident: bool = False,
    fused: Literal[True],
    progress: bool = False,
    **options: Unpack[NetworkOptions],
) -> ResidentOptimum: ...


@one_by_one(NetworkOptions)
def search_network(
    network: NetworkSource | ImportedNetwork,
    accelerator: AcceleratorSource = "mm256",
    *,
    jointly: bool = False,
    resident: bool = False,
    fused: bool = False,
    progress: bool = False,
    **options: Unpack[NetworkOptions],
) -> NetworkResult | NetworkOptimum | ResidentOptimum:
    """Searches every distinct layer of a network, and adds up what they cost.

    What is not proven within a few seconds goes to Ray, a layer per task.

    Args:
        network: a preset's name, a YAML file with layers, the content of one, or a network that
            was read by `from_onnx` or `from_torch`.
        accelerator: as in `search`.
        jointly: choose the mappings of all layers together, for the least objective of the network,
            and prove that; `gap` is then that of the network, and `max_cycles` (for
            the least energy) or `max_energy_pj` (for the fewest cycles) what it must be within.
        resident: with `jointly`: also choose which tensors stay on the chip between layers.
        fused: all of this, and which layers in a row run in passes together, as cascades.
        progress: as in `search`.
        options: as in `search`, each for every layer, but for `seconds`, which are those of the
            network (layers that get none are its `unfinished`), and without `top`, `pad`,
            `factors`, `counting`, `axes`, `tiles` and `link_transfers`.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
    """
    from orchestrator.networks.search import search_network as search_layers
    from orchestrator.networks.search_jointly import search_jointly
    from orchestrator.networks.search_resident import search_resident

    if isinstance(network, ImportedNetwork):
        network = network.content
    given = [name for name in ("max_cycles", "max_energy_pj") if options.get(name) is not None]
    jointly, resident = jointly or fused, resident or fused
    if given and not jointly:
        raise ArgumentError(given[0], ": a limit of the whole network; expected jointly=True.")
    if resident and not jointly:
        raise ArgumentError("resident", ": tensors stay on the chip with jointly=True.")
    if resident:
        request = replace(asked(network, accelerator, options), fused=fused)
        return search_resident(request, _stream(progress))
    if jointly:
        return search_jointly(asked(network, accelerator, options), _stream(progress))
    return search_layers(asked(network, accelerator, options), _stream(progress))


@checked
def verify(
    certificate: SearchResult
    | NetworkOptimum
    | ResidentOptimum
    | DesignResults
    | fronts.Front
    | AnyCertificate
    | str
    | Path
    | Place,
    *,
    independent: bool = False,
    seconds: float | None = None,
) -> certificates.Verification:
    """Proves again what a certificate claims.

    Args:
        certificate: a certificate, its file or URI, a result that has one, or a front.
        independent: also look without the prover: at every mapping of a small space, else at the
            certificate's own and at a sample.
        seconds: the most that it may take; `complete` says whether it sufficed. None: however long
            it takes.

    Raises:
        ConfigError: there is no certificate, or its problem cannot be treated here.
    """
    from orchestrator.design.results import DesignResults
    from orchestrator.networks.optimum_result import NetworkOptimum
    from orchestrator.networks.resident_result import ResidentOptimum
    from orchestrator.networks.verify_file import verify_any, verify_any_file
    from orchestrator.proofs.verify_front import verify_front

    if isinstance(certificate, fronts.Front):
        return verify_front(certificate, independent=independent, seconds=seconds)
    if isinstance(certificate, SearchResult | NetworkOptimum | ResidentOptimum | DesignResults):
        if certificate.certificate is None:
            raise ConfigError(f"{certificate.heading()}: nothing is proven, so there is no proof.")
        return verify_any(certificate.certificate, independent=independent, seconds=seconds)
    if not isinstance(certificate, str | Path | RemotePath):
        return verify_any(certificate, independent=independent, seconds=seconds)
    with local_file(place(certificate), there=True) as file:
        return verify_any_file(file, independent=independent, seconds=seconds)


@checked
def pareto(
    workload: WorkloadSource,
    accelerator: AcceleratorSource = "mm256",
    *,
    seconds: float | None = None,
    store: StoreChoice = None,
    progress: bool = False,
) -> fronts.Front:
    """Proves the energy-latency front: every mapping that no other beats in both.

    Args:
        workload: as in `search`.
        accelerator: as in `search`.
        seconds: end with what is known of it then; None: however long it takes.
        store: as in `search`.
        progress: as in `search`.

    Raises:
        ConfigError: an unknown name, or a machine whose front cannot be proven.
        DataError: no mapping was found in time.
    """
    stream = _stream(progress)
    return fronts.front(workload, accelerator, stream, seconds=seconds, store=chosen(store))


@checked
def sweep(
    experiment: Experiment,
    output: str | Path | Place | None = None,
    *,
    store: StoreChoice = None,
    hours: float | None = None,
) -> SweepResults:
    """Proves the best mapping of every accelerator and workload of a sweep, on Ray tasks.

    Args:
        experiment: a shipped sweep's name, a YAML file or its URI, or the content of such a file.
        output: the run folder, a path or a URI; None: `runs/NAME`. What it holds of the same sweep
            is not proven again.
        store: where proofs that were made before are read, and new ones kept; as in `search`.
        hours: end after so many; the same call goes on. None: when all is proven.

    Raises:
        LimitReachedError: points are missing after `hours`; the run folder keeps the others.
        ConfigError: the experiment is wrong, or the folder holds something else, or another run
            writes to it.
    """
    require(TASKS)
    from orchestrator.runs.limits import Limits
    from orchestrator.sweep.config import Sweep
    from orchestrator.sweep.plan import prepare_sweep
    from orchestrator.sweep.run import sweep as run_sweep

    config, where, folder = _read(Sweep, experiment, output)
    limits = Limits(hours=hours)
    with limits.preparing():
        plan = prepare_sweep(config, where)
    return run_sweep(plan, folder, store=chosen(store), limits=limits)


@checked
def design(
    experiment: Experiment,
    output: str | Path | Place | None = None,
    *,
    store: StoreChoice = None,
    hours: float | None = None,
) -> DesignResults:
    """Proves the best machines of a grid without proving all of them, on Ray tasks.

    Args:
        experiment: a shipped design's name, a YAML file or its URI, or the content of such a file.
        output: the run folder, a path or a URI; None: `runs/NAME`. What it holds of the same design
            is not proven again.
        store: where proofs that were made before are read, and new ones kept; as in `search`.
        hours: end after so many with what is known; the same call goes on. None: when all is.

    Raises:
        LimitReachedError: no machine was found within `hours`.
        ConfigError: the experiment is wrong, no machine is within the limits, or the folder holds
            something else, or another run writes to it.
    """
    require(TASKS)
    from orchestrator.design.config import Design
    from orchestrator.design.plan import prepare_design
    from orchestrator.design.run import design as run_design
    from orchestrator.runs.limits import Limits

    config, where, folder = _read(Design, experiment, output)
    limits = Limits(hours=hours)
    with limits.preparing():
        plan = prepare_design(config, where)
    return run_design(plan, folder, store=chosen(store), limits=limits)


@checked
def benchmark(
    experiment: Experiment,
    output: str | Path | Place | None = None,
    *,
    store: StoreChoice = None,
    progress: bool = False,
) -> BenchmarkResult:
    """Compares searchers on workloads under equal budgets, on Ray Tune.

    Args:
        experiment: a shipped benchmark's name, a YAML file or its URI, or the content of such a
            file.
        output: the run folder, a path or a URI; None: `runs/NAME`. A run that was begun there goes
            on, and a finished one is read.
        store: where searches that were made before are read, and new ones kept; as in `search`.
        progress: whether progress is printed on standard error.

    Raises:
        ConfigError: the experiment is wrong, or the folder holds something else, or another run
            writes to it.
        MapspaceError: searches failed.
    """
    require(TASKS)
    from orchestrator.benchmark.config import Benchmark, prepare
    from orchestrator.benchmark.run import run_benchmark
    from orchestrator.comparison.benchmark_result import BenchmarkResult

    config, where, folder = _read(Benchmark, experiment, output)
    stream = _stream(progress)

    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    plan = prepare(config, where)
    results = run_benchmark(plan, folder, progress=say, store=chosen(store))
    return BenchmarkResult(results, folder)


@checked
def evaluate(
    records: SearchResult | str | Path | Place | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    model: str = "loopnest",
    *,
    link_transfers: bool | None = None,
    counting: Literal["timeloop", "true"] | None = None,
    simulator: str | Path | None = None,
    store: StoreChoice = None,
) -> list[dict[str, Any]]:
    """Scores mapping records.

    Args:
        records: a mapping record or several, a result whose mapping is scored, or a file of
            records or its URI: JSON lines, plain or `.gz`.
        model: a cost model's name, see `mapspace list models`.
        link_transfers: whether neighbours below a level hand words to each other, as Timeloop has
            it unless told otherwise; None: as records say; of `loopnest`.
        counting: of remainders: `timeloop`, or `true`, every element by itself; None: as records
            say, which is by Timeloop unless they say otherwise; of `loopnest`.
        simulator: the file that says how a simulator is called; of `command`.
        store: where results of a simulator are read and kept, as in `search`.

    Returns:
        The records in order, each with its `result`; where a mapping is infeasible,
        `result["status"]` says why.

    Raises:
        ConfigError: an unknown model, or a record that cannot be read.
        DataError: the file is damaged.
    """
    from orchestrator.records.evaluate_records import scored, scorer

    options: dict[str, Any] = {
        "link_transfers": link_transfers,
        "counting": counting,
        "simulator": simulator,
        "store": chosen(store),
    }
    if isinstance(records, str | Path | RemotePath):
        with local_file(place(records), there=True) as file:
            return [record for chunk in scored(model, file, **options) for record in chunk]
    if isinstance(records, SearchResult):
        records = records.record
    listed = [records] if isinstance(records, Mapping) else list(records)
    for record in listed:  # what an iterator gives is seen here only
        check("records", record, Mapping[str, Any])
    return scorer(model, **options)([dict(record) for record in listed])


def _read(
    kind: type[Config], experiment: Experiment, output: str | Path | Place | None
) -> tuple[Config, str, Place]:
    """An experiment of a kind, what messages call it, and its run folder, which can be written."""

    def read() -> tuple[Config, str]:
        if isinstance(experiment, Mapping):
            return validate(kind, experiment, "experiment"), "experiment"
        path = find_experiment(str(experiment))
        return validate(kind, load_yaml(path), str(path)), str(path)

    (config, where), _ = together(
        read, lambda: None if output is None else check_writable(place(output))
    )
    folder = place(output or RUNS / str(config.name))
    check_writable(folder)
    return config, where, folder


def _stream(progress: bool) -> TextIO:
    return sys.stderr if progress else io.StringIO()
