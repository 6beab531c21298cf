"""What a benchmark's `summary.json` may say: typed, for a run folder may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from costmodel.costs import Objective
from costmodel.models import DEFAULT_MODEL, ModelName, cost_model_entry
from mapspace.strict_yaml import (
    FileName,
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Size,
    StrictModel,
    shown,
)
from orchestrator.comparison.many_runs import GREATEST, LEAST
from orchestrator.comparison.results import Clock

Count = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True)]
Loss = Annotated[float, Field(strict=True, ge=LEAST, le=GREATEST)]


class _Open(BaseModel):
    """Keys that another version wrote are kept and not looked at."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Method(_Open):
    """A searcher of the experiment."""

    name: Name
    label: Name
    preset: Text | None
    parameters: dict[str, Any]
    iterations: Size | None = None


class Experiment(_Open):
    """The experiment as it was run, as far as a report reads it."""

    name: FileName
    description: Text = ""
    model: ModelName = DEFAULT_MODEL
    objective: Objective
    accelerator: Text
    host: Literal["trials", "blocks", "pool"]
    workers: Size | None = None
    seeds: tuple[Count, ...]
    searchers: tuple[Method, ...] = Field(min_length=1)
    workloads: tuple[Text, ...] = ()
    iterations: Size | None
    seconds: PositiveNumber | None
    visited: PositiveNumber | None = None
    clock: Clock = "wall"
    query_latency: NonNegativeNumber | None
    surrogates: dict[str, Text] | None = None

    @model_validator(mode="after")
    def _check(self) -> Experiment:
        if self.objective not in cost_model_entry(self.model).units:
            raise ValueError(f"objective: model {self.model} has no {self.objective}.")
        if self.iterations is None and self.seconds is None and self.visited is None:
            raise ValueError("expected a budget: iterations, seconds or visited.")
        return self


class Provenance(_Open):
    """What computed the results."""

    model: Text
    model_version: Text
    mapspace: Text
    python: Text
    ray: Text
    processors: Count | None
    clock_ghz: PositiveNumber | None = None
    finished: Text
    plugins: dict[str, Text] = Field(default_factory=dict)
    hyperparameters: dict[str, dict[str, Any]] = Field(default_factory=dict)


class Limits(StrictModel):
    """A workload's bounds; summaries from before there were proofs have the first three."""

    minimum: Loss
    floor: Loss
    optimum: Loss | None
    lower_bound: NonNegativeNumber | None = None
    proof_seconds: NonNegativeNumber | None = None
    certificate: Text | None = None
    note: Text = ""
    measured: Flag = False

    @field_validator("certificate")
    @classmethod
    def _within(cls, value: str | None) -> str | None:
        parts = (value or "x").split("/")
        if any(part.startswith(".") or not part or "\0" in part for part in parts):
            raise ValueError(f"expected a file within the run folder, got {shown(value)}.")
        return value


class Search(StrictModel):
    """One run, without its curve."""

    searcher: Name
    workload: Text
    seed: Count
    best_loss: Loss | None
    best_code: tuple[Annotated[int, Field(strict=True, ge=0, lt=2**62)], ...]
    iterations: Count
    true_queries: Count
    surrogate_queries: Count
    seconds: NonNegativeNumber
    processor_seconds: NonNegativeNumber | None = None
    wall_seconds: NonNegativeNumber | None = None
    failure: Text = ""
    points: Annotated[int, Field(strict=True, ge=1, lt=2**62)]


class Summary(StrictModel):
    """All of `summary.json`; its statistics are computed anew from the runs."""

    experiment: Experiment
    provenance: Provenance
    bounds: dict[str, Limits]
    searchers: Any = None
    runs: Annotated[tuple[Search, ...], Field(min_length=1)] | None = None
    """Null where there are so many that they are in a file of their own."""

    @model_validator(mode="after")
    def _check(self) -> Summary:
        if self.runs is not None:
            self.check_pairs([(run.searcher, run.workload) for run in self.runs])
        return self

    def check_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Holds searchers and workloads of runs against the experiment.

        Raises:
            ValueError: one is unknown, or a searcher has no runs on a workload.
        """
        labels = {method.label for method in self.experiment.searchers}
        for position, (searcher, workload) in enumerate(pairs):
            for what, name, known in (
                ("searcher", searcher, labels),
                ("workload", workload, self.bounds),
            ):
                if name not in known:
                    raise ValueError(
                        f"runs[{position}].{what}: expected one of {', '.join(sorted(known))}, "
                        f"got {shown(name)}."
                    )
        done = set(pairs)
        for searcher in dict.fromkeys(searcher for searcher, _ in pairs):
            for workload in dict.fromkeys(workload for _, workload in pairs):
                if (searcher, workload) not in done:
                    raise ValueError(f"runs: none of {searcher} on {workload}.")
