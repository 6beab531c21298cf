"""The surrogate package."""
