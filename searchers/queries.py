"""What a searcher wants scored, query by query, answered in any order by whoever scores it.

The hosts that score elsewhere (a Tune of a user's own, a pool of evaluators) talk to a search
through this: a searcher that works asynchronously is told every answer at once and asked for as
many as are wanted; of the others a proposal is told when all of it is back, as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from costmodel.space import Codes, Losses
from mapspace.errors import ContractError
from searchers.base import Searcher
from searchers.shared.asynchronous import Asynchronous

Score = Callable[[Codes, list[Any], int], Losses]
"""Losses `[m]` of mappings `[m, D]` by their answers and the surrogate queries that found them."""


class Query(NamedTuple):
    """A mapping to be scored.

    Attributes:
        ticket: tells it from all others of the search.
        code: `[D]`.
    """

    ticket: int
    code: Codes


class Queries:
    """The open queries of one search.

    Attributes:
        searcher: proposes.
        done: whether it has nothing more to propose.
        asynchronous: whether it is told every answer at once.
    """

    def __init__(
        self, searcher: Searcher, score: Score, *, asynchronous: bool | None = None
    ) -> None:
        """Takes a searcher that has not been asked.

        Args:
            searcher: proposes.
            score: makes losses of answers, and counts them where there is a budget.
            asynchronous: None: where the searcher can; False: in exact batches all the same.
        """
        able = isinstance(searcher, Asynchronous)
        self.searcher = searcher
        self.asynchronous = able if asynchronous is None else asynchronous and able
        self.done = False
        self._score = score
        self._first = 0
        self._codes: Codes = np.empty((0, searcher.space.cardinality.size), np.int32)
        self._answers: list[Any] = []
        self._given = 0
        self._missing = 0
        self._surrogate_queries = 0

    @property
    def open(self) -> int:
        """Queries that are out."""
        if self.asynchronous:
            return len(cast(Asynchronous, self.searcher).out)
        return self._missing - (len(self._codes) - self._given)

    def more(self, wanted: int, spend: int) -> list[Query]:
        """Queries that nobody has yet.

        Args:
            wanted: how many can be scored now.
            spend: iterations that may still be spent on proposals, what is out deducted.

        Returns:
            At most `wanted`; fewer where the searcher waits for answers, or is done.
        """
        if wanted < 1 or self.done:
            return []
        if self.asynchronous:
            if spend < 1:
                return []
            searcher = cast(Asynchronous, self.searcher)
            tickets, codes = searcher.ask_more(min(wanted, spend))
            return [Query(*pair) for pair in zip(tickets, codes, strict=True)]
        if self._missing == 0:
            self._propose(spend)
        rows = range(self._given, min(self._given + wanted, len(self._codes)))
        self._given = max(self._given, rows.stop)
        return [Query(self._first + row, self._codes[row]) for row in rows]

    def answer(self, ticket: int, answer: Any) -> None:
        """Takes what came back of a query.

        Raises:
            ContractError: the ticket is not out.
        """
        if self.asynchronous:
            searcher = cast(Asynchronous, self.searcher)
            if ticket not in searcher.out:
                raise ContractError(f"Ticket {ticket} is not out.")
            code = searcher.out[ticket][None]
            searcher.tell_more([ticket], self._score(code, [answer], 0))
            return
        row = ticket - self._first
        if not 0 <= row < self._given or self._answers[row] is not None:
            raise ContractError(f"Ticket {ticket} is not out.")
        self._answers[row] = answer
        self._missing -= 1
        if self._missing == 0:
            self._tell()

    def unanswered(self) -> list[Query]:
        """The queries that are out, in the order in which they were given."""
        if self.asynchronous:
            out = cast(Asynchronous, self.searcher).out
            return [Query(ticket, out[ticket]) for ticket in sorted(out)]
        return [
            Query(self._first + row, self._codes[row])
            for row in range(self._given)
            if self._answers[row] is None
        ]

    def _propose(self, spend: int) -> None:
        """Asks until there is something to score, or nothing more."""
        while spend >= 1:
            spent = -self.searcher.surrogate_queries
            codes = self.searcher.ask(spend)
            self._surrogate_queries = spent + self.searcher.surrogate_queries
            self._first += len(self._codes)
            self._codes, self._given = codes, 0
            self._answers, self._missing = [None] * len(codes), len(codes)
            if len(codes):
                return
            self.done = self._surrogate_queries == 0
            spend -= self._surrogate_queries
            self._tell()
            if self.done:
                return

    def _tell(self) -> None:
        losses = np.empty(0)
        if not self.done:
            losses = self._score(self._codes, self._answers, self._surrogate_queries)
        self.searcher.tell(losses)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the search goes on; answers are kept as they came."""
        return {
            "searcher": self.searcher.state_dict(),
            "asynchronous": self.asynchronous,
            "done": self.done,
            "first": self._first,
            "codes": self._codes,
            "answers": list(self._answers),
            "given": self._given,
            "surrogate_queries": self._surrogate_queries,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`; what was out then is still out.

        Raises:
            ContractError: another way of asking, or another searcher's state.
        """
        if bool(state["asynchronous"]) != self.asynchronous:
            raise ContractError("Expected the state of a search that was asked in the same way.")
        self.searcher.load_state_dict(state["searcher"])
        self.done = bool(state["done"])
        self._first = int(state["first"])
        self._codes = np.array(state["codes"], np.int32)
        self._answers = list(state["answers"])
        self._given = int(state["given"])
        self._missing = sum(answer is None for answer in self._answers)
        self._surrogate_queries = int(state["surrogate_queries"])
