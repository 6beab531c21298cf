"""Workloads, accelerators, map spaces and cost models."""
