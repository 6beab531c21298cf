"""Tilings of a matrix product: the space, its loop nest and an analytical cost."""

from __future__ import annotations

from costmodel.tiling.analytical_model import AnalyticalTiling
from costmodel.tiling.space import Tiling, TilingSpace

__all__ = ["AnalyticalTiling", "Tiling", "TilingSpace"]
