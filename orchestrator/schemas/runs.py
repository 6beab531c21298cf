"""What commands print that list, keep and run: `list`, `results`, `report`, experiments."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from orchestrator.schemas.costs import JsonRecord

ListAnswer = dict[str, dict[str, str]]
"""A sentence by name, by kind of thing."""
ResultsAnswer = list[dict[str, Any]]
"""A row each; its keys are the query's."""


class HyperparameterAnswer(TypedDict):
    """A hyperparameter of a searcher.

    Attributes:
        name: for `--set NAME=VALUE`.
        allowed: type and range, in words.
        default: as YAML has it; null: it must be given.
        presets: its value by preset, for those that set it.
        meaning: what it is.
        of: what it belongs to, such as a method; null: every search has it.
    """

    name: str
    allowed: str
    default: str | None
    presets: dict[str, str]
    meaning: str
    of: str | None


class SearcherAnswer(TypedDict):
    """A searcher and its hyperparameters.

    Attributes:
        name: of the searcher.
        about: a sentence.
        presets: where the values of each come from.
        hyperparameters: all of them.
    """

    name: str
    about: str
    presets: dict[str, str]
    hyperparameters: list[HyperparameterAnswer]


class RowsAnswer(TypedDict):
    """Rows of a query, whose keys are the query's."""

    rows: list[dict[str, Any]]


class RemovedAnswer(TypedDict):
    """How many results count no more."""

    removed: int


class ClearedAnswer(TypedDict):
    """What `results gc` has done.

    Attributes:
        rows: rows that were brought together.
        removed: rows that are gone as they count no more.
        certificates: certificates that are gone as no row names them.
        damaged: damaged files that are gone.
        leftovers: files that are gone as somebody began and did not finish them.
    """

    rows: int
    removed: int
    certificates: int
    damaged: int
    leftovers: int


class RecordsAnswer(TypedDict):
    """Mapping records, each with its `result`."""

    records: list[JsonRecord]


class SweepAnswer(TypedDict):
    """A row per machine and operation, and a row per machine; columns are those of its tables."""

    points: list[dict[str, Any]]
    machines: list[dict[str, Any]]


class ReportAnswer(TypedDict):
    """Where the page is."""

    page: str


class DifferenceAnswer(TypedDict):
    """What differs between two runs of a method, on one workload or on all.

    Attributes:
        method: its label.
        workload: its name; null: all of them.
        pairs: searches with the same workload and seed.
        ratio: loss after over loss before, geometric mean; null where a search found nothing.
        time: search time likewise.
        p: that it is chance (Wilcoxon, adjusted by Holm).
        verdict: in a word.
    """

    method: str
    workload: str | None
    pairs: int
    ratio: float | None
    time: float | None
    p: float
    verdict: Literal["better", "worse", "no difference", "too few pairs"]


class CompareAnswer(TypedDict):
    """Two runs of a benchmark.

    Attributes:
        methods: over all workloads.
        cells: of every method and workload.
        alone: methods that one run does not have.
        notes: what else differs.
        conclusion: in a sentence.
    """

    methods: list[DifferenceAnswer]
    cells: list[DifferenceAnswer]
    alone: list[str]
    notes: list[str]
    conclusion: str


class TextAnswer(TypedDict):
    """A file for another tool, or of another tool's.

    Attributes:
        text: what is in it.
        output: where it was written; null: nowhere.
    """

    text: str
    output: str | None


class RunAnswer(TypedDict):
    """What an experiment came to.

    Attributes:
        output: the run folder, with all results.
        page: its page; null where it has none.
        mlflow: the store that it is logged to; null where there is none.
        mlflow_pages: addresses of its pages: run; or of a benchmark's methods curves and compare.
        from_store: whether this call took everything from the store of results.
        seconds: of this call.
    """

    kind: str
    name: str
    output: str
    page: str | None
    mlflow: str | None
    mlflow_pages: dict[str, str]
    from_store: bool
    seconds: float


class JobAnswer(TypedDict):
    """Where the results of a job are.

    Attributes:
        job: its id.
        output: the run folder, with all results.
        here: the copy of a remote one; null where there is none.
        page: a benchmark's page in the copy.
    """

    job: str
    output: str
    here: str | None
    page: str | None


class FoundMachine(TypedDict):
    """A machine that was found.

    Attributes:
        parameters: its value of each key of the grid.
        energy_pj: of all layers with the mappings that are best for what is sought.
        latency_s: likewise the time.
        edp_js: energy x time.
        power_w: energy by time.
        area_bits: the area proxy.
        area_mm2: null where parts have no area.
        least_of: what it is the least of; of a front of one objective, the objective.
    """

    parameters: dict[str, Any]
    energy_pj: float
    latency_s: float
    edp_js: float
    power_w: float
    area_bits: float | None
    area_mm2: float | None
    least_of: str


class StepAnswer(TypedDict):
    """The best machine with the next better value of one key: what binds.

    Attributes:
        value: what the best machine has.
        further: the next value of the grid.
        change: of the objective, as a share; null: some layer has no mapping or is not proven.
        allowed: whether the machine is within the limits.
        area: of it, in the unit of the design.
    """

    key: str
    value: Any
    further: Any
    change: float | None
    allowed: bool
    area: float


class DesignFound(TypedDict):
    """The machines that a design has found, and what is proven of them.

    Attributes:
        find: what was sought: best, front or energy-delay-area.
        objective: what was minimised.
        proven: whether no machine of the grid is better than those found.
        gap: how far these are above the best at most, as a share; null: not known.
        machines: what was found: the best machine, or the front by rising area.
        size: machines of the grid.
        proofs: proofs that it took.
        problems: proofs of the whole grid.
        settled: machines by the reason why they need no more work, over all aims.
        steps: what one step further along each key brings; empty for fronts.
        ends: the keys of which the best machine has the grid's best value.
    """

    find: str
    objective: str
    proven: bool
    gap: float | None
    machines: list[FoundMachine]
    size: int
    proofs: int
    problems: int
    settled: dict[str, int]
    steps: list[StepAnswer]
    ends: list[str]


class DesignAnswer(RunAnswer, DesignFound):
    """What a design came to, and where its files are.

    Attributes:
        output: the run folder, with all results.
        page: its page; null where it has none.
        mlflow: the store that it is logged to; null where there is none.
        mlflow_pages: addresses of its pages: run; or of a benchmark's methods curves and compare.
        from_store: whether this call took everything from the store of results.
        seconds: of this call.
        find: what was sought: best, front or energy-delay-area.
        objective: what was minimised.
        proven: whether no machine of the grid is better than those found.
        gap: how far these are above the best at most, as a share; null: not known.
        machines: what was found: the best machine, or the front by rising area.
        size: machines of the grid.
        proofs: proofs that it took.
        problems: proofs of the whole grid.
        settled: machines by the reason why they need no more work, over all aims.
        steps: what one step further along each key brings; empty for fronts.
        ends: the keys of which the best machine has the grid's best value.
    """
