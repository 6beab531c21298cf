"""The loop-nest cost model, equal to Timeloop: its compiled passes and its records."""
