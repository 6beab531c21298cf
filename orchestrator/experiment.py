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
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from costmodel.costs import Objective
from costmodel.errors import ConfigError
from costmodel.loading import (
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Size,
    StrictModel,
    load_yaml,
    unknown_name,
    validate,
)
from orchestrator.places import fetched
from orchestrator.worlds import WORLDS, World
from surrogate.storage import RemotePath, place

if TYPE_CHECKING:
    from costmodel.accelerator import Accelerator
    from costmodel.workload import Workload

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
FAMILIES: tuple[str, ...] = ("cnn", "conv1d", "einsum", "gemm", "mttkrp")

Seed = Annotated[int, Field(strict=True, ge=0)]


def _from_count(value: object) -> object:
    """Seeds 0 to n - 1 where a file gives their number n."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"expected at least 1 seed, got {value}.")
        return tuple(range(value))
    return value


Seeds = Annotated[tuple[Seed, ...], BeforeValidator(_from_count), Field(min_length=1)]


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
    name: Name
    """Names the run folder and the MLflow run."""
    description: str = ""
    """What the experiment is for; printed in the report."""
    model: Literal["loopnest", "maestro", "tiling", "tvm"] = "loopnest"
    """The cost model, and with it the kind of space (`orchestrator.worlds`)."""
    measurement: dict[str, Any] = Field(default_factory=dict)
    """Model `tvm`: how to measure, the settings of `costmodel.tiling.measurement`."""
    peers: tuple[Literal["metaschedule"], ...] = ()
    """Model `tvm`: tuners of TVM's own that run under the same budget."""
    accelerator: Name
    """A preset's name or a YAML file; by default the model's own."""
    workloads: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Presets' names, YAML files or inline workloads."""
    searchers: Annotated[tuple[SearcherEntry, ...], Field(min_length=1)]
    """A list, or a mapping from labels."""
    seeds: Seeds
    """The seeds, or their number n for 0 to n - 1."""
    iterations: Size | None = None
    """Budget of cost queries per search: a true one, or a surrogate one where there is one."""
    seconds: PositiveNumber | None = None
    """Budget of search time per search."""
    visited: PositiveNumber | None = None
    """Budget of cost queries as a share of the space's size; exactly one budget is given."""
    query_latency: NonNegativeNumber = 0.0
    """Virtual seconds that every counted true query takes, for a cost model slower than ours."""
    objective: Objective = "edp"
    """What to minimise."""
    proof_seconds: NonNegativeNumber = 60.0
    """Time to prove the optimum of each workload beforehand, off the searchers' clock; 0: none."""
    host: Literal["trials", "blocks"] = "trials"
    """`trials`: one Tune trial is whole searches. `blocks`: one is a block of mappings."""
    seeds_per_trial: Size | None = None
    """Host `trials`: seeds that one trial runs one after another; null: all of them."""
    block_size: Size = 256
    """Host `blocks`: mappings per trial at most."""
    concurrency: Size | None = None
    """Tune trials at a time; null: one per processor that Ray has."""
    surrogates: dict[str, Name] = Field(default_factory=dict)
    """Surrogate folders (paths or URIs) per workload family for the gradient searcher; else the
    shipped ones."""

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
            model = value.get("model", "loopnest")
            if isinstance(model, str) and model in WORLDS:
                return {**value, "accelerator": WORLDS[model].accelerator}
        return value

    @model_validator(mode="after")
    def _check(self) -> Benchmark:
        known = WORLDS[self.model].objectives
        if known is not None and self.objective not in known:
            raise ValueError(
                f"objective: model {self.model} has {', '.join(known)}; got {self.objective}."
            )
        if not WORLDS[self.model].measured and (self.measurement or self.peers):
            raise ValueError(f"measurement, peers: for model tvm only; got model {self.model}.")
        if WORLDS[self.model].measured and self.host == "blocks":
            raise ValueError("host: blocks does not carry measurements; expected trials.")
        budgets = (self.iterations, self.seconds, self.visited)
        if sum(budget is not None for budget in budgets) != 1:
            raise ValueError("expected exactly one budget: iterations, seconds or visited.")
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
                raise ValueError(f"{what} {twice[0]} is given twice.")
        for entry in self.searchers:
            if entry.iterations is not None and entry.iterations > (self.iterations or 0):
                limit = "none" if self.iterations is None else f"{self.iterations}"
                raise ValueError(
                    f"searchers.{entry.label}.iterations: expected at most the benchmark's "
                    f"({limit}), got {entry.iterations}."
                )
        unknown = set(self.surrogates) - set(FAMILIES)
        if unknown:
            raise ValueError(
                f"surrogates: unknown workload family {min(unknown)!r}; known: "
                f"{', '.join(FAMILIES)}."
            )
        return self

    def iterations_in(self, space: Any, entry: SearcherEntry | None = None) -> int | None:
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
    """

    benchmark: Benchmark
    accelerator: Accelerator
    workloads: Mapping[str, Workload]
    surrogates: Mapping[str, str]

    @property
    def world(self) -> World:
        """The cost model and its kind of space."""
        return WORLDS[self.benchmark.model]

    def space(self, workload: str) -> Any:
        """The space of a workload, by its name."""
        return self.world.space(self.workloads[workload], self.accelerator)

    def model(self) -> Any:
        """The cost model."""
        return self.world.model(self.accelerator, self.benchmark.measurement)

    def entry(self, label: str) -> SearcherEntry:
        """The searcher entry with a label."""
        return next(entry for entry in self.benchmark.searchers if entry.label == label)


def find_experiment(name_or_path: str) -> Path:
    """The file of an experiment: a path, or the name of one that is shipped.

    Raises:
        ConfigError: there is neither.
    """
    path = place(name_or_path)
    if isinstance(path, RemotePath):
        return fetched(path)
    if path.is_file():
        return path
    shipped = EXPERIMENTS / f"{name_or_path}.yaml"
    if shipped.is_file() and path.parent == Path("."):
        return shipped
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise ConfigError(f"{name_or_path}: there is no such file.")
    raise unknown_name("experiment", name_or_path, shipped_experiments())


def shipped_experiments() -> list[str]:
    """Names of the experiments in the package."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))


def load_benchmark(path: str | Path) -> Benchmark:
    """Reads a benchmark's YAML file.

    Raises:
        ConfigError: the file is none, or says something that is not allowed.
    """
    data = load_yaml(path)
    kind = data.get("kind")
    if kind != "benchmark":
        raise ConfigError(f"{path}: kind: expected benchmark, got {kind!r}.")
    return validate(Benchmark, data, str(path))


def prepare(benchmark: Benchmark, where: str) -> Plan:
    """Looks up every name of a benchmark and tries every searcher on every workload.

    Args:
        benchmark: what was read.
        where: what messages start with, such as the file's name; relative surrogate folders are
            looked for beside that file first.

    Raises:
        ConfigError: an unknown name or a hyperparameter that is not allowed; nothing is written.
    """
    from costmodel.accelerator import accelerator
    from costmodel.workload import workload

    try:
        device = accelerator(benchmark.accelerator)
        workloads: dict[str, Workload] = {}
        for source in benchmark.workloads:
            found = workload(source)
            if found.name in workloads:
                raise ConfigError(f"workloads: two are named {found.name!r}.")
            workloads[found.name] = found
        surrogates = {
            family: _surrogate_path(folder, where)
            for family, folder in benchmark.surrogates.items()
        }
        plan = Plan(benchmark, device, workloads, surrogates)
        for name in workloads:
            space = plan.space(name)
            for entry in benchmark.searchers:
                make_searcher(plan, entry, space, seed=benchmark.seeds_of(entry)[0])
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return plan


def make_searcher(plan: Plan, entry: SearcherEntry, space: Any, *, seed: int) -> Any:
    """Makes the searcher of an entry, joined with its predictor where it needs one.

    Raises:
        ConfigError: an unknown name or hyperparameter, or no surrogate fits.
    """
    import searchers

    extra: dict[str, Any] = {}
    if "objective" in searchers.hyperparameters(entry.name):
        extra["objective"] = plan.benchmark.objective
    if "predictor" in searchers.hyperparameters(entry.name):
        extra["predictor"] = predictor(space, plan.surrogates.get(space.workload.family))
    return searchers.make(
        entry.name, space, seed=seed, preset=entry.preset, **{**extra, **entry.parameters}
    )


def predictor(space: Any, folder: str | None) -> Any:
    """The surrogate that a learned searcher asks: from a folder, or the shipped one that fits.

    Raises:
        ConfigError: it is for another workload family or accelerator, or none is shipped.
        DataError: its files are missing or damaged.
    """
    import surrogate
    from costmodel.mapspace import MapSpace

    if not isinstance(space, MapSpace):
        raise ConfigError(f"There are surrogates of loop nests only; got a {type(space).__name__}.")
    if folder is None:
        return surrogate.shipped(space.workload, space.accelerator)
    found = _load_surrogate(folder)
    structure = found.card.structure
    for what, ours, its in (
        ("family", space.workload.family, structure.family),
        ("accelerator", space.accelerator.hash, structure.accelerator_hash),
    ):
        if ours != its:
            raise ConfigError(
                f"{folder}: the surrogate is for {structure.family} on {structure.accelerator}; "
                f"{space.workload.name} on {space.accelerator.name} is another {what}."
            )
    return found


@lru_cache(maxsize=8)
def _load_surrogate(folder: str) -> Any:
    """A surrogate never changes once it is loaded, so that all seeds of a trial share it."""
    import surrogate

    return surrogate.load(folder)


def _surrogate_path(folder: str, where: str) -> str:
    remote = place(folder)
    if isinstance(remote, RemotePath):
        if not remote.exists():
            raise ConfigError(f"surrogates: {remote}: there is no such file or folder.")
        return str(remote)
    folder = str(remote)
    beside = Path(where).parent / folder
    path = beside if beside.exists() else Path(folder)
    if not path.exists():
        raise ConfigError(f"surrogates: {folder}: there is no such file or folder.")
    return str(path.resolve())
