"""Mappings as records: scored, and read and written in the words of other tools."""
