"""Pieces that are settled out of order, or before they are dealt, and handed back in order."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

from costmodel.exact.pool import InOrder, Limit

FAR, NEAR = (9.0, 9.0), (3.0, 3.0)


class Word(NamedTuple):
    """A piece that comes back as it is, with its limit."""

    text: str
    tables: None = None


class Answer(str):
    """What came of a piece: one that a weak reference can be made to."""


class Held:
    """A pool that settles what it is told to."""

    def __init__(self) -> None:
        """Has nothing."""
        self.given: dict[int, tuple[Word, Limit]] = {}
        self.dropped: list[str] = []
        self.now: list[str] = []
        # With these somebody has begun: something comes of them, dropped or not.
        self.begun = ""

    def submit(self, number: int, piece: Word, limit: Limit) -> None:
        """See `Pool`."""
        assert number not in self.given
        self.given[number] = piece, limit

    def ready(self, seconds: float) -> Sequence[tuple[int, Answer]]:
        """See `Pool`."""
        its = [(n, word.text, x[0]) for n, (word, x) in self.given.items()]
        found = [(n, Answer(f"{text} {x:g}")) for n, text, x in its if text in self.now]
        for number, _ in found:
            del self.given[number]
        return found

    def drop(self, number: int) -> None:
        """See `Pool`."""
        if number in self.given and self.given[number][0].text not in self.begun:
            self.dropped.append(self.given.pop(number)[0].text)

    def forget(self) -> None:
        """See `Pool`."""
        for number in list(self.given):
            self.drop(number)


def came(order: InOrder[Word, Answer], pool: Held, *texts: str) -> list[str]:
    """Has pieces settled, and says what came of which."""
    pool.now = list(texts)
    return [f"{piece.text}: {settled}" for piece, settled in order.wait(1.0)]


def test_what_was_foreseen_is_settled_once() -> None:
    pool = Held()
    order = InOrder[Word, Answer](pool)
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
    assert len(pool.given) == 2
    assert came(order, pool, "a", "d") == ["a: a 9", "d: d 9"]
    taken = list[str]()
    while order.is_settled:
        taken.append(order.take()[1])
    assert taken == ["a 9", "b 9", "c 9", "d 9"]
    assert not pool.given
    assert [one.after for one in order.dealt] == [0, 0, 0, 0]


def test_what_was_foreseen_with_another_limit_is_settled_again() -> None:
    pool = Held()
    order = InOrder[Word, Answer](pool)
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
    order = InOrder[Word, Answer](pool)
    order.foresee(Word("b"), FAR)
    order.deal(Word("a"), FAR)
    order.deal(Word("b"), FAR)
    assert order.drop(lambda piece: piece.text == "b") == [Word("b")]
    assert pool.dropped == ["b"]
    assert [one.dropped for one in order.dealt] == [None, -1]
    assert came(order, pool, "a", "b") == ["a: a 9"]
    order.foresee(Word("c"), FAR)
    order.forget()
    assert not pool.given
    assert came(order, pool, "c") == []
    assert len(order) == 0


def test_what_was_dealt_is_not_forgotten_with_what_was_foreseen() -> None:
    pool = Held()
    order = InOrder[Word, Answer](pool)
    for text in "abc":
        order.foresee(Word(text), FAR)
    order.deal(Word("a"), FAR)
    assert came(order, pool, "b") == ["b: b 9"]
    order.forget_foreseen()
    assert pool.dropped == ["c"]
    # The others are settled anew: what came of one, and the wish for the other, are forgotten.
    for text in "bc":
        order.deal(Word(text), FAR)
    assert came(order, pool, "a", "b", "c") == ["a: a 9", "b: b 9", "c: c 9"]


def test_a_piece_may_be_foreseen_with_several_limits() -> None:
    pool = Held()
    order = InOrder[Word, Answer](pool)
    for limit in (FAR, NEAR):
        order.foresee(Word("a"), limit)
    assert came(order, pool, "a") == ["a: a 9", "a: a 3"]
    order.deal(Word("a"), NEAR)
    assert order.take() == (Word("a"), "a 3")


def test_what_comes_of_forgotten_pieces_is_not_heard() -> None:
    pool = Held()
    pool.begun = "abcde"
    order = InOrder[Word, Answer](pool)
    for text in "bc":
        order.foresee(Word(text), FAR)
    for text in "ab":
        order.deal(Word(text), FAR)
    order.drop(lambda piece: True)
    order.forget_foreseen()
    assert came(order, pool, "a", "b", "c") == []
    order.foresee(Word("d"), FAR)
    order.deal(Word("e"), FAR)
    order.forget()
    assert came(order, pool, "d", "e") == []
    assert order.deal(Word("d"), FAR) == 3
    assert not order.is_settled
    assert came(order, pool, "d") == ["d: d 9"]


def test_nothing_is_kept_of_what_was_handed_back_or_forgotten() -> None:
    """A proof has millions of pieces."""

    def settled() -> tuple[InOrder[Word, Answer], list[weakref.ref[Answer]]]:
        """Two that are dealt, one of them foreseen, and one that is foreseen; and what came."""
        pool = Held()
        order = InOrder[Word, Answer](pool)
        order.deal(Word("a"), FAR)
        for text in "bc":
            order.foresee(Word(text), FAR)
        pool.now = ["a", "b", "c"]
        answers = [weakref.ref(answer) for _, answer in order.wait(1.0)]
        order.deal(Word("b"), FAR)
        return order, answers

    def kept(answers: list[weakref.ref[Answer]]) -> list[Answer]:
        return [answer for answer in (reference() for reference in answers) if answer is not None]

    order, answers = settled()
    assert kept(answers) == ["a 9", "b 9", "c 9"]
    for left in (["b 9", "c 9"], ["c 9"]):
        order.take()
        assert kept(answers) == left
    order.forget_foreseen()
    assert not kept(answers)

    order, answers = settled()
    assert len(order.drop(lambda piece: True)) == 2
    assert kept(answers) == ["c 9"]

    order, answers = settled()
    order.forget()
    assert not kept(answers)
