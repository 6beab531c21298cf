"""How one answer is found: a workload, a line of a file, a tiling; padding, explanations."""
