"""An answer of the store made again from its row, or kept there: whatever was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mapspace.errors import MapspaceError
from orchestrator.store.compaction import tidy
from orchestrator.store.folder import rank

if TYPE_CHECKING:
    from orchestrator.store.address import Question
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row

Answer = TypeVar("Answer")


def read_answer(
    store: Store, question: Question, serves: Callable[[Row], bool], make: Callable[[Row], Answer]
) -> Answer | None:
    """The best answer that the store has of a question; None where it has none that will do.

    Args:
        store: the store.
        question: what is asked.
        serves: whether a row will do.
        make: makes the answer again; a row or a certificate that it refuses is no answer.
    """
    return first_made(store, filter(serves, store.rows([question.question])), make)


def first_made(store: Store, rows: Iterable[Row], make: Callable[[Row], Answer]) -> Answer | None:
    """What the best of some rows makes that is not refused; a line names each that is."""
    for row in sorted(rows, key=rank):
        try:
            return make(row)
        except MapspaceError as error:
            store.tell(
                f"row {row.name}: cannot be used; unless another row answers it is computed "
                f"anew: {error}"
            )
    return None


def keep_answers(store: Store, rows: Sequence[Row], certificates: Iterable[str] = ()) -> None:
    """Keeps rows and the certificates that they name, and brings rows together where they crowd."""
    if store.add(rows, certificates):
        tidy(store)


def is_settled(row: Row, gap: float) -> bool:
    """Whether more time would be spent on nothing: it is proven, or within a gap.

    Args:
        row: of a proof.
        gap: what is enough, as a share.
    """
    return row.proven or (row.gap is not None and row.gap <= gap)


def had_budget(
    row: Row, seconds: float | None, gap: float = 0.0, iterations: int | None = None
) -> bool:
    """Whether a row comes of as much as may be spent now.

    Args:
        row: of a search or a proof.
        seconds: budget of time, s; None: no limit.
        gap: at which the search ends, as a share.
        iterations: budget of cost queries; None: no limit.
    """
    time = row.budget_seconds is None or (seconds is not None and row.budget_seconds >= seconds)
    queries = row.budget_iterations is None or (
        iterations is not None and row.budget_iterations >= iterations
    )
    return time and queries and row.budget_gap <= gap
