"""`mapspace bypass`: what it is worth that tensors may skip memory levels."""
