"""Sliding windows: which input pixels a run of consecutive outputs touches.

Along an axis with stride s and window w, n consecutive outputs touch n * min(s, w) + max(w - s, 0)
pixels: neighbours share w - s of them, or leave s - w out between them.
"""

from __future__ import annotations

import numpy as np

from costmodel.maestro.mappings import C, ClusterMappings, IntArray, K, P, Q


def touched(outputs: IntArray, window: IntArray, stride: IntArray) -> IntArray:
    """`[B]` pixels along an axis that so many consecutive outputs touch."""
    pixels: IntArray = outputs * np.minimum(stride, window) + np.maximum(window - stride, 0)
    return pixels


class Window:
    """Both axes of the windows of B mappings, x along the width P and y along the height Q.

    Attributes:
        x_step: `[B]` pixels more per output more.
        y_step: `[B]` likewise.
        x_halo: `[B]` pixels that neighbouring outputs share.
        y_halo: `[B]` likewise.
    """

    def __init__(self, mappings: ClusterMappings) -> None:
        rows, columns = mappings.bounds[:, 2], mappings.bounds[:, 3]
        self.x_step: IntArray = np.minimum(mappings.stride, columns)
        self.y_step: IntArray = np.minimum(mappings.stride, rows)
        self.x_halo: IntArray = np.maximum(columns - mappings.stride, 0)
        self.y_halo: IntArray = np.maximum(rows - mappings.stride, 0)

    def sizes(self, tile: IntArray) -> IntArray:
        """What a tile takes of each dimension of the input: channels, or pixels for outputs.

        Args:
            tile: `[4, B]` by `TILED`.

        Returns:
            `[4, B]`; K as it is.
        """
        width = tile[P] * self.x_step + self.x_halo
        height = tile[Q] * self.y_step + self.y_halo
        return np.stack([tile[K], tile[C], width, height])
