"""The map space: codes of mappings, draws, moves, edits, constraints, points for networks."""
