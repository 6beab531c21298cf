"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mapspace.errors import ConfigError
from mapspace.extras import what_is_missing
from mapspace.near_names import meant


def lazy(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names lie elsewhere.

    Args:
        package: the package, `__name__` within it.
        places: the module of each name; the package itself for its own modules.

    Returns:
        What looks a name up in its module, and keeps it in the package.
    """

    def find(name: str) -> Any:
        if name not in places:
            hint = "" if name.startswith("_") else meant(name, places).removesuffix(".")
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        if places[name] == package:
            return importlib.import_module(f"{package}.{name}")  # a module of it
        try:
            found = getattr(importlib.import_module(places[name]), name)
        except ModuleNotFoundError as error:
            if (needed := what_is_missing(error)) is None:
                raise
            raise ConfigError(needed) from error
        setattr(sys.modules[package], name, found)
        return found

    return find
