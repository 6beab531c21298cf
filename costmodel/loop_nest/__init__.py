"""The loop-nest cost model, equal to Timeloop: map space, kernel, moves and records."""
