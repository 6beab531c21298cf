"""A library's loop that is asked and told: hand-over, failure, closing, random numbers."""

from __future__ import annotations

import copy
import pickle
import random
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from mapspace.errors import ContractError, MapspaceError
from mapspace.testing.toy_space import ToySpace
from searchers.reinforcement.ask_tell_bridge import Conversation, LocalChannel, random_state
from searchers.reinforcement.rllib_state import pack, unpack

SPACE = ToySpace()


def codes(value: int) -> np.ndarray:
    return np.full((2, 6), value, np.int32)


def conversation(loop: Callable[[LocalChannel], None], seed: int = 0) -> Conversation:
    channel = LocalChannel(SPACE)
    return Conversation(lambda: loop(channel), channel, seed)


def test_requests_become_proposals() -> None:
    heard = []

    def loop(channel: LocalChannel) -> None:
        heard.extend(channel.request(codes(value), 0) for value in range(3))
        channel.request(codes(9), 0)

    talk = conversation(loop)
    assert talk.advance()[0, 0] == 0
    for value in range(3):
        asked = talk.advance(np.full(2, 10.0 + value))
    assert asked[0, 0] == 9
    assert [float(losses[0]) for losses in heard] == [10.0, 11.0, 12.0]
    talk.close()


def test_only_one_side_runs() -> None:
    """Nothing happens in the loop between two calls."""
    count = 0

    def loop(channel: LocalChannel) -> None:
        nonlocal count
        while True:
            channel.request(codes(0), 0)
            count += 1

    talk = conversation(loop)
    talk.advance()
    time.sleep(0.05)
    assert count == 0
    talk.advance(np.zeros(2))
    assert count == 1
    talk.close()


def test_a_failure_says_why() -> None:
    def ours(channel: LocalChannel) -> None:
        try:
            raise ContractError("Expected this, got that.")
        except ContractError as error:
            raise RuntimeError("a library's wrapping") from error

    def theirs(channel: LocalChannel) -> None:
        raise ValueError("something odd\nand a long explanation")

    with pytest.raises(ContractError, match="Expected this, got that"):
        conversation(ours).advance()
    with pytest.raises(MapspaceError, match=r"loop failed: ValueError something odd$"):
        conversation(theirs).advance()


def test_closing_ends_the_thread_and_cleans_up() -> None:
    ended = threading.Event()

    def loop(channel: LocalChannel) -> None:
        try:
            while True:
                try:
                    channel.request(codes(0), 0)
                except Exception:  # what a library might do
                    continue
        finally:
            ended.set()

    talk = conversation(loop)
    talk.advance()
    talk.close()
    assert ended.wait(5.0)
    conversation(loop).close()  # one that never started has nothing to end


def test_the_loop_has_random_numbers_of_its_own() -> None:
    drawn: list[tuple[float, float, float]] = []

    def loop(channel: LocalChannel) -> None:
        while True:
            drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))  # noqa: NPY002
            channel.request(codes(0), 0)

    first, second, other = conversation(loop, 1), conversation(loop, 1), conversation(loop, 2)
    first.advance()
    second.advance()
    other.advance()
    for _ in range(3):
        first.advance(np.zeros(2))
        random.random()
        torch.rand(3)
        second.advance(np.zeros(2))
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[3::2] == drawn[4::2]
    random.seed(0)
    torch.manual_seed(0)
    expected = random.random(), float(torch.rand(()))
    random.seed(0)
    torch.manual_seed(0)
    first.advance(np.zeros(2))
    assert (random.random(), float(torch.rand(()))) == expected
    for talk in (first, second, other):
        talk.close()


def test_a_copied_channel_is_the_same_channel() -> None:
    channel = LocalChannel(SPACE)
    assert copy.deepcopy({"channel": channel})["channel"] is channel
    assert pickle.loads(pickle.dumps(channel)) is channel


def test_snapshots_hold_every_kind_of_state() -> None:
    state = {
        "tensor": torch.arange(3.0),
        "array": np.eye(2),
        0: (1, 2.5, "text", None, True),
        "nested": [{"list": []}, {}],
        "random": random_state(),
    }
    found = unpack(pack(state))
    torch.testing.assert_close(found["tensor"], state["tensor"])
    np.testing.assert_array_equal(found["array"], state["array"])
    assert found[0] == state[0]
    assert found["nested"] == state["nested"]
    assert found["random"]["python"] == state["random"]["python"]
    with pytest.raises(TypeError, match="cannot hold a object"):
        pack(object())
