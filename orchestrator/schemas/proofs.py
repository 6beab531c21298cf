"""What `mapspace verify`, `pareto` and `bypass` print."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.schemas.costs import Costs, JsonRecord, Kept


class SecondLookAnswer(TypedDict):
    """What came of looking without the prover.

    Attributes:
        mappings: how many were looked at.
    """

    holds: bool
    complete: bool
    mappings: int


class VerifyAnswer(TypedDict):
    """What came of proving a certificate again.

    Attributes:
        holds: whether every claim that was checked is true.
        findings: a line per claim: what was checked and what came.
        not_verified: a line per thing that the certificate says and nothing checked.
        problem_hash: of operation, machine, objective and restriction; null of several problems.
        keep: the restriction; null where the claims are about all mappings.
        complete: whether the time sufficed.
        independent: null where nobody asked for it.
    """

    holds: bool
    findings: list[str]
    not_verified: list[str]
    problem_hash: str | None
    keep: Kept | None
    seconds: float
    complete: bool
    independent: SecondLookAnswer | None


class FrontPoint(Costs):
    """A mapping that no other beats in energy and latency at once.

    Attributes:
        elements: multiply-accumulate units in use.
        above_least_energy: how far its energy is above the front's least, as a share.
        energy_bound_pj: what no mapping as fast undercuts; its own energy where that is proven.
    """

    elements: int
    above_least_energy: float
    energy_bound_pj: float
    record: JsonRecord


class FrontBound(TypedDict):
    """A corner below which no mapping lies.

    Attributes:
        latency_cycles: from so many cycles on, up to those of the next corner,
        energy_pj: no mapping needs less; fewer cycles than the first corner's no mapping takes.
    """

    latency_cycles: int
    energy_pj: float


class ParetoAnswer(TypedDict):
    """The energy-latency front, the fastest mapping first.

    Attributes:
        proven: whether it is all of the front; else what is known of it.
        bounds: what no mapping can be below; the front itself once it is proven.
    """

    workload: str
    accelerator: str
    proven: bool
    from_store: bool
    front: list[FrontPoint]
    bounds: list[FrontBound]


class DeliveryAnswer(TypedDict):
    """How the multiply-accumulates get at a tensor.

    Attributes:
        level: the innermost level that keeps it.
        macs_per_access: multiply-accumulates that one access serves.
        pj_per_mac: energy of those accesses, pJ per multiply-accumulate.
        words_per_cycle: words that the level moves for it.
        free: whether the model charges nothing for the way to the elements.
    """

    tensor: str
    level: str
    macs_per_access: float
    pj_per_mac: float
    words_per_cycle: float
    free: bool


class BypassBestAnswer(Costs):
    """The best mapping of a layer, with every tensor kept or with bypass searched.

    Attributes:
        gap: how far it can be above the best one, as a share; null: however far.
        energy_share: by level, of the network and of the multiply-accumulates.
        skips: tensors that skip a level, by level.
    """

    proven: bool
    gap: float | None
    energy_share: dict[str, float]
    skips: dict[str, list[str]]
    deliveries: list[DeliveryAnswer]
    record: JsonRecord
    from_store: bool


class BypassLayerAnswer(TypedDict):
    """What bypass is worth for a layer; the keys behind `failure` are there where it has mappings.

    Attributes:
        degenerate: whether the model charges nothing for a way that bypass takes.
    """

    count: int
    workload: str
    failure: str | None
    kept: NotRequired[BypassBestAnswer]
    searched: NotRequired[BypassBestAnswer]
    edp_ratio: NotRequired[float]
    energy_ratio: NotRequired[float]
    latency_ratio: NotRequired[float]
    degenerate: NotRequired[bool]


class BypassTotals(TypedDict):
    """Sums over layers that have both mappings.

    Attributes:
        degenerate: how many layers of them are.
    """

    kept: Costs
    searched: Costs
    edp_ratio: float
    degenerate: int
    layers: int


class BypassAnswer(TypedDict):
    """What bypass is worth on a machine.

    Attributes:
        network: null of a single operation.
        totals: null where no layer has both mappings.
    """

    accelerator: str
    network: str | None
    objective: Literal["edp"]
    seconds: float
    interrupted: bool
    from_store: bool
    layers: list[BypassLayerAnswer]
    totals: BypassTotals | None
