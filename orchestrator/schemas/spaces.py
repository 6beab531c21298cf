"""What `mapspace space` prints."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

# A sample's numbers have digits and a point in their names, so that this is no class.
Statistics = TypedDict(
    "Statistics",
    {
        "mean": float,
        "standard_deviation": float,
        "minimum": float,
        "maximum": float,
        "quantile_0.01": float,
        "quantile_0.05": float,
        "quantile_0.25": float,
        "median": float,
        "quantile_0.75": float,
        "quantile_0.95": float,
        "quantile_0.99": float,
    },
)


class SampleAnswer(TypedDict):
    """What feasible mappings, drawn uniformly, cost over the algorithmic minimum.

    Attributes:
        drawn: mappings drawn, infeasible ones included; null where that is not counted.
        feasible_share: of these; likewise.
        rejected: how many for which reason.
    """

    samples: int
    drawn: int | None
    feasible_share: float | None
    rejected: dict[str, int]
    energy: Statistics
    cycles: Statistics
    edp: Statistics


class OptimumAnswer(TypedDict):
    """The proven optimum of a space, beside its sample.

    Attributes:
        edp: pJ x cycles.
        normalised_edp: over the algorithmic minimum.
        best_sample_above: how far the sample's best is above it, as a share.
        within_10_percent: share of the sample.
        within_twice: likewise.
    """

    edp: float
    latency_s: float
    edp_js: float
    power_w: float
    normalised_edp: float
    best_sample_above: float
    median_above: float
    mean_above: float
    within_10_percent: float
    within_twice: float


class SizesAnswer(TypedDict):
    """How large a map space is.

    Attributes:
        attributes: values of each.
        mappings: in all, infeasible ones included; text, for it may have many digits.
        log10: of it.
    """

    attributes: dict[str, int]
    mappings: str
    log10: float


class SpaceAnswer(SampleAnswer, SizesAnswer):
    """A map space.

    Attributes:
        feasible: how many are, as text; null where nobody has counted them.
        optimum: null where it is not proven, and `optimum_note` says why.
    """

    workload: str
    accelerator: str
    feasible: str | None
    optimum: OptimumAnswer | None
    optimum_note: str


class SurfaceAnswer(TypedDict):
    """The cost surface over two attributes.

    Attributes:
        dimensions: the dimensions whose tilings vary, or other attributes such as `order.L2`.
        whole: how many values they have; `shape` says how many of them were taken.
        proven: whether the mapping that it lies around is the proven best one.
        minimum: normalised EDP.
        maximum: likewise.
        local_minima: points, or plateaus, without a lower neighbour.
    """

    dimensions: list[str]
    proven: bool
    shape: list[int]
    whole: list[int]
    points: int
    feasible: int
    minimum: float
    maximum: float
    local_minima: int


class _Asked(TypedDict):
    """What is common to both.

    Attributes:
        from_store: whether all optima were read from the store; samples are drawn anew.
    """

    accelerator: str
    model: str
    model_version: str
    seed: int
    interrupted: bool
    from_store: bool


class SpacesAnswer(_Asked):
    """Map spaces of operations on a machine.

    Attributes:
        pooled: all spaces together, the same number of mappings of each.
        surface: of `--plot`.
    """

    spaces: list[SpaceAnswer]
    pooled: NotRequired[SampleAnswer]
    surface: NotRequired[SurfaceAnswer]


class FamilyAnswer(_Asked, SampleAnswer):
    """Random mappings of random problems of a family."""

    family: str
    problems: int
