"""Searchers: they propose mappings and are told what the mappings cost.

`SEARCHERS` is lazy: a searcher's module, and whatever library it needs, is imported when the
searcher is made. Adding one takes a file and a line here, or a plug-in in a package of its own
(docs/extending.md); the contract tests run over this table.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costmodel.space import Space
from mapspace import plugins
from mapspace.arguments import checked
from mapspace.errors import ConfigError, together
from mapspace.extras import is_installed, needs
from searchers.base import Evaluate, Library, Searcher, check_seed
from searchers.context import Context
from searchers.evaluator import Evaluator, TrialResult, check_budget
from searchers.options import Options

SEARCHERS = plugins.Registry(
    "searcher",
    plugins.SEARCHERS,
    {
        "annealing": "searchers.annealing:Annealing",
        "cma-es": "searchers.cma_es:CMAES",
        "ddpg": "searchers.ddpg:DDPG",
        "exact": "searchers.exact:Exact",
        "factorflow": "searchers.factorflow:FactorFlow",
        "gamma": "searchers.gamma:Gamma",
        "gbfs": "searchers.gbfs:GBFS",
        "genetic": "searchers.genetic:Genetic",
        "gradient": "searchers.gradient:Gradient",
        "islands": "searchers.islands:Islands",
        "loma": "searchers.loma:Loma",
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
        "salsa": "searchers.salsa:Salsa",
        "structured": "searchers.structured:Structured",
        "surrogate-guided": "searchers.surrogate_guided:SurrogateGuided",
        "timeloop": "searchers.timeloop:Timeloop",
        "xgboost": "searchers.xgboost:XGBoost",
    },
)

__all__ = [
    "SEARCHERS",
    "Context",
    "Evaluate",
    "Evaluator",
    "Library",
    "Options",
    "Searcher",
    "TrialResult",
    "check",
    "check_budget",
    "hyperparameters",
    "make",
    "resolved",
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


def resolved(name: str, preset: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All hyperparameters that a search runs with, as JSON types.

    Args:
        name: a key of `SEARCHERS`.
        preset: as in `make`.
        parameters: those that the user wrote.

    Raises:
        ConfigError: as in `make`.
    """
    return searcher_class(name).OPTIONS.read(name, preset, parameters).resolved()


def check_names(name: str, parameters: Mapping[str, Any]) -> None:
    """Refuses what is no hyperparameter of a searcher.

    Raises:
        ConfigError: one is unknown; the message lists the known ones.
    """
    searcher_class(name).OPTIONS.check_names(name, parameters)


def check(
    name: str, space: Space, *, seed: int = 0, preset: str | None = None, **parameters: Any
) -> Options:
    """What a searcher is made with, looked at before anything is compiled, read or begun.

    Args:
        name: as in `make`, like all that follows.
        space: where to search.
        seed: decides the run.
        preset: a key of the presets.
        parameters: hyperparameters.

    Raises:
        ConfigError: as `make`, all that is wrong at once.
    """
    cls = searcher_class(name)

    def read() -> Options:
        options = cls.OPTIONS.read(name, preset, parameters)
        cls.check(name, space, options)
        return options

    options: Options
    options, *_ = together(read, lambda: check_seed(seed), lambda: _check_libraries(name, cls))
    return options


def _check_libraries(name: str, cls: type[Searcher]) -> None:
    """Refuses a searcher whose libraries are not all there; none is imported."""
    missing = [library for library in cls.libraries() if not is_installed(library)]
    if cls.LIBRARY is not None and missing == [cls.LIBRARY.module]:
        raise _without_library(name, cls.LIBRARY)
    if missing:
        raise ConfigError(f"The {name} searcher: {needs(missing)}")


def _without_library(name: str, library: Library) -> ConfigError:
    return ConfigError(
        f"The {name} searcher needs the library {library.module}: {library.install}."
    )


@checked
def make(
    name: str,
    space: Space,
    *,
    seed: int = 0,
    preset: str | None = None,
    context: Context | None = None,
    **parameters: Any,
) -> Searcher:
    """Makes a searcher.

    Args:
        name: a key of `SEARCHERS`.
        space: where to search.
        seed: non-negative; decides the whole run.
        preset: a key of the presets of the searcher's options; `parameters` override it.
        context: what the host knows of the run: objective, budget, surrogate; None: nothing.
        parameters: hyperparameters of this searcher; also what it `USES` of a context, such as
            `predictor=`, in place of the context's.

    Raises:
        ConfigError: an unknown name, preset or hyperparameter (the message lists the known ones),
            a value that is not allowed, a space of another kind, or a missing library.
    """
    cls = searcher_class(name)
    of_context = cls.USES - {*cls.OPTIONS.model_fields}
    told = {key: parameters.pop(key) for key in of_context & {*parameters}}
    options = cls.OPTIONS.read(name, preset, parameters)
    cls.check(name, space, options)
    if cls.LIBRARY is not None:
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(cls.LIBRARY.module)
        except ImportError as error:
            raise _without_library(name, cls.LIBRARY) from error
    if not cls.USES:
        return cls(space, options, seed=seed)
    return cls(space, options, seed=seed, context=replace(context or Context(), **told))
