"""What the searchers on RLlib share: an RLlib algorithm that is asked and told.

RLlib's algorithm runs as it is: its environment runners sample whole episodes from E environments
side by side, its learner updates the networks. Only the cost queries of the environments leave it,
through a `Conversation`, and become proposals.

Exact resumption: a state holds a snapshot of the algorithm from between two iterations and the
losses told since. A restored searcher builds the algorithm, puts the snapshot into it and tells it
those losses again; what it proposes meanwhile it has proposed before.
"""

from __future__ import annotations

import logging
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from costmodel.errors import MapspaceError
from searchers.base import Codes, Losses, Searcher, require
from searchers.reinforcement.conversation import Channel, Conversation, LocalChannel
from searchers.reinforcement.environment import MappingVectorEnv
from searchers.reinforcement.exchange import RemoteChannel
from searchers.reinforcement.snapshot import capture, place_runners, restore

if TYPE_CHECKING:
    from costmodel.space import Space

# Its warnings concern the library's own plans, and every error comes as an exception as well.
QUIET = ("ray.rllib", "ray.tune")

# How RLlib calls the environment of a runner.
RLLIB_ENVIRONMENT = "rllib-single-agent-env-v0"

# Only codes and losses pass through an embedded Ray.
OBJECT_STORE_BYTES = 128 << 20


class SearchEnv(MappingVectorEnv):
    """The environments of one RLlib runner, whose cost queries go through a channel."""

    def __init__(self, context: Any) -> None:
        channel = context["channel"]
        super().__init__(
            context["num_envs"],
            space=channel.space,
            evaluate=lambda codes: channel.request(codes, self._sender),
            **context["settings"],
        )
        self._sender = 0

    def place(self, sender: int, seed: int) -> None:
        """Takes the number of the runner, which RLlib does not tell, and the searcher's seed."""
        self._sender = sender
        self.rng = np.random.Generator(np.random.PCG64((seed, sender)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As in `MappingVectorEnv`, but without a seed.

        RLlib passes its one seed before every sample, which would repeat the same starts.
        """
        return super().reset(options=options)


class ReinforcementSearcher(Searcher):
    """Searches with an RLlib algorithm; a subclass says which, and with what settings."""

    STATE: ClassVar[tuple[str, ...]] = ("_loop_seed", "_snapshot", "_told", "failure")

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        environments: int,
        runners: int,
        settings: dict[str, Any],
    ) -> None:
        """Prepares the search; RLlib starts with the first `ask`.

        Args:
            space: where to search.
            seed: decides the whole run.
            environments: episodes side by side per runner.
            runners: processes on the Ray cluster that sample; 0: this one.
            settings: of the decision process, see `MappingVectorEnv`.

        Raises:
            ConfigError: a value that is not allowed.
        """
        super().__init__(space, seed=seed)
        require(environments >= 1, "environments", environments, "at least 1")
        require(runners >= 0, "runners", runners, "0 or more")
        self.environments = environments
        self.runners = runners
        self.settings = settings
        # Refuses settings that are not allowed now rather than in a thread.
        MappingVectorEnv(1, space=space, evaluate=_unasked, **settings)
        self._loop_seed = int(self.rng.integers(2**31))
        self._snapshot: dict[str, Any] | None = None
        self._told = np.zeros(0)
        self._conversation: Conversation | None = None
        # What the algorithm waits for `[m, D]`, and how many of the told losses it has been given.
        self._request: Codes = np.empty((0, space.cardinality.size), np.int32)
        self._used = 0

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps between two updates."""
        length: int = self.settings["episode_length"]
        return self.environments * max(1, self.runners) * length

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
        for name in QUIET:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        start_ray(self.runners)
        channel: Channel = (
            RemoteChannel(self.space, self.runners) if self.runners else LocalChannel(self.space)
        )
        config = (
            self._config()
            .environment(
                SearchEnv,
                env_config={"channel": channel, "settings": self.settings},
            )
            .env_runners(
                num_env_runners=self.runners,
                num_envs_per_env_runner=self.environments,
                gym_env_vectorize_mode="vector_entry_point",
                batch_mode="complete_episodes",
                # A cost may take as long as it takes.
                sample_timeout_s=None,
            )
            .learners(num_learners=0)
            .debugging(log_level="CRITICAL")
            # A runner that is lost takes its episodes along: better stop with the best so far.
            .fault_tolerance(restart_failed_env_runners=False)
        )
        self._loop = LearningLoop(config.build_algo, self._snapshot, self._loop_seed)
        self._conversation = Conversation(self._loop, channel, self._loop_seed)
        weakref.finalize(self, self._conversation.close)
        self._request = self._conversation.advance()
        self._used = 0


class LearningLoop:
    """Builds an algorithm and trains it for as long as it gets answers.

    Attributes:
        snapshot: the state after the last iteration, None before the first has ended.
    """

    def __init__(
        self, build: Callable[[], Any], snapshot: dict[str, Any] | None, seed: int
    ) -> None:
        self.snapshot = snapshot
        self._build = build
        self._seed = seed

    def __call__(self) -> None:
        """Runs until the conversation is closed."""
        # RLlib registers its environment anew under one name, which Gymnasium warns of.
        gymnasium.registry.pop(RLLIB_ENVIRONMENT, None)
        algorithm = self._build()
        # Tune would write its results there; nothing does, and every build would leave a folder.
        os.rmdir(algorithm.logdir)
        try:
            place_runners(algorithm, self._seed)
            if self.snapshot is not None:
                restore(algorithm, self.snapshot)
            while True:
                algorithm.train()
                self.snapshot = capture(algorithm)
        finally:
            # Only remote runners need an end, and without Ray a call would end the process.
            if algorithm.config.num_env_runners and ray.is_initialized():
                algorithm.stop()


def start_ray(runners: int) -> None:
    """Starts a Ray for this process, unless it is connected to one: RLlib does not run without."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address=os.environ.get("RAY_ADDRESS", "local"),
        num_cpus=1 + runners,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )


def _unasked(codes: Codes) -> Losses:
    raise AssertionError("nothing is evaluated before the search starts")
