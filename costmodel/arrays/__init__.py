"""Workloads, machines and tilings as integer arrays, and whether a mapping of them fits."""
