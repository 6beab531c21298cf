"""`mapspace benchmark`: searchers x workloads x seeds under one budget, on Ray Tune."""
