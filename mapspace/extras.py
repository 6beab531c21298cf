"""Which extra brings a library that is not there.

The core is the cost models, map spaces, proofs, searchers and plots; whatever else is needed is an
extra of the package, and is imported by what needs it, when it needs it.
"""

from __future__ import annotations

import importlib.util

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


def install(extra: str) -> str:
    """What a user types to have an extra."""
    return f"pip install 'mapspace[{extra}]'"


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
    return f"This needs {library}, which is not installed: {install(EXTRA_OF[library])}."
