"""Shipped experiments (YAML)."""
