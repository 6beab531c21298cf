"""What a network sees of a mapping: the raw encoded point, or the quantities that decide its cost.

Letters: `B` points, `n` dimensions, `T` tensors, `F` raw values per point, `G` features. All of it
is torch, from the raw point onwards, so a gradient with respect to the raw point exists. Loop
orders are discrete: a comparison of two ranks is exact forwards and a sigmoid backwards
(straight-through estimation, Bengio et al. 2013), and so is the test whether a factor exceeds 1.
"""

from __future__ import annotations

import torch
from torch import nn

from surrogate.applicability import FACTOR_SLOTS, ORDER_LEVELS, Structure

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
    sliding: torch.Tensor
    blocks_and_steps: torch.Tensor
    combinations: torch.Tensor
    log_words: torch.Tensor

    def __init__(self, structure: Structure) -> None:
        super().__init__()
        self.structure = structure
        n, tensors = len(structure.dimensions), len(structure.tensors)
        relevant = torch.zeros(n, tensors)
        # How often a dimension alone is an axis, and the axes whose extent is not simply one tile
        # factor (halos, strides): their coefficients, their tensor.
        plain = torch.zeros(n, tensors)
        sliding, sliding_tensor = [torch.zeros(n, 0)], [torch.zeros(0, tensors)]
        for t, tensor in enumerate(structure.tensors):
            for axis in tensor.axes:
                coefficients = torch.zeros(n, 1)
                for d, coefficient in axis:
                    relevant[d, t] = 1.0
                    coefficients[d] = coefficient
                if len(axis) == 1 and axis[0][1] == 1:
                    plain[:, t] += coefficients[:, 0]
                else:
                    sliding.append(coefficients)
                    sliding_tensor.append(torch.eye(tensors)[t : t + 1])
        words = [
            buffer.capacity_words / (1 if buffer.banks is None else buffer.banks)
            for buffer in structure.buffers
        ]
        constants = {
            "relevant": relevant,  # [n, T]
            "sliding": torch.cat(sliding, 1),  # [n, axes]
            "blocks_and_steps": _blocks_and_steps(n),
            "combinations": _combinations(n, relevant, plain, torch.cat(sliding_tensor)),
            "log_words": torch.tensor(words).log(),  # [2] words of a buffer or of one bank
        }
        for name, constant in constants.items():
            self.register_buffer(name, constant, persistent=False)
        axes = self.sliding.shape[1]
        banked = sum(buffer.banks is not None for buffer in structure.buffers)
        self.width = sum(self.combinations.shape) + 2 * axes + (2 - banked) + 2 * banked * tensors
        self.width += 2 * tensors if structure.bypass else 0
        self.width += len(structure.features) - len(structure.known_features())

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Features [B, G] of raw points [B, F]."""
        structure = self.structure
        n, tensors, axes = len(structure.dimensions), len(structure.tensors), self.sliding.shape[1]
        batch, orders = points.shape[0], (1 + FACTOR_SLOTS) * n
        raw = points[:, :orders].clamp(min=1.0, max=LARGEST_FACTOR)
        logs = raw.log()
        linear = (logs @ self.blocks_and_steps).view(batch, 5, n)
        blocks, steps = linear[:, :2], linear[:, 2:]
        stationary, innermost = self._loops(
            logs.view(batch, 1 + FACTOR_SLOTS, n)[:, 1:3],
            _present(raw.view(batch, 1 + FACTOR_SLOTS, n)[:, 1:3]),
            _inside(points[:, orders : orders + 2 * n].view(batch, 2, n)),
        )
        extents = torch.log1p(blocks.expm1() @ self.sliding)  # [B, 2, axes]
        known = torch.cat((logs, extents.flatten(1), stationary.flatten(1)), 1)
        combined = known @ self.combinations
        features = [known, combined]
        if axes:
            renewed = self._renewed(innermost, steps, extents)
            features += [renewed[:, 0], renewed[:, 1:].sum(1)]
        tiles = combined[:, : 2 * tensors].view(batch, 2, tensors)
        at = orders + ORDER_LEVELS * n
        keep_at = at + tensors * sum(buffer.banks is not None for buffer in structure.buffers)
        for b, buffer in enumerate(structure.buffers):
            held = tiles[:, b]
            if buffer.banks is not None:
                banks = points[:, at : at + tensors].clamp(min=1.0).log()
                at += tensors
                features += [banks, self.log_words[b] + banks - held]
                continue
            if structure.bypass:
                kept = points[:, keep_at + b * tensors : keep_at + (b + 1) * tensors]
                held = held + (kept.clamp(min=0.0) + ABSENT).log()
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
            among L2's loops, above L1 among DRAM's loops (none if L2 has a loop).
        """
        relevant_present = present.unsqueeze(3) * self.relevant
        # A loop is stationary if it is irrelevant and no relevant loop is inside it.
        free = _none(inside @ relevant_present) * (1.0 - self.relevant)
        of_dram, of_l2 = (trips.unsqueeze(3) * free).sum(2).unbind(1)
        # L2's run continues among DRAM's loops if no L2 loop ends it.
        continues = _none(relevant_present[:, 1].sum(1))
        stationary = torch.stack((of_dram, torch.addcmul(of_l2, continues, of_dram)), 1)
        innermost = present * _none((inside * present.unsqueeze(2)).sum(3))
        no_l2_loop = _none(present[:, 1:].sum(2, keepdim=True))
        return stationary, torch.cat((innermost, no_l2_loop * innermost[:, :1]), 1)

    def _renewed(
        self, innermost: torch.Tensor, steps: torch.Tensor, extents: torch.Tensor
    ) -> torch.Tensor:
        """Log share of each sliding axis that a step of the innermost loop renews.

        Args:
            innermost: One-hot loops as `_loops` returns them, [B, 3, n].
            steps: Log distance that a step of each such loop moves its dimension, [B, 3, n].
            extents: Log extents of the sliding axes in L2 and L1, [B, 2, axes].

        Returns:
            [B, 3, axes], 0 where the innermost loop does not move along the axis.
        """
        on_axis = (self.sliding > 0).to(steps.dtype)
        extents = torch.cat((extents, extents[:, 1:]), 1)
        moved = steps.unsqueeze(3) + self.sliding.clamp(min=1.0).log() - extents.unsqueeze(2)
        return (innermost.unsqueeze(3) * on_axis * moved.clamp(max=0.0)).sum(2)


def _blocks_and_steps(n: int) -> torch.Tensor:
    """[5n, 5n]: from log sizes and factors (slots of n) to logs of products of factors.

    The columns are the tiles of L2 (all but DRAM's factors) and of L1 (L1's own), then the steps
    of DRAM's loops (L2's tile), of L2's loops (spatial and L1's factors) and of DRAM's again.
    """
    #        size DRAM L2 spatial L1
    slots = [
        [0.0, 0.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.0, 0.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, 1.0, 1.0],
    ]
    return torch.kron(torch.tensor(slots).T.contiguous(), torch.eye(n))


def _combinations(
    n: int, relevant: torch.Tensor, plain: torch.Tensor, sliding_tensor: torch.Tensor
) -> torch.Tensor:
    """Sums of logarithms that are features of their own.

    Rows: log sizes and factors [5n], log extents of the sliding axes of L2 and L1 [2 axes], log
    stationary runs above L2 and L1 [2T]. Columns: tiles of L2 and L1 [2T], visits of L2 and L1
    [2T], spatial spread [T], processing elements [1].
    """
    axes, tensors = sliding_tensor.shape
    tiles = _blocks_and_steps(n)[:, : 2 * n] @ torch.kron(torch.eye(2), plain)
    tiles = torch.cat(
        (tiles, torch.kron(torch.eye(2), sliding_tensor), torch.zeros(2 * tensors, 2 * tensors))
    )
    visits = torch.zeros(5 * n, 2 * tensors)
    visits[n : 2 * n] = 1.0  # DRAM's loops are above both,
    visits[2 * n : 3 * n, tensors:] = 1.0  # L2's above L1 only.
    visits = torch.cat((visits, torch.zeros(2 * axes, 2 * tensors), -torch.eye(2 * tensors)))
    spatial = torch.zeros(5 * n + 2 * axes + 2 * tensors, tensors + 1)
    spatial[3 * n : 4 * n] = torch.cat((relevant, torch.ones(n, 1)), 1)
    return torch.cat((tiles, visits, spatial), 1)


def _straight_through(
    hard: torch.Tensor, slope: torch.Tensor, soft_of: torch.Tensor
) -> torch.Tensor:
    """`hard` forwards, `slope` times the gradient of `soft_of` backwards."""
    slope = slope.detach()
    return torch.addcmul(hard - slope * soft_of.detach(), slope, soft_of)


def _present(trips: torch.Tensor) -> torch.Tensor:
    """1 where a loop runs more than once; backwards 1 - 1 / trips."""
    hard = (trips > 1.5).to(trips.dtype)
    if not trips.requires_grad:
        return hard
    return _straight_through(hard, trips.detach() ** -2, trips)


def _inside(ranks: torch.Tensor) -> torch.Tensor:
    """[..., i, j] = 1 where loop j is inside loop i (of higher rank); backwards a sigmoid."""
    distance = ranks.unsqueeze(-2) - ranks.unsqueeze(-1)
    hard = (distance > 0).to(ranks.dtype)
    if not ranks.requires_grad:
        return hard
    soft = torch.sigmoid(distance.detach())
    return _straight_through(hard, soft * (1.0 - soft), distance)


def _none(count: torch.Tensor) -> torch.Tensor:
    """1 where a count is zero; backwards 1 / (1 + count)."""
    hard = (count < 0.5).to(count.dtype)
    if not count.requires_grad:
        return hard
    return _straight_through(hard, -((1.0 + count.detach()) ** -2), count)


FEATURES: dict[str, type[RawFeatures] | type[PhysicalFeatures]] = {
    "raw": RawFeatures,
    "physical": PhysicalFeatures,
}
