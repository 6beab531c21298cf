"""Chains of tiles, level by level: what fits, and the least that all outside a tile costs."""
