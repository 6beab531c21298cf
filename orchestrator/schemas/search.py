"""What `mapspace search` prints: of an operation, a network, a simulator; and `mapspace tile`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.schemas.costs import Costs, JsonRecord, Kept, LimitAnswer, Objective
from orchestrator.schemas.explained import ExplanationAnswer, Unexplained, WhyNotPart, WidenPart


class RankedAnswer(Costs):
    """One of the best tilings.

    Attributes:
        above_best: how far its objective is above the best one's, as a share.
        record: it as a mapping record.
    """

    above_best: float
    record: JsonRecord


class OriginalAnswer(TypedDict):
    """The operation before padding."""

    workload: str
    dimensions: dict[str, int]


class PaddedSize(TypedDict):
    """A dimension that is better padded alone."""

    size: int
    objective: float


class PaddingAnswer(TypedDict):
    """Larger sizes that were tried, as the operation's own have awkward factors.

    Attributes:
        single: each dimension that is better padded alone.
        sizes: the best sizes of all dimensions together.
        objective: what they reach; null where nothing was found in time.
        complete: whether all candidates were tried.
    """

    single: dict[str, PaddedSize]
    sizes: dict[str, int]
    objective: float | None
    complete: bool


class WinnerAnswer(TypedDict):
    """A stored winner of a similar problem that a search began from.

    Attributes:
        workload: its problem.
        distance: between the binary logarithms of the sizes of both problems.
        mappings: how many were made of it, which are queries of the search.
    """

    workload: str
    distance: float
    mappings: int


class SearchAnswer(Costs):
    """The best mapping of an operation, and what is certain about it.

    Attributes:
        problem_hash: of operation, machine, objective and restriction.
        keep: the restriction: tensors kept by level; null where no mapping is excluded.
        proven: whether no mapping of the machine is better.
        tie_proven: whether none of an equal objective is better in what breaks ties.
        lower_bound: what the objective of no mapping is below, in pJ and cycles.
        gap: how far the mapping can be above the best one, as a share; null: however far.
        gap_to_optimum: likewise, where the optimum is known; else null.
        proven_under_restriction: likewise among mappings that keep `keep`; null without.
        tie_proven_under_restriction: likewise.
        lower_bound_under_restriction: likewise.
        gap_under_restriction: likewise.
        space: the rules that bound the map space, in a line.
        constraints: what the machine demands of mappings.
        preset: the named set of the searcher's hyperparameters that was asked for.
        hyperparameters: all that the searcher ran with.
        iterations: cost queries of the searcher.
        true_queries: of the cost model.
        surrogate_queries: of a surrogate.
        seconds: of the search.
        conclusion: what the searcher itself is certain of.
        area_mm2: of the machine's memories and units, mm2; null: not known of all of them.
        leakage_w: of the machine with everything on, W.
        chip_power_w: mean power with everything on: what leaks of idle instances, too, W.
        utilisation: share of the elements at work, on average.
        limited_by: what the speed is limited by.
        limits: every bound of the machine with what is used of it.
        normalised_edp: EDP over the algorithmic minimum.
        gap_to_floor: how far the objective is above what every mapping must pay; null: infinitely.
        record: the mapping record.
        top: the best tilings, where more than one was asked for.
        wall_seconds: of everything, preparation included.
        interrupted: whether Ctrl-C ended it.
        from_store: whether it was read, and not searched now.
        warm_start: what the search began from, where a warm start was asked for.
        original: before padding, where that was asked for.
        padded: sizes that were padded.
        wasted_macs: multiply-accumulates of the padding.
        padding: what larger sizes are worth, where the sizes have awkward factors.
        explain: what holds the optimum up, where that was asked for.
        why_not: what keeps a mapping of one's own from the optimum, likewise.
        widen: what each rule of the map space costs, likewise.
        nest: the loop nest as text; of the tool `search`.
        certificate: what `verify` proves again, null where nothing is proven; likewise.
    """

    problem_hash: str
    keep: Kept | None
    proven: bool
    tie_proven: bool
    lower_bound: float
    gap: float | None
    gap_to_optimum: float | None
    proven_under_restriction: bool | None
    tie_proven_under_restriction: bool | None
    lower_bound_under_restriction: float | None
    gap_under_restriction: float | None
    workload: str
    accelerator: str
    model: str
    model_version: str
    space: str
    constraints: list[dict[str, Any]] | None
    searcher: str
    preset: str | None
    hyperparameters: dict[str, Any]
    objective: Objective
    seed: int
    iterations: int
    true_queries: int
    surrogate_queries: int
    seconds: float
    conclusion: str | None
    area_mm2: float | None
    leakage_w: float
    chip_power_w: float
    utilisation: float
    limited_by: str
    limits: list[LimitAnswer]
    normalised_edp: float
    gap_to_floor: float | None
    record: JsonRecord
    top: NotRequired[list[RankedAnswer]]
    wall_seconds: float
    interrupted: bool
    from_store: bool
    warm_start: NotRequired[list[WinnerAnswer]]
    original: NotRequired[OriginalAnswer]
    padded: NotRequired[dict[str, int]]
    wasted_macs: NotRequired[int]
    padding: NotRequired[PaddingAnswer]
    explain: NotRequired[ExplanationAnswer | Unexplained]
    why_not: NotRequired[WhyNotPart]
    widen: NotRequired[WidenPart]
    nest: NotRequired[str]
    certificate: NotRequired[dict[str, Any] | None]


class NoMapping(TypedDict):
    """A line of `--problems`, or Timeloop's files, without a mapping.

    Attributes:
        proven: whether there is none, rather than none found.
        why: why there is none.
    """

    workload: str
    accelerator: str
    objective: Objective
    proven: bool
    energy_pj: None
    latency_cycles: None
    record: None
    why: str
    from_store: bool


class OfLayer(TypedDict):
    """What a layer's row has beside its search.

    Attributes:
        count: how often the network has it.
        standing: what is certain, in a word or two.
        failure: why there is no mapping, or why the searcher stopped early.
    """

    count: int
    standing: str
    failure: str | None


class FoundLayer(SearchAnswer, OfLayer):
    """A layer with its best mapping."""


class LayerWithout(OfLayer):
    """A layer without a mapping."""

    workload: str
    accelerator: str
    from_store: bool


class NetworkTotalsAnswer(Costs):
    """Sums over the layers that have a mapping, each as often as it occurs.

    Attributes:
        complete: whether every layer has one, and none was left out.
        left_out: how many parts of the network were left out when it was read.
        distinct_layers: how many layers those are.
        layers: how many with all their repetitions.
        chip_power_w: mean power with everything on: what leaks of idle instances, too, W.
        utilisation: share of the elements at work, on average over the time.
        proven_layers: distinct layers whose mapping is proven the best.
        proven: whether no other mappings have less in all.
        lower_bound: what no mappings are below in all.
        gap: how far the totals can be above the least; null: however far.
        proven_layers_under_restriction: likewise of mappings that keep `keep`; null without.
        proven_under_restriction: likewise.
        lower_bound_under_restriction: likewise.
        gap_under_restriction: likewise.
    """

    complete: bool
    left_out: int
    distinct_layers: int
    layers: int
    chip_power_w: float
    utilisation: float
    proven_layers: int
    proven: bool
    lower_bound: float
    gap: float | None
    proven_layers_under_restriction: int | None
    proven_under_restriction: bool | None
    lower_bound_under_restriction: float | None
    gap_under_restriction: float | None


class OperatorMoves(TypedDict):
    """An operator without multiply-accumulates: its words over the whole network.

    Attributes:
        energy_pj: at the outermost level; where tensors stay on the chip it takes less.
        latency_cycles: likewise.
        counted: whether the totals have it.
    """

    operator: str
    reads: int
    writes: int
    energy_pj: float
    latency_cycles: int
    counted: bool


class NetworkAnswer(TypedDict):
    """Every layer of a network with its own best mapping.

    Attributes:
        keep: the restriction of the layers that have one.
        unfinished: layers that an interruption, or the end of the time, left out.
        left_out: what was left out when the network was read, each with the reason.
        uncounted_words: words that operators without multiply-accumulates move, in no costs.
        totals: null where no layer has a mapping.
    """

    network: str
    accelerator: str
    objective: Objective
    keep: Kept | None
    seconds: float
    interrupted: bool
    unfinished: list[str]
    from_store: bool
    left_out: list[str]
    uncounted_words: dict[str, int]
    moves: list[OperatorMoves]
    layers: list[FoundLayer | LayerWithout]
    totals: NetworkTotalsAnswer | None


class JointLayer(Costs):
    """A layer of a network whose layers were chosen together; costs are of one occurrence."""

    workload: str
    count: int


class JointTotals(Costs):
    """The network's totals.

    Attributes:
        chip_power_w: mean power with everything on: what leaks of idle instances, too, W.
        inferences_per_joule: networks per joule; null where they need no energy.
        proven: whether no mappings have less of the objective in all.
        lower_bound: what none are below.
        gap: how far the choice can be above the optimum; null: however far.
        lines: bounds of the certificate.
    """

    chip_power_w: float
    inferences_per_joule: float | None
    proven: bool
    lower_bound: float
    gap: float | None
    lines: int


class JointAnswer(TypedDict):
    """A network whose layers' mappings were chosen together."""

    network: str
    accelerator: str
    objective: Objective
    jointly: Literal[True]
    max_cycles: int | None
    max_energy_pj: float | None
    seconds: float
    interrupted: bool
    from_store: bool
    uncounted_words: dict[str, int]
    moves: list[OperatorMoves]
    layers: list[JointLayer]
    totals: JointTotals


class ResidentLayer(Costs):
    """A layer of a network with tensors that stay on the chip."""

    workload: str
    count: int
    input_stays: bool
    output_stays: bool
    resident_words: int
    fused: bool
    iterations: int


class FusedCascade(TypedDict):
    """Layers in a row that could run in passes together, and what each way to run them takes.

    Attributes:
        outer: dimension and trip count of each shared loop, the outermost first.
        kept: tensors whose pieces stay between passes.
        words: in the buffer beside the tiles of the layer that runs, the most of them.
        passes: of the shared loops.
        overlaps: whether passes compute rows again that a window needs.
    """

    layers: list[str]
    chosen: bool
    outer: list[list[str | int]]
    kept: list[str]
    words: int
    fused: Costs
    staying: Costs
    alone: Costs
    passes: int
    overlaps: bool


class ResidentTotals(Costs):
    """The whole network, and what it costs where nothing stays.

    Attributes:
        staying: the objective where tensors stay whole or not at all; null: fusing was not asked.
        alone: where nothing stays; this, what staying is worth, and `staying` are null, too, where
            nothing is known within the limit then.
    """

    proven: bool
    lower_bound: float
    gap: float
    lines: int
    alone: float | None
    alone_proven: bool
    staying: float | None
    worth: float | None


class ResidentAnswer(TypedDict):
    """A network whose mappings and tensors that stay on the chip were chosen together.

    Attributes:
        energy_by_level: pJ, of networks and multiply-accumulates, too; `other`: pieces that stay
            between passes, operators between layers, leakage.
    """

    network: str
    accelerator: str
    objective: Objective
    resident: Literal[True]
    fused: bool
    max_cycles: int | None
    max_energy_pj: float | None
    buffer: str
    seconds: float
    interrupted: bool
    from_store: bool
    moves: list[OperatorMoves]
    energy_by_level: dict[str, float]
    layers: list[ResidentLayer]
    cascades: list[FusedCascade]
    totals: ResidentTotals


class SimulatedAnswer(TypedDict):
    """The best mapping by a simulator of one's own.

    Attributes:
        value: of the objective.
        workload: its hash.
        accelerator: likewise.
        model: name and version.
        budget: iterations and seconds; null: no limit.
        failures: simulations that failed, and count as unable to run.
        last_failure: why the last of them did.
    """

    record: JsonRecord
    value: float
    workload: str
    accelerator: str
    model: str
    budget: list[float | None]
    searcher: str
    objective: Objective
    seed: int
    iterations: int
    seconds: float
    workers: int
    failures: int
    last_failure: str
    from_store: bool


class Product(TypedDict):
    """A matrix product."""

    name: str
    dims: dict[str, int]


class TileAnswer(TypedDict):
    """The best tiling of a matrix product for this processor.

    Attributes:
        tilings: how many there are.
        latency: of the best, in `unit`.
        unit: s, or cycles of the model.
        factors: the tiling.
        gflops: billions of operations a second, where it was measured.
        numpy_seconds: what NumPy takes on one core, likewise.
        optimum: the least latency, where it is known.
    """

    workload: Product
    model: str
    model_version: str
    searcher: str
    seed: int
    iterations: int
    seconds: float
    interrupted: bool
    from_store: bool
    tilings: int
    latency: float
    unit: str
    factors: dict[str, Any]
    record: JsonRecord
    gflops: NotRequired[float | None]
    numpy_seconds: NotRequired[float]
    optimum: NotRequired[float]
