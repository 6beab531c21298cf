"""Proofs of optimality for the loop-nest model on three memory levels; see docs/inside/proof.md."""
