"""`mapspace search`, `verify`, `pareto`, `tile`, `bypass`, `evaluate`: answers for one machine."""
