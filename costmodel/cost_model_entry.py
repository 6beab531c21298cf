"""What is said of a cost model, once, for whatever asks for one; `costmodel.models` finds it.

A model's entry stands in a file of its own beside the model, and imports the model only when it is
made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from costmodel.costs import UNITS
from costmodel.space import UNLIMITED

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.workloads import Workload
    from costmodel.space import Codes, CostModel, Space


@dataclass(frozen=True)
class RecordScorer:
    """How `mapspace evaluate` scores mapping records with a model.

    Attributes:
        model: makes the model, or what holds several, with `name` and `version`; takes the options
            by name.
        score: `score(records, model)`, the records in order, each with `result`; a `ConfigError`
            starts with `record I:`.
        options: what it can be asked for besides, such as `link_transfers`.
    """

    model: Callable[..., Any]
    score: Callable[[Sequence[dict[str, Any]], Any], list[dict[str, Any]]]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CostModelEntry:
    """A cost model with its spaces.

    Attributes:
        description: one sentence, for `mapspace list models`.
        accelerator: the preset that an experiment without one runs on.
        space: makes the space of a workload; None: the model scores records only.
        model: makes the cost model, from the accelerator and an experiment's `measurement`.
        settings: reads an experiment's `measurement`, beside its objective, where it is opened:
            checked, and with the content of files in place of their names; None: as it is.
        optimum: finds the least value of an objective by enumeration, with the words for how it
            was found; None where it is not enumerated.
        branch_and_bound: whether the least value is proven by `costmodel.exact`, which is of the
            loop-nest model. With neither, runs are held against the best of them.
        measured: whether a query is a measurement, which no warm-up shall make.
        largest_batch: queries at once under a budget of time.
        objectives: those that the model has; None: all.
        units: of objectives, where they are not those of the other models.
        records: how it scores mapping records; None: it does not.
        record: `record(space, code, accelerator)`, a mapping `[D]` of its space as the record that
            a benchmark writes; None: it has no form of records.
        figures: figures of its own that a report draws, `module:function` of (results, path) by
            name.
    """

    description: str
    accelerator: str
    model: Callable[[Accelerator, Mapping[str, Any]], CostModel]
    space: Callable[[Workload, Accelerator], Space] | None = None
    settings: Callable[[Mapping[str, Any], str], dict[str, Any]] | None = None
    optimum: Callable[[Any, Any, Objective], tuple[float, str]] | None = None
    branch_and_bound: bool = False
    measured: bool = False
    largest_batch: int = UNLIMITED
    objectives: tuple[Objective, ...] | None = None
    units: Mapping[str, str] = field(default_factory=lambda: UNITS)
    records: RecordScorer | None = None
    record: Callable[[Any, Codes, Accelerator], dict[str, Any]] | None = None
    figures: Mapping[str, str] = field(default_factory=dict)
