"""What a host tells a searcher of its run, with a surrogate for those that follow one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import searchers
from surrogate.for_space import predictor

if TYPE_CHECKING:
    from costmodel.space import Space
    from searchers import Context


def context_for(searcher: str, space: Space, known: Context, surrogate: str | None) -> Context:
    """What a searcher is told.

    Args:
        searcher: a key of `SEARCHERS`.
        space: where it searches.
        known: what the host knows of the run.
        surrogate: a surrogate's folder or URI; None: the shipped one that fits.

    Raises:
        ConfigError: the searcher is unknown, or it follows a surrogate and none fits.
        DataError: the surrogate's files are missing or damaged.
    """
    if "predictor" not in searchers.searcher_class(searcher).USES:
        return known
    return replace(known, predictor=predictor(space, surrogate))
