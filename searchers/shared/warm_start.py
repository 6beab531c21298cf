"""A search that begins from mappings which somebody else thinks good."""

from __future__ import annotations

import numpy as np

from costmodel.space import Codes
from searchers.base import Evaluate, Searcher


def begin_from(searcher: Searcher, evaluate: Evaluate, codes: Codes) -> None:
    """Evaluates mappings, which count as queries, and lets a searcher know them.

    Args:
        searcher: one that takes migrants, and has not been asked.
        evaluate: owns the budget.
        codes: `[m, D]` feasible mappings.
    """
    codes = codes[: evaluate.remaining]
    if len(codes):
        losses = evaluate(codes)
        good = np.isfinite(losses)
        if good.any():
            searcher.take_in(codes[good], losses[good])
