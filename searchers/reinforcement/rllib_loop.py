"""An RLlib algorithm on its own thread: the side of a search that RLlib drives."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import ray

from mapspace.ray_start import start_ray
from searchers.reinforcement.ask_tell_bridge import Channel, Conversation, LocalChannel
from searchers.reinforcement.environment import MappingVectorEnv
from searchers.reinforcement.remote_channel import RemoteChannel
from searchers.reinforcement.rllib_state import capture, place_runners, restore

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space

# Its warnings concern the library's own plans, and every error comes as an exception as well.
QUIET = ("ray.rllib", "ray.tune")

# How RLlib calls the environment of a runner.
RLLIB_ENVIRONMENT = "rllib-single-agent-env-v0"


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


def converse(
    config: AlgorithmConfig,
    space: Space,
    settings: dict[str, Any],
    *,
    environments: int,
    runners: int,
    seed: int,
    snapshot: dict[str, Any] | None,
) -> tuple[Conversation, LearningLoop]:
    """Sets up an algorithm that waits to be asked.

    Args:
        config: the algorithm and its hyperparameters.
        space: where to search.
        settings: of the decision process.
        environments: episodes side by side per runner.
        runners: remote processes that sample; 0: none.
        seed: of everything random in it.
        snapshot: where to continue; None: from the beginning.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    start_ray(needed=max(1, runners))
    channel: Channel = RemoteChannel(space, runners) if runners else LocalChannel(space)
    complete = (
        config.environment(SearchEnv, env_config={"channel": channel, "settings": settings})
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=environments,
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
    loop = LearningLoop(complete.build_algo, snapshot, seed)
    return Conversation(loop, channel, seed), loop


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
