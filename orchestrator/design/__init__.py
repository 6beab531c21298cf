"""`mapspace design`: the best machines of a grid, proven without proving every machine."""
