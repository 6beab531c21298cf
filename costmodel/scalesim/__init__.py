"""SCALE-Sim's configurations and topologies, read, and the cycles that it counts."""
