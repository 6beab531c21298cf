"""The surrogate of a searcher that follows one: there, and of its space and objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mapspace.errors import ConfigError
from searchers.context import Context, Predictor

if TYPE_CHECKING:
    from costmodel.space import Space


def fitting(context: Context, space: Space, searcher: str) -> Predictor:
    """The surrogate that a searcher was given, of what the host minimises.

    Raises:
        ConfigError: there is none, it reads points of another width than the space encodes, or it
            predicts EDP alone and something else is minimised.
    """
    predictor = context.predictor
    if predictor is None:
        raise ConfigError(
            f"The {searcher} searcher needs a surrogate (parameter predictor): train one with "
            "`mapspace train`, or use a workload and accelerator that a shipped one fits."
        )
    if not isinstance(predictor, Predictor):
        raise ConfigError(f"predictor: expected a surrogate, got a {type(predictor).__name__}.")
    width = len(space.feature_names)
    if predictor.scale.shape != (width,):
        raise ConfigError(
            f"The surrogate reads {predictor.scale.shape[0]} values per mapping; this space "
            f"encodes {width}."
        )
    if context.objective == "edp":
        return predictor
    if not hasattr(predictor, "for_objective"):
        raise ConfigError(
            f"objective: the surrogate of the {searcher} searcher predicts edp alone, got "
            f"{context.objective}."
        )
    return cast(Predictor, predictor.for_objective(context.objective))
