"""Carries requests for costs from environment runners on a Ray cluster to the driver and back.

Every runner makes the same number of requests per iteration, so the driver takes them in rounds:
one of each runner, in the order of the runners. A run is then the same whichever of them is faster.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import ray

from costmodel.space import Codes, Losses, Space
from searchers.reinforcement.ask_tell_bridge import ClosedError


class _Rounds:
    """The actor: holds one request per runner until the driver has answered all of them."""

    def __init__(self, runners: int) -> None:
        self._runners = runners
        self._codes: dict[int, Codes] = {}
        self._answers: dict[int, asyncio.Future[Losses]] = {}
        self._complete = asyncio.Event()

    async def request(self, codes: Codes, sender: int) -> Losses:
        """Losses `[m]` of one runner's codes `[m, D]`, once the driver has answered."""
        self._codes[sender] = codes
        self._answers[sender] = asyncio.get_running_loop().create_future()
        if len(self._codes) == self._runners:
            self._complete.set()
        return await self._answers[sender]

    async def collect(self) -> list[Codes]:
        """The requests of a whole round, in the order of the runners."""
        await self._complete.wait()
        return [self._codes[sender] for sender in sorted(self._codes)]

    async def deliver(self, losses: list[Losses]) -> None:
        """Answers the round that `collect` returned."""
        self._complete.clear()
        answers = [self._answers[sender] for sender in sorted(self._codes)]
        self._codes, self._answers = {}, {}
        for future, row in zip(answers, losses, strict=True):
            future.set_result(row)


class RemoteChannel:
    """The driver's and the runners' end of an exchange; pickled to the runners."""

    def __init__(self, space: Space, runners: int) -> None:
        self.space = space
        self._rounds: Any = ray.remote(_Rounds).options(num_cpus=0).remote(runners)
        self._pending: Any = None
        self._sizes: list[int] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"space": self.space, "_rounds": self._rounds, "_pending": None, "_sizes": []}

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteChannel:
        return self

    def request(self, codes: Codes, sender: int) -> Losses:
        """See `Channel`."""
        try:
            losses: Losses = ray.get(self._rounds.request.remote(codes, sender))
        except ray.exceptions.RayActorError:
            raise ClosedError from None
        # Objects from the store are read-only.
        return losses.copy()

    def receive(self, timeout: float) -> Codes | None:
        """See `Channel`."""
        if self._pending is None:
            self._pending = self._rounds.collect.remote()
        ready, _ = ray.wait([self._pending], timeout=timeout)
        if not ready:
            return None
        parts = ray.get(self._pending)
        self._pending = None
        self._sizes = [len(part) for part in parts]
        return np.concatenate(parts)

    def answer(self, losses: Losses) -> None:
        """See `Channel`."""
        ray.get(self._rounds.deliver.remote(np.split(losses, np.cumsum(self._sizes)[:-1])))

    def close(self) -> None:
        """See `Channel`."""
        if ray.is_initialized():
            ray.kill(self._rounds)
