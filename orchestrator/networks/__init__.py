"""`mapspace search --network`: every layer of a network, and the totals."""
