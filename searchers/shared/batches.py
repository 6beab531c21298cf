"""What searchers share that propose whole batches and never the same mapping twice.

Letters: m mappings of a batch, D attributes of a code, V mappings visited so far.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from searchers.base import LARGEST_BATCH, MOVE_ATTEMPTS, Searcher
from searchers.context import Context
from searchers.options import Options

if TYPE_CHECKING:
    from costmodel.space import Space


class Visited:
    """A table of mappings, numbered from 0 in the order they came; membership in constant time."""

    def __init__(self, codes: Codes) -> None:
        """Starts with the different rows of codes `[V, D]`."""
        self.width = codes.shape[1]
        self._numbers: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self.add(codes)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, codes: Codes) -> list[int]:
        """Enters codes `[m, D]`; returns the number of each row, old where it was known."""
        numbers = []
        for key in self._rows(codes):
            number = self._numbers.setdefault(key, len(self._keys))
            if number == len(self._keys):
                self._keys.append(key)
            numbers.append(number)
        return numbers

    def find(self, codes: Codes) -> npt.NDArray[np.int64]:
        """The number of each row of codes `[m, D]`, -1 where it is not in the table."""
        return np.array([self._numbers.get(key, -1) for key in self._rows(codes)], dtype=np.int64)

    def fresh(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Rows of codes `[m, D]` that are not in the table, ascending, the first of equal ones."""
        rows: list[int] = []
        seen: set[bytes] = set()
        for row, key in enumerate(self._rows(codes)):
            if key not in self._numbers and key not in seen:
                seen.add(key)
                rows.append(row)
        return np.array(rows, dtype=np.int64)

    def code(self, number: int) -> Codes:
        """The code `[D]` of a number."""
        return np.frombuffer(self._keys[number], dtype=np.int32).copy()

    def codes(self) -> Codes:
        """All codes `[V, D]`, by number."""
        return np.frombuffer(b"".join(self._keys), dtype=np.int32).reshape(-1, self.width)

    def _rows(self, codes: Codes) -> list[bytes]:
        whole = np.ascontiguousarray(codes, dtype=np.int32)
        keys: list[bytes] = whole.view(f"V{4 * self.width}").ravel().tolist()
        return keys


class BatchSearcher(Searcher):
    """Proposes a batch, learns when all of it is told; batches pass small budgets in pieces.

    A subclass writes `_propose` and `_learn`, and adds its own memory to `STATE`.
    """

    STATE: ClassVar[tuple[str, ...]] = ("_batch", "_batch_losses", "_visited_codes")

    def __init__(
        self, space: Space, options: Options, *, seed: int, context: Context | None = None
    ) -> None:
        """Starts with an empty batch and nothing visited."""
        super().__init__(space, options, seed=seed, context=context)
        self._batch: Codes = np.empty((0, len(space.cardinality)), np.int32)
        self._batch_losses: Losses = np.empty(0)
        self._visited = Visited(self._batch)

    @property
    def _visited_codes(self) -> Codes:
        return self._visited.codes()

    @_visited_codes.setter
    def _visited_codes(self, codes: Codes) -> None:
        self._visited = Visited(codes)

    def _ask(self, n: int) -> Codes:
        told = len(self._batch_losses)
        if told == len(self._batch):
            self._batch, self._batch_losses, told = self._propose(), np.empty(0), 0
            self._visited.add(self._batch)
        return self._batch[told : told + min(n, LARGEST_BATCH)]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._batch_losses = np.append(self._batch_losses, losses)
        if len(self._batch_losses) == len(self._batch):
            self._learn(self._batch, self._batch_losses)

    def _draw(self, n: int) -> Codes:
        """`[n, D]` uniform feasible mappings, new ones as far as a few attempts find them."""
        drawn = self.space.sample(self.rng, n, feasible=True)
        for _ in range(MOVE_ATTEMPTS):
            known = self._visited.find(drawn) >= 0
            if not known.any():
                break
            drawn[known] = self.space.sample(self.rng, int(known.sum()), feasible=True)
        return drawn

    def _start(self) -> Codes:
        """`[1, D]` the space's attribute `start` if it has one, else a drawn mapping."""
        start = getattr(self.space, "start", None)
        if start is None:
            return self._draw(1)
        return np.array(start, dtype=np.int32).reshape(1, -1)

    @abstractmethod
    def _propose(self) -> Codes:
        """The next batch `[m, D]`, m at least 1, of feasible mappings."""

    @abstractmethod
    def _learn(self, codes: Codes, losses: Losses) -> None:
        """Learns from the losses `[m]` of a whole batch `[m, D]`."""
