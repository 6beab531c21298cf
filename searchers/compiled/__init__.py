"""Compiled inner loops of searchers."""
