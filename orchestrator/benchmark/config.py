"""Benchmark experiments: a YAML file that names the whole comparison, read strictly.

```yaml
kind: benchmark
name: table1-iso-iteration
accelerator: mm256
workloads: [resnet-conv3, mttkrp-0]
searchers:
  random: {}
  annealing (paper): {name: annealing, preset: paper}
seeds: 10
iterations: 5000
```
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from costmodel.costs import Objective
from costmodel.machines.constraint_entries import Entries
from costmodel.models import (
    COST_MODELS,
    DEFAULT_MODEL,
    CostModelEntry,
    ModelName,
    cost_model_entry,
)
from mapspace.errors import ConfigError, noted, refuse, together
from mapspace.storage import RemotePath, place
from mapspace.strict_yaml import (
    FileName,
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Seed,
    Size,
    StrictModel,
)
from orchestrator.comparison.results import Clock
from orchestrator.report.units import displayed_of
from orchestrator.runs.search_context import context_for

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.workloads import Workload
    from costmodel.space import Space
    from searchers import Evaluator

FAMILIES: tuple[str, ...] = ("cnn", "conv1d", "einsum", "gemm", "mttkrp")

MOST_SEEDS = 10_000


def _from_count(value: object) -> object:
    """Seeds 0 to n - 1 where a file gives their number n."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"expected at least 1 seed, got {value}.")
        if value > MOST_SEEDS:
            raise ValueError(f"expected at most {MOST_SEEDS:,} seeds, got {value}.")
        return tuple(range(value))
    return value


Seeds = Annotated[
    tuple[Seed, ...], BeforeValidator(_from_count), Field(min_length=1, max_length=MOST_SEEDS)
]


class SearcherEntry(StrictModel):
    """One method under comparison."""

    name: Name
    """Key in the table of searchers."""
    label: Name
    """How results call it; unique within the experiment."""
    preset: Name | None = None
    """Named set of hyperparameters."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Hyperparameters; they override the preset."""
    seeds: Seeds | None = None
    """Seeds of this method alone, for one that is slow; null: those of the benchmark."""
    iterations: Size | None = None
    """Fewer iterations for this method alone, for one that is slow; null: the benchmark's."""


class Benchmark(StrictModel):
    """Searchers x workloads x seeds under one budget."""

    kind: Literal["benchmark"]
    name: FileName
    """Names the run folder and the MLflow run."""
    description: str = ""
    """What the experiment is for; printed in the report."""
    model: ModelName = DEFAULT_MODEL
    """The cost model, and with it the kind of space (`costmodel.models`)."""
    measurement: dict[str, Any] = Field(default_factory=dict)
    """Model `tvm`: how to measure, the settings of `costmodel.tiling.measurement`; `command`: how
    to call the simulator, those of `costmodel.command.settings`, or `simulator: FILE`."""
    peers: tuple[Literal["metaschedule"], ...] = ()
    """Model `tvm`: tuners of TVM's own that run under the same budget."""
    accelerator: Name
    """A preset's name or a YAML file; by default the model's own."""
    constraints: Entries = ()
    """What every mapping must obey, beside what the accelerator's file says; model `loopnest`."""
    workloads: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Presets' names, YAML files or inline workloads."""
    searchers: Annotated[tuple[SearcherEntry, ...], Field(min_length=1)]
    """A list, or a mapping from labels."""
    seeds: Seeds = tuple(range(10))
    """The seeds, or their number n for 0 to n - 1."""
    iterations: Size | None = None
    """Budget of cost queries per search: a true one, or a surrogate one where there is one."""
    seconds: PositiveNumber | None = None
    """Budget of search time per search."""
    visited: PositiveNumber | None = None
    """Budget of cost queries as a share of the space's size; exactly one budget is given."""
    clock: Clock = "processor"
    """What seconds of search are: processor time of the process that searches, or time by the wall.
    Where others answer the queries (models that measure, hosts `blocks` and `pool`, searchers with
    runners) it is the wall, by default, too."""
    query_latency: NonNegativeNumber = 0.0
    """Virtual seconds that every counted true query takes, for a cost model slower than ours."""
    objective: Objective = "edp"
    """What to minimise."""
    proof_seconds: NonNegativeNumber = 60.0
    """Time to prove the optimum of each workload, off the searchers' clock; 0: none."""
    host: Literal["trials", "blocks", "pool"] = "trials"
    """`trials`: one Tune trial is whole searches. `blocks`: one is a block of mappings. `pool`: one
    is whole searches, each of which has evaluators of its own that answer out of order."""
    workers: Size | None = None
    """Host `pool`: evaluators of a search."""
    query_seconds: PositiveNumber | None = None
    """Host `pool`: the most that a query may take; its evaluator is then started anew."""
    seeds_per_trial: Size | None = None
    """Hosts `trials` and `pool`: seeds that one trial runs one after another; null: all of them, or
    of 40 and more a part."""
    block_size: Size = 256
    """Host `blocks`: mappings per trial at most."""
    concurrency: Size | None = None
    """Tune trials at a time; null: one per processor that Ray has."""
    surrogates: dict[str, Name] = Field(default_factory=dict)
    """Surrogate folders (paths or URIs) per workload family for the gradient searcher; else the
    shipped ones."""
    warm_start: bool = False
    """Searchers that can begin from the winners that the store has of similar problems do; the
    others begin anew, so that methods do not have the same to begin with."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what old files did not have, where it is not used: they are the same runs."""
        written: dict[str, Any] = handler(self)
        for name in ("constraints", "warm_start", "workers", "query_seconds"):
            if not getattr(self, name):
                written.pop(name, None)
        return written

    @field_validator("searchers", mode="before")
    @classmethod
    def _from_labels(cls, value: object) -> object:
        """A mapping from labels is a list; the label stands for a name that is left out."""
        if isinstance(value, Mapping):
            return [
                {"name": label, **(entry or {}), "label": label}
                if isinstance(entry, Mapping | None)
                else entry
                for label, entry in value.items()
            ]
        if isinstance(value, list | tuple):
            return [
                {"label": entry["name"], **entry}
                if isinstance(entry, Mapping) and "name" in entry
                else entry
                for entry in value
            ]
        return value

    @model_validator(mode="before")
    @classmethod
    def _with_accelerator(cls, value: Any) -> Any:
        """The accelerator that the model runs on where the file names none."""
        if isinstance(value, Mapping) and "accelerator" not in value:
            model = value.get("model", DEFAULT_MODEL)
            if isinstance(model, str) and model in COST_MODELS:
                return {**value, "accelerator": cost_model_entry(model).accelerator}
        return value

    @model_validator(mode="before")
    @classmethod
    def _with_settings(cls, value: Any) -> Any:
        """The measurement as the model reads it: a file's content in place of its name."""
        if isinstance(value, Mapping) and isinstance(value.get("model"), str):
            name, given = value["model"], value.get("measurement", {})
            read = cost_model_entry(name).settings if name in COST_MODELS else None
            if read is not None and isinstance(given, Mapping):
                try:
                    objective = value.get("objective", "edp")
                    return {**value, "measurement": read(given, objective)}
                except ConfigError as error:
                    raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _check_clock(self) -> Benchmark:
        why = self._answered_elsewhere()
        if why and self.clock == "processor":
            if "clock" in self.model_fields_set:
                raise ValueError(
                    f"clock: expected wall with {why}, as queries are answered by other processes; "
                    "got processor."
                )
            return self.model_copy(update={"clock": "wall"})
        return self

    def _answered_elsewhere(self) -> str:
        """What lets other processes work for a search; empty where all of it is in one."""
        if cost_model_entry(self.model).measured:
            return f"model: {self.model}"
        if self.host != "trials":
            return f"host: {self.host}"
        runners = [e.label for e in self.searchers if e.parameters.get("runners", 0)]
        return f"searchers.{runners[0]}.parameters.runners" if runners else ""

    @model_validator(mode="after")
    def _check(self) -> Benchmark:
        wrong = [*self._wrong(), *self._wrong_in_pool()]
        if wrong:
            raise ValueError(" ".join(wrong))
        return self

    def _wrong(self) -> Iterator[str]:
        """What does not go together."""
        model = cost_model_entry(self.model)
        known = model.objectives
        if known is not None and self.objective not in known:
            yield (f"objective: model {self.model} has {', '.join(known)}; got {self.objective}.")
        if self.constraints and self.model != DEFAULT_MODEL:
            yield f"constraints: for model {DEFAULT_MODEL} only; got {self.model}."
        if not model.measured and (self.measurement or self.peers):
            yield (f"measurement, peers: for models that measure; got model {self.model}.")
        if self.peers and self.model != "tvm":
            yield f"peers: for model tvm only; got model {self.model}."
        if self.warm_start and (self.model != DEFAULT_MODEL or self.host != "trials"):
            yield f"warm_start: for model {DEFAULT_MODEL} and host trials only."
        if model.measured and self.host == "blocks":
            yield "host: blocks does not carry measurements; expected trials."
        budgets = (self.iterations, self.seconds, self.visited)
        if sum(budget is not None for budget in budgets) != 1:
            yield "expected exactly one budget: iterations, seconds or visited."
        for what, names in (
            ("searchers: label", [entry.label for entry in self.searchers]),
            ("workloads: name", list(self.workloads)),
            ("seeds: seed", [str(seed) for seed in self.seeds]),
            *(
                (f"searchers.{entry.label}.seeds: seed", [str(seed) for seed in entry.seeds])
                for entry in self.searchers
                if entry.seeds is not None
            ),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                yield f"{what} {twice[0]} is given twice."
        for entry in self.searchers:
            if entry.iterations is not None and entry.iterations > (self.iterations or 0):
                limit = "none" if self.iterations is None else f"{self.iterations}"
                yield (
                    f"searchers.{entry.label}.iterations: expected at most the benchmark's "
                    f"({limit}), got {entry.iterations}."
                )
        unknown = set(self.surrogates) - set(FAMILIES)
        if unknown:
            yield (
                f"surrogates: unknown workload family {min(unknown)!r}; known: "
                f"{', '.join(FAMILIES)}."
            )

    def _wrong_in_pool(self) -> Iterator[str]:
        if self.host != "pool":
            if (self.workers, self.query_seconds) != (None, None):
                yield f"workers, query_seconds: for host pool only; got {self.host}."
            return
        if self.workers is None:
            yield "workers: host pool needs to know how many evaluators a search has."
        if self.model == "tvm":
            yield "host: pool would measure side by side; model tvm is for trials."
        if self.query_latency:
            yield "query_latency: not for host pool, where queries take real seconds."
        for entry in self.searchers:
            if entry.parameters.get("runners", 0):
                yield (
                    f"searchers.{entry.label}.parameters.runners: expected 0 with host: pool, got "
                    f"{entry.parameters['runners']}."
                )

    def iterations_in(self, space: Space, entry: SearcherEntry | None = None) -> int | None:
        """The budget of cost queries in a space, for a method; None where time is the budget."""
        if entry is not None and entry.iterations is not None:
            return entry.iterations
        return self.iterations if self.visited is None else math.ceil(self.visited * space.size())

    def seeds_of(self, entry: SearcherEntry) -> tuple[int, ...]:
        """The seeds that a method is run with."""
        return self.seeds if entry.seeds is None else entry.seeds


@dataclass(frozen=True)
class Plan:
    """A benchmark whose names have all been looked up.

    Attributes:
        benchmark: as the file has it.
        accelerator: the accelerator.
        workloads: by name, in the experiment's order.
        surrogates: surrogate folders per workload family.
        begins: with a warm start, the codes that searches of a workload begin from.
    """

    benchmark: Benchmark
    accelerator: Accelerator
    workloads: Mapping[str, Workload]
    surrogates: Mapping[str, str]
    begins: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)

    @property
    def cost_model(self) -> CostModelEntry:
        """The cost model and its kind of space."""
        return cost_model_entry(self.benchmark.model)

    def space(self, workload: str) -> Any:
        """The space of a workload, by its name."""
        make = self.cost_model.space
        assert make is not None  # the benchmark's door has looked
        return make(self.workloads[workload], self.accelerator)

    def model(self) -> Any:
        """The cost model."""
        return self.cost_model.model(self.accelerator, self.benchmark.measurement)

    def shown(self, value: float) -> str:
        """A value of the objective for people, in J s or the like."""
        objective = self.benchmark.objective
        factor, unit = displayed_of(
            objective, self.cost_model.units[objective], self.accelerator.clock_ghz
        )
        return f"{value * factor:.6g} {unit}"

    def begins_of(self, entry: SearcherEntry, workload: str) -> Sequence[Sequence[int]]:
        """The codes that a searcher begins from on a workload; none where it begins anew."""
        from searchers import searcher_class

        takes = searcher_class(entry.name).TAKES_MIGRANTS
        return self.begins.get(workload, ()) if takes else ()

    def entry(self, label: str) -> SearcherEntry:
        """The searcher entry with a label."""
        return next(entry for entry in self.benchmark.searchers if entry.label == label)


def prepare(benchmark: Benchmark, where: str) -> Plan:
    """Looks up every name of a benchmark and tries every searcher on every workload.

    Args:
        benchmark: what was read.
        where: what messages start with, such as the file's name; relative surrogate folders are
            looked for beside that file first.

    Raises:
        ConfigError: an unknown name or a hyperparameter that is not allowed; nothing is written.
    """
    from costmodel.machines.accelerators import accelerator, constrained
    from costmodel.problems.workloads import workload

    names = [partial(_check_names, entry) for entry in benchmark.searchers]
    try:
        device, found, surrogates, *_ = together(
            lambda: constrained(accelerator(benchmark.accelerator), benchmark.constraints),
            lambda: together(*(partial(workload, source) for source in benchmark.workloads)),
            lambda: _surrogate_paths(benchmark, where),
            *names,
        )
        workloads = {one.name: one for one in found}
        if len(workloads) < len(found):
            twice, _ = Counter(one.name for one in found).most_common(1)[0]
            raise ConfigError(f"workloads: two are named {twice!r}.")
        plan = Plan(benchmark, device, workloads, surrogates)
        wrong: list[ConfigError] = []
        for name in workloads:
            space = plan.space(name)
            for entry in benchmark.searchers:
                seed = benchmark.seeds_of(entry)[0]
                noted(wrong, partial(make_searcher, plan, entry, space, seed=seed), None)
            refuse(wrong)  # most are wrong for every workload
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return plan


def make_searcher(
    plan: Plan, entry: SearcherEntry, space: Any, *, seed: int, evaluator: Evaluator | None = None
) -> Any:
    """Makes the searcher of an entry, joined with its predictor where it needs one.

    Args:
        plan: the benchmark.
        entry: the searcher's name and hyperparameters; it uses one thread unless they say other.
        space: where it searches.
        seed: decides its run.
        evaluator: on its clock goes the time that the searcher takes to be made, a predictor's
            loading aside; None: on no clock.

    Raises:
        ConfigError: an unknown name or hyperparameter, or no surrogate fits.
    """
    import searchers

    benchmark = plan.benchmark
    known = searchers.Context(
        objective=benchmark.objective,
        iterations=benchmark.iterations_in(space, entry),
        seconds=benchmark.seconds,
        query_latency=benchmark.query_latency,
        threads=1,  # a trial holds one processor
    )
    follows = "predictor" in searchers.searcher_class(entry.name).USES
    surrogate = plan.surrogates.get(space.workload.family) if follows else None
    context = context_for(entry.name, space, known, surrogate)
    # Here, where no argument of `make` can be taken for one.
    searchers.check_names(entry.name, entry.parameters)
    with nullcontext() if evaluator is None else evaluator.running():
        return searchers.make(
            entry.name,
            space,
            seed=seed,
            preset=entry.preset,
            context=context,
            **entry.parameters,
        )


def _check_names(entry: SearcherEntry) -> None:
    import searchers

    searchers.searcher_class(entry.name)
    searchers.check_names(entry.name, entry.parameters)


def _surrogate_paths(benchmark: Benchmark, where: str) -> dict[str, str]:
    folders = benchmark.surrogates
    paths = together(*(partial(_surrogate_path, folder, where) for folder in folders.values()))
    return dict(zip(folders, paths, strict=True))


def _surrogate_path(folder: str, where: str) -> str:
    remote = place(folder)
    if isinstance(remote, RemotePath):
        if not remote.exists():
            raise ConfigError(f"surrogates: {remote}: there is no such file or folder.")
        return str(remote)
    folder = str(remote)
    beside = Path(where).parent / folder
    path = beside if os.path.exists(beside) else Path(folder)
    if not os.path.exists(path):
        raise ConfigError(f"surrogates: {folder}: there is no such file or folder.")
    return str(path.resolve())
