"""Pieces that are settled out of order, or before they are dealt, and handed back in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.exact.pool import InOrder, Limit

FAR, NEAR = (9.0, 9.0), (3.0, 3.0)


class Word(NamedTuple):
    """A piece that comes back as it is, with its limit."""

    text: str
    tables: None = None


class Held:
    """A pool that settles what it is told to."""

    def __init__(self) -> None:
        """Has nothing."""
        self.given: dict[int, tuple[Word, Limit]] = {}
        self.dropped: list[str] = []
        self.now: list[str] = []

    def submit(self, number: int, piece: Word, limit: Limit) -> None:
        """See `Pool`."""
        assert number not in self.given
        self.given[number] = piece, limit

    def ready(self, seconds: float) -> Sequence[tuple[int, str]]:
        """See `Pool`."""
        its = [(n, word.text, x[0]) for n, (word, x) in self.given.items()]
        found = [(n, f"{text} {x:g}") for n, text, x in its if text in self.now]
        for number, _ in found:
            del self.given[number]
        return found

    def drop(self, number: int) -> None:
        """See `Pool`."""
        if number in self.given:
            self.dropped.append(self.given.pop(number)[0].text)

    def forget(self) -> None:
        """See `Pool`."""
        self.given.clear()


def came(order: InOrder[Word, str], pool: Held, *texts: str) -> list[str]:
    """Has pieces settled, and says what came of which."""
    pool.now = list(texts)
    return [f"{piece.text}: {settled}" for piece, settled in order.wait(1.0)]


def test_what_was_foreseen_is_settled_once() -> None:
    pool = Held()
    order = InOrder[Word, str](pool)
    for text in "ab":
        order.deal(Word(text), FAR)
    assert came(order, pool, "b") == ["b: b 9"]
    assert not order.is_settled
    order.foresee(Word("c"), FAR)
    order.foresee(Word("d"), FAR)
    order.foresee(Word("d"), FAR)
    assert len(pool.given) == 3
    assert came(order, pool, "c") == ["c: c 9"]
    # One is settled before it is dealt, the other after it.
    assert [order.deal(Word(text), FAR) for text in "cd"] == [2, 3]
    assert came(order, pool, "a", "d") == ["a: a 9", "d: d 9"]
    taken = []
    while order.is_settled:
        taken.append(order.take()[1])
    assert taken == ["a 9", "b 9", "c 9", "d 9"]
    assert not pool.given
    assert [one.after for one in order.dealt] == [0, 0, 0, 0]


def test_what_was_foreseen_with_another_limit_is_settled_again() -> None:
    pool = Held()
    order = InOrder[Word, str](pool)
    order.deal(Word("a"), FAR)
    for text in "bcd":
        order.foresee(Word(text), FAR)
    assert came(order, pool, "c") == ["c: c 9"]
    order.deal(Word("b"), NEAR)
    order.forget_foreseen()
    assert sorted(pool.dropped) == ["b", "d"]
    order.deal(Word("c"), NEAR)
    assert came(order, pool, "a", "b", "c", "d") == ["a: a 9", "b: b 3", "c: c 3"]
    assert [order.take()[1] for _ in range(3)] == ["a 9", "b 3", "c 3"]


def test_what_was_foreseen_dealt_and_dropped_does_not_come_back() -> None:
    pool = Held()
    order = InOrder[Word, str](pool)
    order.foresee(Word("b"), FAR)
    order.deal(Word("a"), FAR)
    order.deal(Word("b"), FAR)
    assert order.drop(lambda piece: piece.text == "b") == [Word("b")]
    assert pool.dropped == ["b"]
    assert came(order, pool, "a", "b") == ["a: a 9"]
    order.foresee(Word("c"), FAR)
    order.forget()
    assert not pool.given
    assert came(order, pool, "c") == []
    assert len(order) == 0
