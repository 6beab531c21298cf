"""Which extra brings a library that is not there.

The core is the cost models, map spaces, proofs, searchers and plots; whatever else is needed is an
extra of the package, and is imported by what needs it, when it needs it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from mapspace.errors import ConfigError

EXTRA_OF = {
    "cmaes": "baselines",
    "duckdb": "store",
    "fsspec": "ray",
    "gymnasium": "ray",
    "hwcomponents_cacti": "components",
    "mcp": "mcp",
    "mlflow": "tracking",
    "nevergrad": "baselines",
    "onnx": "onnx",
    "optuna": "baselines",
    "pandas": "ray",
    "pyarrow": "ray",
    "ray": "ray",
    "safetensors": "surrogate",
    "scipy": "baselines",
    "torch": "surrogate",
    "tvm": "tvm",
    "xgboost": "baselines",
}


def install(*extras: str) -> str:
    """What a user types to have some extras."""
    return f"pip install 'mapspace[{','.join(extras)}]'"


def is_installed(library: str) -> bool:
    """Whether a library is there; it is not imported."""
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def what_is_missing(error: ModuleNotFoundError) -> str | None:
    """One line that says what to install; None where the library is of no extra."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRA_OF:
        return None
    return needs([library])


def needs(libraries: Iterable[str]) -> str:
    """One line that says what to install for libraries that are not there."""
    found = sorted(set(libraries))
    named = " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)
    extras = sorted({EXTRA_OF[library] for library in found})
    verb = "is" if len(found) == 1 else "are"
    return f"This needs {named}, which {verb} not installed: {install(*extras)}."


def require(libraries: Iterable[str]) -> None:
    """Refuses work for which libraries are missing, before it begins.

    Raises:
        ConfigError: all of them, and what to install.
    """
    missing = [library for library in libraries if not is_installed(library)]
    if missing:
        raise ConfigError(needs(missing))
