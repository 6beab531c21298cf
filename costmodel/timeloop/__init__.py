"""Timeloop's input files."""
