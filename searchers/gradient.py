"""Gradient search through a surrogate, after Mind Mappings (ASPLOS 2021, section 4.2).

Two methods: `screened` (the default) lets the surrogate's gradient choose among the children of the
best mappings so far; `descent` moves a point against the gradient and projects it, as the paper
(preset `paper`) and its released code (`released`) do. docs/results/gradient.md sets them side by
side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from costmodel.space import Codes, Losses
from searchers.base import Searcher
from searchers.context import Context, Predictor
from searchers.options import Presets, Sources
from searchers.shared.predictors import fitting
from searchers.shared.projected_descent import DescentOptions, ProjectedDescent
from searchers.shared.screened_descent import ScreenedDescent, ScreenedOptions

if TYPE_CHECKING:
    from costmodel.space import Space

__all__ = ["Gradient", "GradientOptions", "Predictor", "fitting"]


_OWN = {
    "screened": set(ScreenedOptions.model_fields) - set(DescentOptions.model_fields),
    "descent": set(DescentOptions.model_fields) - set(ScreenedOptions.model_fields),
}


class GradientOptions(ScreenedOptions, DescentOptions):
    """Hyperparameters of the gradient search: of the method, and those of both methods."""

    PRESETS: ClassVar[Presets] = {
        "paper": {
            "method": "descent",
            "chains": 1,
            "step": "whitened",
            "relaxed": False,
            "accounting": "visited",
        },
        "released": {
            "method": "descent",
            "chains": 1,
            "step": "whitened",
            "accounting": "visited",
            "gradient_of": "sum",
            "double_on_stall": True,
            "always_inject": True,
        },
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "Mind Mappings (ASPLOS 2021), section 4.2",
        "released": "the released code of Mind Mappings",
    }
    OF: ClassVar[Mapping[str, str]] = {
        name: f"method {method}" for method, own in _OWN.items() for name in own
    }

    method: Literal["screened", "descent"] | None = None
    """`screened`: children ranked by first-order estimates; `descent`: projected descent. Not
    given, it is `descent` where one of its own parameters is given, else `screened`."""

    def resolved(self) -> dict[str, Any]:
        """The method and its hyperparameters; the other method's are none of this search."""
        other = _OWN["screened" if self.chosen == "descent" else "descent"]
        told = {name: value for name, value in super().resolved().items() if name not in other}
        return {**told, "method": self.chosen}

    @property
    def chosen(self) -> Literal["screened", "descent"]:
        """The method."""
        given = self.model_fields_set & _OWN["descent"]
        return self.method or ("descent" if given else "screened")

    @model_validator(mode="after")
    def _check(self) -> Self:
        other = "screened" if self.chosen == "descent" else "descent"
        foreign = sorted(self.model_fields_set & _OWN[other])
        if foreign:
            raise ValueError(
                f"{foreign[0]} is a parameter of method {other}; this is {self.chosen}."
            )
        return self


_METHODS: dict[str, type[Searcher]] = {"screened": ScreenedDescent, "descent": ProjectedDescent}


class Gradient(Searcher):
    """Search along the gradient of what a surrogate predicts of the objective.

    An iteration is one surrogate query. `accounting` says what else is spent:

    * `deployable`: after every round the best predicted mappings that have no true score get one;
      these true queries are iterations and search time like any other searcher's.
    * `visited`: every visited mapping is scored, off the clock and outside the budget, as the
      paper draws its curves. The search never learns these scores, and could not return the best
      mapping without them.
    """

    OPTIONS = GradientOptions
    USES = frozenset({"objective", "predictor"})
    options: GradientOptions
    functions = 71
    STATE: ClassVar[tuple[str, ...]] = ("_memory",)

    def __init__(
        self, space: Space, options: GradientOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Prepares the method.

        Raises:
            ConfigError: no surrogate, or one that does not fit the space or the objective.
        """
        super().__init__(space, options, seed=seed, context=context)
        self._method = _METHODS[options.chosen](space, options, seed=seed, context=context)
        self.learns = self._method.learns

    @property
    def _memory(self) -> dict[str, Any]:
        return self._method.state_dict()

    @_memory.setter
    def _memory(self, state: dict[str, Any]) -> None:
        self._method.load_state_dict(state)

    def _ask(self, n: int) -> Codes:
        codes = self._method.ask(n)
        self.surrogate_queries = self._method.surrogate_queries
        return codes

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._method.tell(losses)
