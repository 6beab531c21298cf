"""Random search: mappings drawn uniformly among the feasible ones, without a memory."""

from __future__ import annotations

from searchers.base import LARGEST_BATCH, Codes, Losses, Searcher


class Random(Searcher):
    """Independent uniform samples of the feasible mappings, in large batches."""

    def _ask(self, n: int) -> Codes:
        return self.space.sample(self.rng, min(n, LARGEST_BATCH), feasible=True)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        """Nothing to learn."""
