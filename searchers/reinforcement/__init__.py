"""Reinforcement learning on RLlib: the decision process, and the searchers' common host."""
