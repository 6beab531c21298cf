"""Searchers: they propose mappings and are told what the mappings cost.

`SEARCHERS` is lazy: a searcher's module, and whatever library it needs, is imported when the
searcher is made. Adding one takes a file and a line here; the contract tests run over this table.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from costmodel.errors import ConfigError
from searchers.base import Evaluate, Searcher
from searchers.evaluator import Evaluator, TrialResult

if TYPE_CHECKING:
    from costmodel.space import Space

SEARCHERS: Mapping[str, str] = MappingProxyType(
    {
        "annealing": "searchers.annealing:Annealing",
        "cma-es": "searchers.cma_es:CMAES",
        "ddpg": "searchers.ddpg:DDPG",
        "exact": "searchers.exact:Exact",
        "gbfs": "searchers.gbfs:GBFS",
        "genetic": "searchers.genetic:Genetic",
        "gradient": "searchers.gradient:Gradient",
        "marvel": "searchers.marvel:Marvel",
        "model-guided": "searchers.model_guided:ModelGuided",
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
    }
)

__all__ = [
    "SEARCHERS",
    "Evaluate",
    "Evaluator",
    "Searcher",
    "TrialResult",
    "hyperparameters",
    "make",
    "searcher_class",
]


def searcher_class(name: str) -> type[Searcher]:
    """The class registered under a name.

    Raises:
        ConfigError: the name is unknown; the message lists the known ones.
    """
    if name not in SEARCHERS:
        raise ConfigError(f"Unknown searcher {name!r}; known: {', '.join(sorted(SEARCHERS))}.")
    module, _, attribute = SEARCHERS[name].partition(":")
    found: type[Searcher] = getattr(importlib.import_module(module), attribute)
    return found


def hyperparameters(name: str) -> dict[str, Any]:
    """The hyperparameters of a searcher and their defaults (`inspect.Parameter.empty`: none).

    Raises:
        ConfigError: the name is unknown.
    """
    signature = inspect.signature(searcher_class(name).__init__)
    return {
        parameter.name: parameter.default
        for parameter in signature.parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.name != "seed"
    }


def make(
    name: str, space: Space, *, seed: int, preset: str | None = None, **parameters: Any
) -> Searcher:
    """Makes a searcher.

    Args:
        name: a key of `SEARCHERS`.
        space: where to search.
        seed: non-negative; decides the whole run.
        preset: a key of the searcher's `PRESETS`; `parameters` override it.
        parameters: hyperparameters of this searcher.

    Raises:
        ConfigError: an unknown name, preset or hyperparameter (the message lists the known ones),
            or a value that is not allowed.
    """
    cls = searcher_class(name)
    known = hyperparameters(name)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ConfigError(
            f"Unknown hyperparameter {', '.join(unknown)} of searcher {name}; known: "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    chosen: dict[str, Any] = {}
    if preset is not None:
        if preset not in cls.PRESETS:
            raise ConfigError(
                f"Unknown preset {preset!r} of searcher {name}; known: "
                f"{', '.join(sorted(cls.PRESETS)) or 'none'}."
            )
        chosen.update(cls.PRESETS[preset])
    return cls(space, seed=seed, **{**chosen, **parameters})
