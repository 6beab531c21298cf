"""Host two: a `ray.tune` searcher that wraps ours and suggests blocks of mappings.

For cost models that are expensive: Tune's trials are blocks, spread over the cluster and evaluated
by actors that are kept. A proposal is cut into blocks and told when all of them are back, so the
order in which they return changes nothing and the result equals that of a whole-search trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from ray import tune
from ray.tune.search import Searcher as RaySearcher

from costmodel.costs import Costs
from mapspace.errors import ContractError
from orchestrator.pool.delivered import DeliveredCosts
from orchestrator.runs.checkpoints import decode_array, encode_array
from searchers import Evaluator, Searcher

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.space import Codes, CostModel, Space

COST_FIELDS = ("energy_pj", "latency_cycles", "status", "excess")


@dataclass
class Block:
    """A part of a proposal: codes `[b, D]` and, once they are back, their cost arrays."""

    codes: Codes
    costs: dict[str, np.ndarray] | None = None
    suggested: bool = False


class BlockSearch:
    """One search whose proposals are evaluated in blocks by somebody else.

    Attributes:
        searcher: proposes.
        evaluator: owns the budget; its model is a `DeliveredCosts`.
        done: whether the budget is spent or the searcher is exhausted.
    """

    def __init__(self, searcher: Searcher, evaluator: Evaluator, block_size: int) -> None:
        if not isinstance(evaluator.model, DeliveredCosts):
            raise ContractError("A block search needs an evaluator on DeliveredCosts.")
        self.searcher = searcher
        self.evaluator = evaluator
        self.block_size = block_size
        self.done = False
        self._model = evaluator.model
        self._blocks: list[Block] = []
        self._surrogate_queries = 0

    def next_block(self) -> int | None:
        """Index of a block that nobody evaluates yet; None if all are out or the search is done."""
        if not self._blocks:
            self._propose()
        for index, block in enumerate(self._blocks):
            if not block.suggested:
                block.suggested = True
                return index
        return None

    def codes(self, index: int) -> Codes:
        """`[b, D]` codes of a block."""
        return self._blocks[index].codes

    def deliver(self, index: int, costs: Mapping[str, np.ndarray]) -> None:
        """Takes the cost arrays `[b]` of a block; the last one completes the proposal."""
        self._blocks[index].costs = dict(costs)
        if all(block.costs is not None for block in self._blocks):
            self._complete()

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the search continues."""
        return {
            "searcher": self.searcher.state_dict(),
            "evaluator": self.evaluator.state_dict(),
            "surrogate_queries": self._surrogate_queries,
            "done": self.done,
            "blocks": [{"codes": block.codes, "costs": block.costs} for block in self._blocks],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`; blocks that were out then are handed out again."""
        self.searcher.load_state_dict(state["searcher"])
        self.evaluator.load_state_dict(state["evaluator"])
        self._surrogate_queries = int(state["surrogate_queries"])
        self.done = bool(state["done"])
        self._blocks = [
            Block(**block, suggested=block["costs"] is not None) for block in state["blocks"]
        ]

    def _propose(self) -> None:
        """The first half of `Searcher.run`'s loop, up to a proposal that needs true costs."""
        while not self.done:
            remaining = self.evaluator.remaining
            if remaining <= 0:
                self.done = True
                return
            before = self.searcher.surrogate_queries
            codes = self.searcher.ask(remaining)
            self._surrogate_queries = self.searcher.surrogate_queries - before
            if len(codes):
                self._blocks = [
                    Block(codes[start : start + self.block_size])
                    for start in range(0, len(codes), self.block_size)
                ]
                return
            if self._surrogate_queries == 0:
                self.searcher.tell(np.empty(0))
                self.done = True
                return
            self._complete()

    def _complete(self) -> None:
        """The second half: the evaluator counts and records, the searcher is told."""
        costs = [block.costs for block in self._blocks if block.costs is not None]
        codes = np.concatenate(
            [block.codes for block in self._blocks]
            or [np.empty((0, len(self.searcher.space.cardinality)), np.int32)]
        )
        if costs:
            energy, latency, status, excess = (
                np.concatenate([part[name] for part in costs]) for name in COST_FIELDS
            )
            self._model.deliver(Costs(energy, latency, status, excess))
        losses = self.evaluator(
            codes, surrogate_queries=self._surrogate_queries, counted=self.searcher.learns
        )
        self._blocks = []
        self.searcher.tell(losses)


class TuneSearch(RaySearcher):
    """Suggests blocks of mappings of one or several searches to Tune.

    With several, blocks of all of them are out at the same time. What Tune keeps of a search is not
    used: `state_dict` is kept by whoever made this, and a search that loads it continues exactly,
    with the blocks that were out evaluated again.

    Attributes:
        searches: the searches.
        failed: why a block could not be evaluated; no more blocks are suggested then.
    """

    def __init__(
        self,
        searches: Sequence[BlockSearch],
        *,
        keep: Callable[[dict[str, Any]], None] | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Prepares the suggestions.

        Args:
            searches: the searches.
            keep: takes `state_dict()` after a block has come back.
            seconds: the least time between two calls of it.
        """
        super().__init__(metric="best_loss", mode="min")
        self.searches = list(searches)
        self.failed: str | None = None
        self._keep = keep
        self._seconds = seconds
        self._kept = time.monotonic()
        self._out: dict[str, tuple[int, int]] = {}
        self._turn = 0

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """A block, None if all proposals are out, or `FINISHED`."""
        if self.failed is not None:
            return str(RaySearcher.FINISHED)
        for _ in self.searches:
            index = self._turn
            self._turn = (self._turn + 1) % len(self.searches)
            search = self.searches[index]
            block = search.next_block()
            if block is not None:
                self._out[trial_id] = (index, block)
                return {"search": index, "codes": encode_array(search.codes(block))}
        if all(search.done for search in self.searches):
            return str(RaySearcher.FINISHED)
        return None

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes a block's costs, or notes that it failed."""
        if trial_id not in self._out:
            return
        index, block = self._out[trial_id]
        if error or result is None:
            # Its costs stay missing: a run that is continued evaluates it again.
            self.failed = f"block {block} of search {index}"
            return
        del self._out[trial_id]
        costs = {name: decode_array(result[name]) for name in COST_FIELDS}
        self.searches[index].deliver(block, costs)
        if self._keep is not None and time.monotonic() - self._kept >= self._seconds:
            self._keep(self.state_dict())
            self._kept = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the searches continue."""
        return {"searches": [search.state_dict() for search in self.searches]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`."""
        for search, saved in zip(self.searches, state["searches"], strict=True):
            search.load_state_dict(saved)


class EvaluateBlock(tune.Trainable):
    """The trial: evaluates one block in one step. Its actor is kept for the next block."""

    def setup(
        self,
        config: dict[str, Any],
        model: CostModel,
        spaces: Sequence[Space],
        objective: Objective,
    ) -> None:
        """Takes what all blocks share."""
        self._model = model
        self._spaces = spaces
        self._objective = objective

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Makes ready for another block."""
        self.config = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Evaluates the block."""
        codes = decode_array(self.config["codes"])
        costs = self._model.evaluate(self._spaces[self.config["search"]], codes)
        best = float(np.min(costs.objective(self._objective)))
        arrays = {name: encode_array(getattr(costs, name)) for name in COST_FIELDS}
        return {"done": True, "best_loss": best, "mappings": len(codes), **arrays}
