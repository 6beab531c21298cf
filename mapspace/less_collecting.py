"""How often a command looks for rubbish: nearly all that it makes is kept until it ends."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Any

# New objects among which rubbish is looked for; Python takes 700.
COLLECTED_AT_ONCE = 50_000


def collect_less() -> None:
    """Makes this process look through its objects more seldom, and not once more when it ends.

    Either took a twentieth of a benchmark that was read from the store.
    """
    gc.set_threshold(COLLECTED_AT_ONCE)
    atexit.register(_keep_all)


def _keep_all() -> None:
    """Leaves the end nothing to look through, unless somebody would complain of that.

    Extension modules made with nanobind, such as DuckDB, name on standard error what was not
    collected before they end.
    """
    if not any(map(_is_of_nanobind, [*sys.modules.values()])):
        gc.freeze()


def _is_of_nanobind(module: Any) -> bool:
    members = [*getattr(module, "__dict__", {}).values()]
    return any(type(member).__module__ == "nanobind" for member in members)
