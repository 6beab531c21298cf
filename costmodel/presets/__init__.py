"""Shipped accelerators, workloads and networks (YAML)."""
