"""`ms.tune`: searchers for a `ray.tune.Tuner` of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapspace.lazy import lazy

if TYPE_CHECKING:
    from orchestrator.mapping_search import MappingSearch

__all__ = ["MappingSearch"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"MappingSearch": "orchestrator.mapping_search"})
