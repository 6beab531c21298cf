"""Searchers: they propose mappings and are told what the mappings cost.

`SEARCHERS` is lazy: a searcher's module, and whatever library it needs, is imported when the
searcher is made. Adding one takes a file and a line here, or a plug-in in a package of its own
(docs/extending.md); the contract tests run over this table.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mapspace import plugins
from mapspace.errors import ConfigError
from searchers.base import Evaluate, Library, Searcher
from searchers.evaluator import Evaluator, TrialResult, check_budget
from searchers.options import Options

if TYPE_CHECKING:
    from costmodel.space import Space

SEARCHERS = plugins.Registry(
    "searcher",
    plugins.SEARCHERS,
    {
        "annealing": "searchers.annealing:Annealing",
        "cma-es": "searchers.cma_es:CMAES",
        "ddpg": "searchers.ddpg:DDPG",
        "exact": "searchers.exact:Exact",
        "gbfs": "searchers.gbfs:GBFS",
        "genetic": "searchers.genetic:Genetic",
        "gradient": "searchers.gradient:Gradient",
        "islands": "searchers.islands:Islands",
        "marvel": "searchers.marvel:Marvel",
        "model-guided": "searchers.model_guided:ModelGuided",
        "multi-fidelity": "searchers.multi_fidelity:MultiFidelity",
        "na2c": "searchers.na2c:NA2C",
        "nevergrad": "searchers.nevergrad:Nevergrad",
        "optuna": "searchers.optuna:Optuna",
        "ppo": "searchers.ppo:PPO",
        "primitive-annealing": "searchers.primitive_annealing:PrimitiveAnnealing",
        "random": "searchers.random:Random",
        "rnn": "searchers.rnn:RNN",
        "structured": "searchers.structured:Structured",
        "surrogate-guided": "searchers.surrogate_guided:SurrogateGuided",
        "xgboost": "searchers.xgboost:XGBoost",
    },
)

__all__ = [
    "SEARCHERS",
    "Evaluate",
    "Evaluator",
    "Library",
    "Options",
    "Searcher",
    "TrialResult",
    "check_budget",
    "hyperparameters",
    "make",
    "searcher_class",
]


def searcher_class(name: str) -> type[Searcher]:
    """The class registered under a name.

    Raises:
        ConfigError: the name is unknown (the message lists the known ones), or a plug-in that
            cannot be imported.
    """
    found: type[Searcher] = SEARCHERS.load(name, Searcher, subclass=True)
    return found


def hyperparameters(name: str) -> dict[str, Any]:
    """The hyperparameters of a searcher and their defaults.

    Raises:
        ConfigError: the name is unknown.
    """
    fields = searcher_class(name).OPTIONS.model_fields
    return {key: field.default for key, field in fields.items()}


def check_names(name: str, parameters: Mapping[str, Any]) -> None:
    """Refuses what is no hyperparameter of a searcher.

    Raises:
        ConfigError: one is unknown; the message lists the known ones.
    """
    searcher_class(name).OPTIONS.check_names(name, parameters)


def make(
    name: str, space: Space, *, seed: int = 0, preset: str | None = None, **parameters: Any
) -> Searcher:
    """Makes a searcher.

    Args:
        name: a key of `SEARCHERS`.
        space: where to search.
        seed: non-negative; decides the whole run.
        preset: a key of the presets of the searcher's options; `parameters` override it.
        parameters: hyperparameters of this searcher.

    Raises:
        ConfigError: an unknown name, preset or hyperparameter (the message lists the known ones),
            a value that is not allowed, a space of another kind, or a missing library.
    """
    cls = searcher_class(name)
    options = cls.OPTIONS.read(name, preset, parameters)
    if cls.SPACES and not isinstance(space, cls.SPACES):
        kinds = " or ".join(kind.__name__ for kind in cls.SPACES)
        raise ConfigError(f"The {name} searcher needs a {kinds}, got {type(space).__name__}.")
    if cls.LIBRARY is not None:
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(cls.LIBRARY.module)
        except ImportError as error:
            raise ConfigError(
                f"The {name} searcher needs the library {cls.LIBRARY.module}: "
                f"{cls.LIBRARY.install}."
            ) from error
    return cls(space, options, seed=seed)
