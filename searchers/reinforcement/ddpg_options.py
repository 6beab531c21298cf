"""The settings of DDPG's agent, with those of HAQ (Wang et al., CVPR 2019) as defaults."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from searchers.options import (
    Count,
    Flag,
    NonNegative,
    Options,
    Positive,
    PositiveShare,
    Share,
    Whole,
)


class AgentOptions(Options):
    """What concerns learning; for any environment, whatever it searches."""

    actor_learning_rate: Positive = 1e-4
    """Of Adam."""
    critic_learning_rate: Positive = 1e-3
    """Of Adam."""
    # HAQ has 1, which suits short episodes of a known length; 0.99 is safe for any.
    gamma: Share = 0.99
    """Discount of later rewards."""
    tau: PositiveShare = 0.01
    """Share of the new weights in a target network after an update."""
    batch_size: Count = 64
    """Transitions of a gradient update."""
    # HAQ has room for 128 episodes, whose length it knows.
    replay_capacity: Count = 100_000
    """Transitions remembered; the oldest make room."""
    warmup_episodes: Whole = 20
    """Episodes, of all environments together, during which actions are uniformly random and nothing
    is learnt; whole iterations count."""
    updates_per_step: NonNegative = 1.0
    """Gradient updates per transition stored after the warm-up; a fraction is carried over to the
    next iteration."""
    noise: NonNegative = 0.5
    """Initial standard deviation of the exploration noise, in widths of the action's bounds."""
    noise_decay: PositiveShare = 0.99
    """Factor on the noise per episode finished after the warm-up."""
    hidden_layers: Annotated[tuple[Count, ...], Field(min_length=1)] = (300, 300)
    """Widths of the hidden layers of actor and critic."""
    init_w: Positive = 0.003
    """Bound of the uniform distribution that the last layers start from."""
    final_reward: Flag = False
    """Give every transition of an episode its last reward, as HAQ does."""
    reward_baseline: PositiveShare | None = None
    """Rate of a moving average of batch mean rewards, which is subtracted from rewards (HAQ: 0.5);
    null: nothing is subtracted."""
