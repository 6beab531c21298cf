"""What `mapspace mcp` offers to an agent: the commands as typed tools of a server.

The server speaks the Model Context Protocol on standard input and output, and nothing else: no
port is opened. Tools take names, inline text and contents; they read no file that a caller names,
and write none.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field, ValidationError

from costmodel.costs import Objective
from mapspace.errors import ArgumentError, ConfigError, MapspaceError
from mapspace.near_names import meant
from mapspace.strict_yaml import shown, validate
from mapspace.version import __version__
from orchestrator.answers import options
from orchestrator.answers.options import SearchOptions, one_by_one
from orchestrator.schemas.explained import DiffAnswer, ExplainAnswer, WhyNotAnswer, WidenAnswer
from orchestrator.schemas.json_text import finite
from orchestrator.schemas.proofs import ParetoAnswer, VerifyAnswer
from orchestrator.schemas.published import schema
from orchestrator.schemas.runs import ListAnswer, RecordsAnswer, RowsAnswer, SweepAnswer
from orchestrator.schemas.search import SearchAnswer

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.tools import Tool

Json = dict[str, Any]
Source = Annotated[
    str | Json, Field(description="A preset's name, inline text such as gemm:M=64,N=64,K=64, or "
                      "the content of a file as an object.")
]  # fmt: skip
Machine = Annotated[
    str | Json, Field(description="A preset's name such as eyeriss, or a machine as an object.")
]
Record = Annotated[Json, Field(description="A mapping record; `search` returns one.")]
LONGEST = 600.0
"""The most that a call may take, s."""
Seconds = Annotated[float, Field(gt=0, le=LONGEST, description="The most that it may take, s.")]

_INSTRUCTIONS = """Finds and proves the best mappings of tensor operations (CNN layers, matrix
products, attention, MTTKRP) on spatial accelerators. Energies are pJ, latencies cycles, EDP pJ x
cycles. `search` proves where a proof is possible: `proven` says so, `gap` how far a mapping can be
above the optimum. `list_presets` names operations, machines and methods."""


def list_presets(
    kind: Literal["workloads", "accelerators", "networks", "searchers", "models", "experiments"],
) -> ListAnswer:
    """Names of what there is, with a sentence each."""
    from orchestrator.catalogue import tables

    return tables(kind)


# Of a machine or its folders; an agent says how long, not how many at a time.
_NOT_OFFERED = ("seconds", "store", "surrogate", "threads", "workers")


@one_by_one(SearchOptions, _NOT_OFFERED)
def search(
    workload: Source,
    accelerator: Machine = "mm256",
    seconds: Seconds | None = None,
    **others: Any,
) -> SearchAnswer:
    """Finds a mapping, the proven best one where a proof is possible, with its certificate.

    With no budget a proof takes 60 seconds at most, another search 2; `iterations` and `seed` make
    a search repeatable.
    """
    from orchestrator.api import search as run

    if seconds is None and others.get("iterations") is not None:
        seconds = LONGEST
    result = run(_content(workload), _content(accelerator), seconds=seconds, **others)
    proven = result.certificate
    answer = result.to_dict()
    answer["nest"] = str(result.mapping)
    answer["certificate"] = None if proven is None else proven.model_dump(mode="json")
    return answer


def verify(certificate: Json, seconds: Seconds = 60.0, independent: bool = False) -> VerifyAnswer:
    """Proves again what a certificate of `search` claims."""
    from costmodel.exact.certificate import Certificate
    from orchestrator.api import verify as run

    claimed = validate(Certificate, certificate, "certificate")
    return run(claimed, seconds=seconds, independent=independent).to_dict()


def evaluate(
    records: Annotated[Sequence[Json], Field(max_length=10_000)],
    model: Literal["loopnest", "maestro", "maestro-corrected"] = "loopnest",
) -> RecordsAnswer:
    """Scores mapping records: energy, cycles, counts by level and tensor under `result`."""
    from orchestrator.api import evaluate as run

    return {"records": run([_record(record) for record in records], model=model)}


def explain_mapping(record: Record, objective: Objective = "edp") -> ExplainAnswer:
    """Where a mapping's costs come from, what binds, and the best mapping one move away."""
    from orchestrator.explain.functions import explain_mapping as run

    return run(_record(record), objective=objective).to_dict()


def diff(first: Record, second: Record) -> DiffAnswer:
    """In which decisions two mappings of one operation differ, and what that costs."""
    from orchestrator.explain.functions import diff as run

    return run(_record(first), _record(second)).to_dict()


def why_not(
    record: Record,
    workload: Source,
    accelerator: Machine = "mm256",
    objective: Objective = "edp",
    seconds: Seconds = 60.0,
) -> WhyNotAnswer:
    """How far a mapping is from the optimum, and what each of its decisions costs by itself."""
    from orchestrator.answers.request import Request
    from orchestrator.api import search as run
    from orchestrator.explain.functions import why_not as explain
    from orchestrator.explain.why_not import check_own

    own = _record(record)
    check_own(Request(_content(workload), _content(accelerator)), own)
    result = run(_content(workload), _content(accelerator), objective=objective, seconds=seconds)
    return explain(result, own, seconds=seconds).to_dict()


def widen(
    workload: Source,
    accelerator: Machine = "mm256",
    objective: Objective = "edp",
    seconds: Seconds = 60.0,
) -> WidenAnswer:
    """What each rule of the map space costs on a problem: the best mapping without it."""
    from orchestrator.api import search as run
    from orchestrator.api import widen as widened

    result = run(_content(workload), _content(accelerator), objective=objective, seconds=seconds)
    return widened(result, seconds=seconds).to_dict()


def pareto(
    workload: Source, accelerator: Machine = "mm256", seconds: Seconds = 60.0
) -> ParetoAnswer:
    """The proven energy-latency front: every mapping that no other beats in both."""
    from orchestrator.api import pareto as run

    return run(_content(workload), _content(accelerator), seconds=seconds).to_dict()


def sweep(experiment: Json, seconds: Seconds = 60.0) -> SweepAnswer:
    """Proves the best mapping of every machine of a grid x workload (content of a sweep's file).

    What is proven when the time is over is in the store: the same call goes on.
    """
    from orchestrator.runs.limits import Limits
    from orchestrator.store.choice import chosen
    from orchestrator.sweep.config import Sweep
    from orchestrator.sweep.plan import prepare_sweep
    from orchestrator.sweep.run import SweepExperiment

    _no_files(experiment)
    asked = validate(Sweep, experiment, "experiment")
    # The time is looked at after each task, so that a task is one proof.
    each = min(seconds, asked.seconds_per_point)
    asked = asked.model_copy(update={"points_per_task": 1, "seconds_per_point": each})
    limits = Limits(hours=seconds / 3600)
    with limits.preparing():
        plan = prepare_sweep(asked, "experiment")
    run = SweepExperiment(plan, store=chosen(None), limits=limits)
    with tempfile.TemporaryDirectory() as folder:
        found = run.run(Path(folder) / "sweep")
        points, machines = (
            json.loads(table.to_json(orient="records"))
            for table in (found.points, found.architectures)
        )
        return {"points": points, "machines": machines}


def results(sql: str) -> RowsAnswer:
    """Asks the store one SELECT over its views results, searches and proofs, in DuckDB's SQL."""
    from orchestrator.store.choice import chosen
    from orchestrator.store.sql import Database

    store = chosen(None)
    if store is None:
        raise ConfigError("results: there is no store (MAPSPACE_STORE is off).")
    return {"rows": Database(store).ask(sql).objects()}


TOOLS: Mapping[str, Callable[..., Any]] = {
    "list": list_presets,
    "search": search,
    "verify": verify,
    "evaluate-records": evaluate,
    "explain": explain_mapping,
    "diff": diff,
    "why-not": why_not,
    "widen": widen,
    "pareto": pareto,
    "sweep-tables": sweep,
    "results-rows": results,
}
"""By the name of the schema of what each answers."""


def server() -> MCPServer[None]:
    """The server with its tools."""
    from mcp.server import MCPServer

    return MCPServer(
        "mapspace",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="ERROR",
        tools=[_tool(name, function) for name, function in TOOLS.items()],
    )


def _tool(name: str, function: Callable[..., Any]) -> Tool:
    """A tool whose answers have a published schema, and whose errors come as their one line."""
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool

    class Strict(Tool):
        """Refuses arguments that it does not have; says in one line what is wrong with others."""

        async def run(self, arguments: Json, *others: Any, **named: Any) -> Any:
            known = list(self.parameters["properties"])
            for key in arguments:
                if key not in known:
                    hint = meant(key, known)
                    raise ToolError(f"{key}: unknown{hint} Known: {', '.join(known)}.")
            try:
                return await super().run(arguments, *others, **named)
            except ToolError as error:
                if not isinstance(error.__cause__, ValidationError):
                    raise
            try:
                validate(self.fn_metadata.arg_model, arguments, "")
            except ConfigError as wrong:
                raise ToolError(str(wrong)) from None
            raise ToolError(f"{self.name}: expected arguments as its schema has them.")

    @functools.wraps(function)
    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return finite(function(*arguments, **options))
        except MapspaceError as error:
            raise ToolError(" ".join(str(error).split())) from None

    # As for any dictionary: the schema below is what says more.
    told.__annotations__ = {**function.__annotations__, "return": "Json"}
    told.__signature__ = _evaluated(function)  # type: ignore[attr-defined]
    made = Strict.from_function(told, description=function.__doc__)
    made.parameters["additionalProperties"] = False
    made.fn_metadata.output_schema = schema(name)
    return made


def _evaluated(function: Callable[..., Any]) -> inspect.Signature:
    """A tool's signature, with types in place of their names."""
    plain = inspect.signature(function).parameters
    named = SimpleNamespace(__annotations__={name: one.annotation for name, one in plain.items()})
    types = get_type_hints(named, {**vars(options), **globals()}, include_extras=True)
    given = [one.replace(annotation=types[name]) for name, one in plain.items()]
    return inspect.Signature(given, return_annotation=Json)


def _content(source: str | Json) -> str | Json:
    """A source that names no file.

    Raises:
        ArgumentError: it does.
    """
    if isinstance(source, dict) and isinstance(source.get("extends"), str):
        _content(source["extends"])
    if isinstance(source, str) and (
        os.sep in source or source.lower().endswith((".yaml", ".yml")) or os.path.isfile(source)
    ):
        raise ArgumentError(
            "workload", f", accelerator: expected a name, inline text or a content, got the file "
            f"{shown(source)}: tools read no files."
        )  # fmt: skip
    return source


def _no_files(experiment: Json) -> None:
    """Refuses a sweep's content that names files: its networks', workloads' and machines'."""
    for key in ("base", "accelerators", "workloads"):
        named = experiment.get(key)
        for source in named if isinstance(named, list | tuple) else [named]:
            _content(source.get("network", source) if isinstance(source, dict) else str(source))


def _record(record: Mapping[str, Any]) -> Json:
    """A record whose operation and machine are no files."""
    for key in ("workload", "accelerator"):
        if key in record:
            _content(record[key])
    return dict(record)
