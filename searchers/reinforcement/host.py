"""What the searchers on RLlib share: an RLlib algorithm that is asked and told.

RLlib's algorithm runs as it is: its environment runners sample whole episodes from E environments
side by side, its learner updates the networks. Only the cost queries of the environments leave it,
through a `Conversation`, and become proposals.

Exact resumption: a state holds a snapshot of the algorithm from between two iterations and the
losses told since. A restored searcher builds the algorithm, puts the snapshot into it and tells it
those losses again; what it proposes meanwhile it has proposed before.
"""

from __future__ import annotations

import gc
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from costmodel.space import Codes, Losses
from mapspace.errors import MapspaceError
from mapspace.extras import install
from searchers.base import Library, Searcher
from searchers.options import Count, Options, Whole

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space
    from searchers.reinforcement.ask_tell_bridge import Conversation
    from searchers.reinforcement.rllib_loop import LearningLoop


class ReinforcementOptions(Options):
    """What the searchers on RLlib share."""

    environments: Count = 32
    """Episodes side by side, per runner."""
    episode_length: Count = 16
    """Steps of an episode."""
    reward: Literal["improvement", "cost"] = "improvement"
    """Of a step: how much better it made the mapping, or minus its cost."""
    elites: Whole = 16
    """Best mappings among which episodes start; 0: uniformly drawn ones."""
    runners: Whole = 0
    """Remote environment runners on the Ray cluster; 0: none."""


class ReinforcementSearcher(Searcher):
    """Searches with an RLlib algorithm; a subclass says which, and with what settings."""

    SLOW = True
    LIBRARY = Library("ray", install("ray"))
    options: ReinforcementOptions
    preparation: ClassVar[str] = "starting Ray and RLlib"
    STATE: ClassVar[tuple[str, ...]] = ("_loop_seed", "_snapshot", "_told", "failure")

    @classmethod
    def libraries(cls) -> tuple[str, ...]:
        """RLlib's own, and what it learns with."""
        return "gymnasium", "ray", "torch"

    def __init__(
        self, space: Space, options: ReinforcementOptions, *, seed: int, **decisions: Any
    ) -> None:
        """Prepares the search; RLlib starts with the first `ask`.

        Args:
            space: where to search.
            options: hyperparameters.
            seed: decides the whole run.
            decisions: settings of the decision process beside those of the options, see
                `MappingVectorEnv`.

        Raises:
            ConfigError: a value that is not allowed.
        """
        super().__init__(space, options, seed=seed)
        self.settings = {
            "reward": options.reward,
            "episode_length": options.episode_length,
            "elites": options.elites,
            **decisions,
        }
        from searchers.reinforcement.environment import MappingVectorEnv

        # Refuses settings that are not allowed now rather than in a thread.
        MappingVectorEnv(1, space=space, evaluate=_unasked, **self.settings)
        self._loop_seed = int(self.rng.integers(2**31))
        self._snapshot: dict[str, Any] | None = None
        self._told = np.zeros(0)
        self._conversation: Conversation | None = None
        self._loop: LearningLoop
        # What the algorithm waits for `[m, D]`, and how many of the told losses it has been given.
        self._request: Codes = np.empty((0, space.cardinality.size), np.int32)
        self._used = 0

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps between two updates."""
        options = self.options
        return options.environments * max(1, options.runners) * options.episode_length

    @abstractmethod
    def _config(self) -> AlgorithmConfig:
        """The algorithm with its hyperparameters; environment and runners are added to it."""

    def _ask(self, n: int) -> Codes:
        if self.failure is None:
            try:
                return self._open_rows()[:n]
            except MapspaceError as error:
                self.failure = str(error)
        return np.empty((0, self.space.cardinality.size), np.int32)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._told = np.append(self._told, losses)

    def load_state_dict(self, state: Any) -> None:
        """See `Searcher`; the algorithm is built anew with the next `ask`."""
        super().load_state_dict(state)
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    def _open_rows(self) -> Codes:
        """`[m, D]` rows of the algorithm's present request that have no losses yet."""
        if self._conversation is None:
            self._start()
        assert self._conversation is not None
        while self._used + len(self._request) <= len(self._told):
            losses = self._told[self._used : self._used + len(self._request)]
            self._used += len(losses)
            self._request = self._conversation.advance(losses)
            if self._loop.snapshot is not self._snapshot:
                self._snapshot = self._loop.snapshot
                self._told = self._told[self._used :]
                self._used = 0
        return self._request[len(self._told) - self._used :]

    def _start(self) -> None:
        """Builds the algorithm, or builds it again where the snapshot was taken."""
        # Not before it is needed: importing RLlib takes seconds.
        from searchers.reinforcement.rllib_loop import converse

        if self.options.runners:
            # A searcher that nobody uses any more may wait for the collector together with its
            # runners, and those of this one would wait for their processors.
            gc.collect()
        self._conversation, self._loop = converse(
            self._config(),
            self.space,
            self.settings,
            environments=self.options.environments,
            runners=self.options.runners,
            seed=self._loop_seed,
            snapshot=self._snapshot,
        )
        weakref.finalize(self, self._conversation.close)
        self._request = self._conversation.advance()
        self._used = 0


def _unasked(codes: Codes) -> Losses:
    raise AssertionError("nothing is evaluated before the search starts")
