"""Looking at mappings: what one costs and why, how two differ, what keeps one from the optimum."""
