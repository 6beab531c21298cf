"""Lower bounds where loops have remainders: a grid of extents, and boxes of spatial factors."""
