"""Workers of a shared proof that search for good mappings as well, which others must beat.

The structured searcher starts anew after some 1,300 mappings, so that others from other seeds find
what one from its seed does not: they are for workers that have nothing to settle yet.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from costmodel.exact.pool import Limit
from costmodel.exact_any.pieces import Piece, PieceProver, Settled, Walk
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.constrained_tables import as_read
from searchers.evaluator import Evaluator
from searchers.exact import kept_space
from searchers.structured import LONGEST_WALK, Structured, StructuredOptions

WALKS = 200
"""Compiled walks of the structured searcher before the pieces: 100,000 mappings, however long they
take."""

PIECE_WALKS = 50
"""Those of a piece, a fifth of a second on the largest spaces: all that is dealt after it waits for
it to be merged."""


class WalkingProver(PieceProver):
    """Settles pieces and walks."""

    def settle(self, piece: Piece | Walk, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`; what a walk finds does not depend on the limit."""
        if isinstance(piece, Piece):
            return (yield from super().settle(piece, limit))
        space = self.space if self.keep is None else kept_space(self.space, self.keep)
        evaluate = Evaluator(
            LoopNestModel(), space, objective=self.objective, iterations=PIECE_WALKS * LONGEST_WALK
        )
        searcher = Structured(space, StructuredOptions(), seed=piece.seed)
        while evaluate.remaining > 0:
            if not evaluate.walk(searcher.walk):
                searcher.step(evaluate, LONGEST_WALK)
            yield
        codes = np.zeros((0, space.cardinality.size), np.int32)
        if evaluate.best_code is not None:
            codes = evaluate.best_code[None]
        return Settled(as_read(space.tables, codes, self.space.tables), (), None, {}, ())
