"""`ms.tune`: searchers for a `ray.tune.Tuner` of one's own, and a logger of its trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapspace.lazy import lazy

if TYPE_CHECKING:
    from orchestrator.mapping_search import MappingSearch
    from orchestrator.tune_logging import MLflowLoggerCallback

__all__ = ["MLflowLoggerCallback", "MappingSearch"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "MLflowLoggerCallback": "orchestrator.tune_logging",
            "MappingSearch": "orchestrator.mapping_search",
        },
    )
