"""Accelerators: memories above an array of multiply-accumulate units, by name or file."""
