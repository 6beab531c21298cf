"""ZigZag's workload files, read."""
