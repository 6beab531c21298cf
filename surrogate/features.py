"""What a network sees of a mapping: the raw encoded point, or the quantities that decide its cost.

Letters: `B` points, `n` dimensions, `T` tensors, `F` raw values per point, `G` features. All of it
is torch, from the raw point onwards, so a gradient with respect to the raw point exists. Loop
orders are discrete: a comparison of two ranks is exact forwards and a sigmoid backwards
(straight-through estimation, Bengio et al. 2013), and so is the test whether a factor exceeds 1.
"""

from __future__ import annotations

import torch
from torch import nn

from surrogate.structure import FACTOR_SLOTS, ORDER_LEVELS, Structure


# Far outside every map space; keeps products over a point gone astray within float32.
LARGEST_FACTOR = 1e9
# Weight of a tensor that bypasses a buffer, in place of a logarithm of zero.
ABSENT = 1e-9


class RawFeatures(nn.Module):
    """The encoded point itself, as the Mind Mappings paper feeds it (section 5.5)."""

    def __init__(self, structure: Structure) -> None:
        super().__init__()
        self.width = len(structure.features)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Points [B, F] as they are, [B, F]."""
        return points


class PhysicalFeatures(nn.Module):
    """Logarithms of the quantities from which a loop nest's cost is made.

    Per point: sizes and factors; used processing elements; per tensor and buffer the tile, the
    stationary run (product of the irrelevant innermost non-unit temporal loops above the buffer,
    running from L2's loops on into DRAM's), the visits (product of the other temporal loops above)
    and, where dimensions slide over each other, the share of a tile that is new after a step of
    the innermost loop; per tensor the spatial spread (distinct tiles over the processing
    elements); per buffer the capacity margin; banks and keep bits where they are searched.
    Formulas: Parashar et al., Timeloop (ISPASS 2019), as this project's loop-nest model uses them.
    """

    relevant: torch.Tensor
    plain: torch.Tensor
    sliding: torch.Tensor
    sliding_tensor: torch.Tensor
    log_words: torch.Tensor

    def __init__(self, structure: Structure) -> None:
        super().__init__()
        self.structure = structure
        n, tensors = len(structure.dimensions), len(structure.tensors)
        relevant = torch.zeros(n, tensors)
        plain = torch.zeros(n, tensors)
        # Axes whose extent is not simply one tile factor (halos, strides): coefficients, tensor.
        sliding: list[tuple[torch.Tensor, torch.Tensor]] = []
        for t, tensor in enumerate(structure.tensors):
            for axis in tensor.axes:
                coefficients = torch.zeros(n)
                for d, coefficient in axis:
                    relevant[d, t] = 1.0
                    coefficients[d] = coefficient
                if len(axis) == 1 and axis[0][1] == 1:
                    plain[:, t] += coefficients
                else:
                    sliding.append((coefficients, torch.eye(tensors)[t]))
        axes = len(sliding)
        words = [
            buffer.capacity_words / (1 if buffer.banks is None else buffer.banks)
            for buffer in structure.buffers
        ]
        constants = {
            "relevant": relevant,  # [n, T]
            "plain": plain,  # [n, T] how often a dimension is an axis of its own
            "sliding": torch.stack([c for c, _ in sliding]).T if axes else torch.zeros(n, 0),
            "sliding_tensor": torch.stack([t for _, t in sliding])
            if axes
            else torch.zeros(0, tensors),
            "log_words": torch.tensor(words).log(),  # [2] words of a buffer or of one bank
        }
        for name, constant in constants.items():
            self.register_buffer(name, constant, persistent=False)
        banked = sum(buffer.banks is not None for buffer in structure.buffers)
        self.width = (1 + FACTOR_SLOTS) * n + 1 + tensors + 2 * (3 * tensors + axes)
        self.width += (2 - banked) + 2 * banked * tensors
        self.width += 2 * tensors if structure.bypass else 0
        self.width += len(structure.features) - len(structure.known_features())

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Features [B, G] of raw points [B, F]."""
        structure = self.structure
        n, tensors = len(structure.dimensions), len(structure.tensors)
        batch, orders = points.shape[0], (1 + FACTOR_SLOTS) * n
        raw = points[:, :orders].clamp(min=1.0, max=LARGEST_FACTOR)
        logs = raw.log()
        sizes_and_factors = logs.view(batch, 1 + FACTOR_SLOTS, n)
        trips = sizes_and_factors[:, 1:3]  # temporal loops of DRAM and of L2, [B, 2, n]
        spatial, inner = sizes_and_factors[:, 3], sizes_and_factors[:, 4]
        beneath = spatial + inner
        blocks = torch.stack((trips[:, 1] + beneath, inner), 1)  # tiles of L2 and of L1, [B, 2, n]

        stationary, innermost = self._loops(
            trips,
            _present(raw.view(batch, 1 + FACTOR_SLOTS, n)[:, 1:3]),
            _inside(points[:, orders : orders + 2 * n].view(batch, 2, n)),
        )
        totals = trips.sum(2).cumsum(1).unsqueeze(2)  # all temporal loops above L2 and L1
        extents = torch.log1p(blocks.expm1() @ self.sliding)  # [B, 2, axes]
        tiles = blocks @ self.plain + extents @ self.sliding_tensor  # [B, 2, T]
        steps = torch.stack((blocks[:, 0], blocks[:, 0], beneath), 1)
        renewed = self._renewed(innermost, steps, torch.cat((extents, extents[:, 1:]), 1))
        features = [
            logs,
            spatial.sum(1, keepdim=True),
            spatial @ self.relevant,
            tiles.flatten(1),
            stationary.flatten(1),
            (totals - stationary).flatten(1),
            renewed[:, 0],
            renewed[:, 1] + renewed[:, 2],
        ]
        at = orders + ORDER_LEVELS * n
        keep_at = at + tensors * sum(buffer.banks is not None for buffer in structure.buffers)
        keep = points[:, keep_at:] if structure.bypass else None
        for b, buffer in enumerate(structure.buffers):
            if buffer.banks is not None:
                banks = points[:, at : at + tensors].clamp(min=1.0).log()
                at += tensors
                features += [banks, self.log_words[b] + banks - tiles[:, b]]
            else:
                held = tiles[:, b]
                if keep is not None:
                    bits = keep[:, b * tensors : (b + 1) * tensors].clamp(min=0.0)
                    held = held + (bits + ABSENT).log()
                features.append(self.log_words[b] - held.logsumexp(1, keepdim=True))
        # Keep bits, and whatever else this map space searches.
        if points.shape[1] > keep_at:
            features.append(points[:, keep_at:])
        return torch.cat(features, dim=1)

    def _loops(
        self, trips: torch.Tensor, present: torch.Tensor, inside: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log stationary runs above L2's and L1's tiles, and which loop is the innermost above.

        Args:
            trips: Log trip counts of DRAM's and L2's temporal loops, [B, 2, n].
            present: 1 where a loop has more than one trip, [B, 2, n].
            inside: [B, 2, i, j], 1 where loop j is inside loop i.

        Returns:
            The runs [B, 2, T], and one-hot rows [B, 3, n]: above L2 among DRAM's loops, above L1
            among DRAM's loops (none if L2 has a loop), above L1 among L2's loops.
        """
        relevant_present = present.unsqueeze(3) * self.relevant
        # A loop is stationary if it is irrelevant and no relevant loop is inside it.
        free = _none(inside @ relevant_present) * (1.0 - self.relevant)
        runs = (trips.unsqueeze(3) * free).sum(2)  # [B, 2, T]
        continues = _none(relevant_present[:, 1].sum(1))
        stationary = torch.stack((runs[:, 0], runs[:, 1] + continues * runs[:, 0]), 1)
        innermost = present * _none((inside * present.unsqueeze(2)).sum(3))
        no_l2_loop = _none(present[:, 1].sum(1, keepdim=True))
        above = (innermost[:, 0], no_l2_loop * innermost[:, 0], innermost[:, 1])
        return stationary, torch.stack(above, 1)

    def _renewed(
        self, innermost: torch.Tensor, steps: torch.Tensor, extents: torch.Tensor
    ) -> torch.Tensor:
        """Log share of each sliding axis that a step of the innermost loop renews.

        Args:
            innermost: One-hot loops, [B, 3, n].
            steps: Log distance that a step of each loop moves its dimension, [B, 3, n].
            extents: Log extents of the sliding axes, [B, 3, axes].

        Returns:
            [B, 3, axes], 0 where the innermost loop does not move along the axis.
        """
        on_axis = (self.sliding > 0).to(steps.dtype)
        moved = steps.unsqueeze(3) + self.sliding.clamp(min=1.0).log() - extents.unsqueeze(2)
        return (innermost.unsqueeze(3) * on_axis * moved.clamp(max=0.0)).sum(2)


def _straight_through(hard: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
    """`hard` forwards, the gradient of `soft` backwards."""
    return hard + (soft - soft.detach())


def _present(trips: torch.Tensor) -> torch.Tensor:
    """1 where a loop runs more than once: loops of one trip do not exist in the nest."""
    hard = (trips > 1.5).to(trips.dtype)
    return _straight_through(hard, 1.0 - 1.0 / trips) if trips.requires_grad else hard


def _inside(ranks: torch.Tensor) -> torch.Tensor:
    """[..., i, j] = 1 where loop j is inside loop i; ranks count from the outermost loop."""
    distance = ranks.unsqueeze(-2) - ranks.unsqueeze(-1)
    hard = (distance > 0).to(ranks.dtype)
    return _straight_through(hard, torch.sigmoid(distance)) if ranks.requires_grad else hard


def _none(count: torch.Tensor) -> torch.Tensor:
    """1 where a count is zero."""
    hard = (count < 0.5).to(count.dtype)
    return _straight_through(hard, 1.0 / (1.0 + count)) if count.requires_grad else hard


FEATURES: dict[str, type[RawFeatures] | type[PhysicalFeatures]] = {
    "raw": RawFeatures,
    "physical": PhysicalFeatures,
}
