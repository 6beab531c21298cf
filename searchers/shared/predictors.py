"""What searchers need of a surrogate; `surrogate` offers it, and neither imports the other.

Letters: m mappings, F features of an encoded mapping, G values that a surrogate derives from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mapspace.errors import ConfigError

if TYPE_CHECKING:
    from costmodel.space import Space


@runtime_checkable
class Predictor(Protocol):
    """What the search needs of a surrogate: predicted EDP of encoded mappings, differentiable."""

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


def fitting(predictor: Predictor | None, space: Space, searcher: str) -> Predictor:
    """The surrogate that a searcher was given.

    Raises:
        ConfigError: there is none, or it reads points of another width than the space encodes.
    """
    if predictor is None:
        raise ConfigError(
            f"The {searcher} searcher needs a surrogate (parameter predictor): train one with "
            "`mapspace train`, or use a workload and accelerator that a shipped one fits."
        )
    if not isinstance(predictor, Predictor):
        raise ConfigError(
            f"Hyperparameter predictor must be a surrogate, got a {type(predictor).__name__}."
        )
    width = len(space.feature_names)
    if predictor.scale.shape != (width,):
        raise ConfigError(
            f"The surrogate reads {predictor.scale.shape[0]} values per mapping; this space "
            f"encodes {width}."
        )
    return predictor
