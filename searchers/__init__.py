"""The searchers package."""
