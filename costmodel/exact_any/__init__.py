"""Proofs of optimality on hierarchies of any depth; see docs/inside/proof-any-levels.md."""
