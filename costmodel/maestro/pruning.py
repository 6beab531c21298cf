"""What an enumeration of on-chip mappings leaves out: Marvel's strategies, and its baselines.

Source: Chatarasi et al., "Marvel", 2020, section 3.2 (Algorithm 1) and 4.2 (dataflows).
"""

from __future__ import annotations

from dataclasses import dataclass

from mapspace.errors import ConfigError


@dataclass(frozen=True)
class Pruning:
    """The strategies of Algorithm 1, each with its switch.

    Raises:
        ConfigError: one that cannot be switched off here is, or the bound is out of range.
    """

    symmetry: bool = True
    """Where tile and filter are square, P runs outside Q. Keeps the optimum."""
    unroll_filter: bool = True
    """R and S are not tiled. May lose the optimum; always on in this model."""
    batch_one: bool = True
    """There is no loop over a batch. Keeps the optimum of a batch of one; always on."""
    utilisation_bound: float = 0.0
    """Least share of the processing elements in use, 0 to 1. May lose the optimum above 0."""
    no_remainders: bool = True
    """Tiles and factors divide. May lose the optimum; off needs fidelity `corrected`."""
    finite_l1: bool = True
    """L1 holds two level-1 tiles. Loses only what cannot run; off asks what L1 costs."""

    def __post_init__(self) -> None:
        for name in ("unroll_filter", "batch_one"):
            if not getattr(self, name):
                raise ConfigError(f"{name}: always on in this model, got False.")
        if not 0 <= self.utilisation_bound <= 1:
            raise ConfigError(
                f"utilisation_bound: expected 0 to 1, got {self.utilisation_bound!r}."
            )


@dataclass(frozen=True)
class Dataflow:
    """A reference dataflow: a loop order, nested parallel dimensions, level-1 tiles of one."""

    order: str
    parallel: str
    single: str
    row_stationary: bool = False
    """Clusters of one processing element per filter row, where the filter has several."""


DATAFLOWS = {
    "KC": Dataflow("KCQP", "KC", "PQ"),  # NVDLA
    "QP": Dataflow("KCQP", "QP", "KC"),  # ShiDianNao
    "QR": Dataflow("KCQP", "Q", "Q", row_stationary=True),  # Eyeriss
}
"""The reference dataflows of section 4.2; each may leave its parallel dimensions at factor 1."""
