"""`mapspace generate` and `mapspace train`: data sets and surrogates."""
