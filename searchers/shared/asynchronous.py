"""Searchers that need not wait for a whole batch: they are asked for more while losses are out.

Where queries take unequal times, a search that waits for all of a batch leaves most workers idle. A
searcher that derives from `Asynchronous` says what it makes of one loss at a time; its exact
batches, `ask` and `tell`, stay as they are.

Letters: m mappings, D attributes of a code.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from mapspace.errors import ContractError
from searchers.base import Searcher
from searchers.context import Context
from searchers.options import Options

if TYPE_CHECKING:
    from costmodel.space import Space

Notes = npt.NDArray[np.int64]


class Asynchronous(Searcher):
    """Is asked for more at any time, and told losses in any order.

    A subclass writes `_ask_more` and `_tell_more`. What it remembers only in this mode it names in
    `STATE_OUT`. The order of calls, with the seed, decides the whole run: who repeats the calls
    gets the same mappings.
    """

    ASYNCHRONOUS: ClassVar[bool] = True
    STATE_OUT: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, space: Space, options: Options, *, seed: int, context: Context | None = None
    ) -> None:
        """Starts with nothing out; see `Searcher`."""
        super().__init__(space, options, seed=seed, context=context)
        self._out: dict[int, tuple[Codes, int]] = {}
        self._tickets = 0

    @property
    def out(self) -> Mapping[int, Codes]:
        """The mappings `[D]` whose losses are awaited, by ticket."""
        return {ticket: code for ticket, (code, _) in self._out.items()}

    def ask(self, n: int) -> Codes:
        """See `Searcher`.

        Raises:
            ContractError: see `Searcher`, or `ask_more` was called before.
        """
        if self._tickets:
            raise ContractError(
                "ask() after ask_more(): a search is asked in one way or the other."
            )
        return super().ask(n)

    def ask_more(self, n: int) -> tuple[list[int], Codes]:
        """Proposes mappings, whatever is out.

        Args:
            n: how many, at least 1.

        Returns:
            Tickets, which `tell_more` takes, and the mappings `[m, D]`, m from 1 to n.

        Raises:
            ContractError: n < 1, or the losses of `ask` have not been told.
        """
        if n < 1:
            raise ContractError(f"ask_more(n) needs n >= 1, got {n}.")
        if self.awaits_losses:
            raise ContractError("ask_more() after ask(): tell() its losses first.")
        codes, notes = self._ask_more(int(n))
        tickets = list(range(self._tickets, self._tickets + len(codes)))
        for ticket, code, note in zip(tickets, codes, notes, strict=True):
            self._out[ticket] = (np.array(code, dtype=np.int32), int(note))
        self._tickets += len(codes)
        return tickets, np.ascontiguousarray(codes, dtype=np.int32).copy()

    def tell_more(self, tickets: Sequence[int], losses: npt.ArrayLike) -> None:
        """Takes losses of mappings that are out, any of them.

        Args:
            tickets: of the mappings.
            losses: `[m]`, inf for an infeasible mapping.

        Raises:
            ContractError: a ticket is not out or comes twice, the shape is wrong, or a loss is nan.
        """
        told = np.array(losses, dtype=np.float64)
        if told.shape != (len(tickets),):
            raise ContractError(
                f"Expected {len(tickets)} losses, one per ticket, got {list(told.shape)}."
            )
        wrong = [ticket for ticket in tickets if ticket not in self._out]
        if wrong or len(set(tickets)) < len(tickets):
            raise ContractError(f"Ticket {(wrong or list(tickets))[0]} is not out, or given twice.")
        if np.isnan(told).any():
            raise ContractError("A loss is nan; an infeasible mapping has inf.")
        if not len(tickets):
            return
        known = [self._out.pop(ticket) for ticket in tickets]
        codes = np.stack([code for code, _ in known])
        self._tell_more(codes, np.array([note for _, note in known], np.int64), told)

    def state_dict(self) -> dict[str, Any]:
        """See `Searcher`; what is out is a part of it."""
        state = super().state_dict()
        if self._tickets:
            tickets = list(self._out)
            empty = np.empty((0, self.space.cardinality.size), np.int32)
            state["asynchronous"] = {
                "tickets": self._tickets,
                "out": np.array(tickets, np.int64),
                "codes": np.stack([self._out[t][0] for t in tickets]) if tickets else empty,
                "notes": np.array([self._out[t][1] for t in tickets], np.int64),
                "memory": {name: copy.deepcopy(getattr(self, name)) for name in self.STATE_OUT},
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Searcher`."""
        super().load_state_dict(state)
        saved = state.get("asynchronous")
        self._out, self._tickets = {}, 0
        if saved is None:
            return
        self._tickets = int(saved["tickets"])
        for ticket, code, note in zip(saved["out"], saved["codes"], saved["notes"], strict=True):
            self._out[int(ticket)] = (np.array(code, np.int32), int(note))
        for name in self.STATE_OUT:
            setattr(self, name, copy.deepcopy(saved["memory"][name]))

    @abstractmethod
    def _ask_more(self, n: int) -> tuple[Codes, Notes]:
        """From 1 to n feasible mappings `[m, D]`, and a number `[m]` to find each of them by."""

    @abstractmethod
    def _tell_more(self, codes: Codes, notes: Notes, losses: Losses) -> None:
        """Learns from losses `[m]` of mappings `[m, D]` that were asked, in any order."""
