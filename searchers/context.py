"""What a host knows of a run and its searcher may make use of: no hyperparameter, nobody chose it.

Hosts are the commands, benchmarks, Tune and whoever else makes a searcher. A searcher names in
`Searcher.USES` what it reads, so that a host brings what takes long, such as a surrogate, to those
alone that ask for it. `surrogate` offers a `Predictor`, and neither package imports the other.

Letters: m mappings, F features of an encoded mapping, G values that a surrogate derives from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from costmodel.costs import OBJECTIVES, Objective
from mapspace.errors import ConfigError


@runtime_checkable
class Predictor(Protocol):
    """What the search needs of a surrogate: predicted EDP of encoded mappings, differentiable.

    One that also predicts other objectives has `for_objective(objective)`, a predictor that says
    that in place of EDP.
    """

    @property
    def scale(self) -> npt.NDArray[np.float64]:
        """`[F]` standard deviations of the encoded values in training, above 0."""
        ...

    def value(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """`[m]` predicted ln EDP (normalised) of points `[m, F]`."""
        ...

    def value_and_gradient(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Predicted ln EDP `[m]`, and the gradient `[m, F]` of the EDP itself."""
        ...

    def describe(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """`[m, G]` what the surrogate derives from points `[m, F]` before it predicts: no query."""
        ...

    def value_and_slope(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Predicted ln EDP `[m]`, the description, and ln EDP's gradient by it, `[m, G]` each."""
        ...


@dataclass(frozen=True)
class Context:
    """What a host knows of a run.

    Attributes:
        objective: what a loss is.
        iterations: budget of queries; None: none.
        seconds: budget of search time, s; None: none.
        query_latency: virtual seconds that a true query takes.
        threads: how many may work at a time; None: the searcher decides.
        predictor: a trained surrogate that fits the space.
    """

    objective: Objective = "edp"
    iterations: int | None = None
    seconds: float | None = None
    query_latency: float = 0.0
    threads: int | None = None
    predictor: Predictor | None = None

    def __post_init__(self) -> None:
        """Refuses an objective that is none.

        Raises:
            ConfigError: the known ones.
        """
        if self.objective not in OBJECTIVES:
            raise ConfigError(
                f"objective: expected one of {', '.join(OBJECTIVES)}, got {self.objective!r}."
            )
