"""What a network sees of a mapping: the raw encoded point, or the quantities that decide its cost.

Letters: `B` points, `n` dimensions, `S` slots of factors, `L` levels, `I = L - 1` inner ones, `X`
fan-outs, `T` tensors, `F` raw values per point, `G` features. All of it is torch, from the raw
point onwards, so a gradient with respect to the raw point exists. Loop orders are discrete: a
comparison of two ranks is exact forwards and a sigmoid backwards (straight-through estimation,
Bengio et al. 2013), and so is the test whether a factor exceeds 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from costmodel.map_space.orders_of_buffers import BESIDE
from surrogate.applicability import Structure

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


class Blocks(NamedTuple):
    """A nest's quantities, as logarithms.

    Attributes:
        known: [B, ...] sizes and factors, extents of sliding axes, stationary runs.
        combined: [B, ...] `tiles`, `visits` and `spatial` in a row.
        factors: [B, 1 + S, n] sizes, then factors of every slot.
        tiles: [B, I, T] words of the tiles of the inner levels.
        visits: [B, I, T] how often they are brought in.
        spatial: [B, X, T + 1] spreads of the tensors, then the children in use.
        renewed: [B, I, axes] share of a sliding axis that a step of the innermost loop renews.
        run: [B, I, axes] trips of that loop, 0 where it does not move along the axis.
    """

    known: torch.Tensor
    combined: torch.Tensor
    factors: torch.Tensor
    tiles: torch.Tensor
    visits: torch.Tensor
    spatial: torch.Tensor
    renewed: torch.Tensor
    run: torch.Tensor


class PhysicalFeatures(nn.Module):
    """Logarithms of the quantities from which a loop nest's cost is made.

    Per point: sizes and factors; per tensor and inner level the tile, the stationary run (product
    of the irrelevant innermost non-unit temporal loops above the level, running from one level's
    loops on into those of the next outer one), the visits (product of the other temporal loops
    above) and, where dimensions slide over each other, the share of a tile that is new after a
    step of the innermost loop; per fan-out the used children and per tensor the spatial spread
    (distinct tiles over them); per inner level the capacity margin; banks and keep bits where they
    are searched. A tensor that a level does not hold has these values too, as if it did: what
    enters a level follows from its tile and all loops above, held in between or not. Of buffers
    side by side whose order is searched, tiles, runs and visits are those of a place in the nest,
    the capacity margin is of the buffer at the place where it stands, and the places follow as raw
    values.
    Formulas: Parashar et al., Timeloop (ISPASS 2019), as this project's loop-nest model uses them.
    """

    relevant: torch.Tensor
    sliding: torch.Tensor
    blocks_and_steps: torch.Tensor
    combinations: torch.Tensor
    log_words: torch.Tensor
    held: torch.Tensor

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
        self.fan_outs = [at for at, (kind, _) in enumerate(structure.slots) if kind == "spatial"]
        self.temporal = [at for at, (kind, _) in enumerate(structure.slots) if kind == "temporal"]
        # Pairs of a level and an outer one whose loops may be the innermost above it.
        self.pairs = [
            (level, outer)
            for level in range(1, len(structure.levels))
            for outer in range(level - 1, -1, -1)
        ]
        constants = {
            "relevant": relevant,  # [n, T]
            "sliding": torch.cat(sliding, 1),  # [n, axes]
            "blocks_and_steps": self._blocks_and_steps(n),
            "combinations": self._combinations(n, relevant, plain, torch.cat(sliding_tensor)),
            "log_words": torch.tensor(_words(structure)).log(),  # [I] words of a level or a bank
            "held": torch.tensor(_held(structure)),  # [I, 2, T] always held, may be held
        }
        for name, constant in constants.items():
            self.register_buffer(name, constant, persistent=False)
        self.places = _places(structure)
        axes, inner = self.sliding.shape[1], len(structure.buffers)
        banked = sum(buffer.banks is not None for buffer in structure.buffers)
        self.width = sum(self.combinations.shape) + inner * axes
        self.width += (inner - banked) + 2 * banked * tensors
        self.width += len(structure.features) - len(structure.known_features())
        self.width += tensors * sum(structure.chooses(level) for level in structure.levels)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Features [B, G] of raw points [B, F]."""
        blocks = self.blocks(points)
        features = [blocks.known, blocks.combined]
        if self.sliding.shape[1]:
            features += blocks.renewed.unbind(1)
        return torch.cat(features + self._capacities(points, blocks.tiles), dim=1)

    def blocks(self, points: torch.Tensor) -> Blocks:
        """What a nest is, of raw points [B, F], before it becomes a row of features."""
        structure = self.structure
        n, tensors, axes = len(structure.dimensions), len(structure.tensors), self.sliding.shape[1]
        batch, slots, levels = points.shape[0], len(structure.slots), len(structure.levels)
        orders = (1 + slots) * n
        raw = points[:, :orders].clamp(min=1.0, max=LARGEST_FACTOR)
        logs = raw.log()
        linear = (logs @ self.blocks_and_steps).view(batch, levels - 1 + len(self.pairs), n)
        blocks, steps = linear[:, : levels - 1], linear[:, levels - 1 :]
        loops = [1 + at for at in self.temporal[:-1]]
        stationary, innermost = self._loops(
            logs.view(batch, 1 + slots, n)[:, loops],
            _present(raw.view(batch, 1 + slots, n)[:, loops]),
            _inside(points[:, orders : orders + (levels - 1) * n].view(batch, levels - 1, n)),
        )
        extents = torch.log1p(blocks.expm1() @ self.sliding)  # [B, I, axes]
        known = torch.cat((logs, extents.flatten(1), stationary.flatten(1)), 1)
        combined = known @ self.combinations
        inner = levels - 1
        runs_of = inner * tensors
        tiles, visits, spatial = torch.split(
            combined, [runs_of, runs_of, combined.shape[1] - 2 * runs_of], dim=1
        )
        renewed = run = extents.new_zeros(batch, inner, axes)
        if axes:
            shares = self._renewed(innermost, steps, extents)
            temporal = logs.view(batch, 1 + slots, n)[:, loops]
            turning = innermost * temporal[:, [outer for _, outer in self.pairs]]
            runs = turning @ (self.sliding > 0).to(turning.dtype)
            per_level = list(range(1, levels))
            renewed = torch.stack([one.sum(1) for one in torch.split(shares, per_level, 1)], 1)
            run = torch.stack([one.sum(1) for one in torch.split(runs, per_level, 1)], 1)
        return Blocks(
            known=known,
            combined=combined,
            factors=logs.view(batch, 1 + slots, n),
            tiles=tiles.view(batch, inner, tensors),
            visits=visits.view(batch, inner, tensors),
            spatial=spatial.view(batch, len(self.fan_outs), tensors + 1),
            renewed=renewed,
            run=run,
        )

    def _capacities(self, points: torch.Tensor, tiles: torch.Tensor) -> list[torch.Tensor]:
        """Banks and margins of every inner level, then what a point has behind its banks.

        Args:
            points: Raw points, [B, F].
            tiles: Log tiles of the inner levels, [B, I, T].
        """
        structure, tensors = self.structure, len(self.structure.tensors)
        at = (1 + len(structure.slots) + len(structure.levels)) * len(structure.dimensions)
        keep_at = at + tensors * sum(buffer.banks is not None for buffer in structure.buffers)
        column = keep_at + tensors * structure.chooses(structure.levels[0])
        features = []
        for b, buffer in enumerate(structure.buffers):
            held = tiles[:, b]
            if b in self.places:
                column_of_place, first, size = self.places[b]
                place = first + points[:, column_of_place].round().clamp(0, size - 1).long()
                held = tiles[torch.arange(len(points), device=points.device), place]
            if buffer.banks is not None:
                banks = points[:, at : at + tensors].clamp(min=1.0).log()
                at += tensors
                features += [banks, self.log_words[b] + banks - held]
            always, may = self.held[b]
            if structure.chooses(buffer.name):
                kept = points[:, column : column + tensors].clamp(min=0.0)
                column += tensors
                held = held + (torch.where(always > 0, 1.0, kept) * may + ABSENT).log()
            elif buffer.bypass:
                held = held + (may + ABSENT).log()
            if buffer.banks is None:
                features.append(self.log_words[b] - held.logsumexp(1, keepdim=True))
        # Keep bits, and whatever else this map space searches.
        return features + ([points[:, keep_at:]] if points.shape[1] > keep_at else [])

    def _loops(
        self, trips: torch.Tensor, present: torch.Tensor, inside: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log stationary runs above every inner level, and which loop is the innermost above.

        Args:
            trips: Log trip counts of the temporal loops of all levels but the last, [B, I, n].
            present: 1 where a loop has more than one trip, [B, I, n].
            inside: [B, I, i, j], 1 where loop j is inside loop i.

        Returns:
            The runs [B, I, T], and one-hot rows [B, pairs, n]: the innermost loop above a level
            among those of an outer level, none if a level between them has a loop.
        """
        relevant_present = present.unsqueeze(3) * self.relevant
        # A loop is stationary if it is irrelevant and no relevant loop is inside it.
        free = _none(inside @ relevant_present) * (1.0 - self.relevant)
        runs = (trips.unsqueeze(3) * free).sum(2)
        # A run continues among the loops of the next outer level if no loop of this one ends it,
        continues = _none(relevant_present.sum(2))
        stationary = [runs[:, 0]]
        for level in range(1, runs.shape[1]):
            stationary.append(
                torch.addcmul(runs[:, level], continues[:, level], stationary[level - 1])
            )
        among = present * _none((inside * present.unsqueeze(2)).sum(3))
        # and the innermost loop is there if this one has none.
        empty = _none(present.sum(2, keepdim=True))
        innermost = []
        for level, outer in self.pairs:
            none_between = empty[:, outer + 1 : level].prod(1, keepdim=True)
            innermost.append(none_between * among[:, outer : outer + 1])
        return torch.stack(stationary, 1), torch.cat(innermost, 1)

    def _renewed(
        self, innermost: torch.Tensor, steps: torch.Tensor, extents: torch.Tensor
    ) -> torch.Tensor:
        """Log share of each sliding axis that a step of the innermost loop renews.

        Args:
            innermost: One-hot loops as `_loops` returns them, [B, pairs, n].
            steps: Log distance that a step of each such loop moves its dimension, [B, pairs, n].
            extents: Log extents of the sliding axes in the inner levels, [B, I, axes].

        Returns:
            [B, pairs, axes], 0 where the innermost loop does not move along the axis.
        """
        on_axis = (self.sliding > 0).to(steps.dtype)
        extents = extents[:, [level - 1 for level, _ in self.pairs]]
        moved = steps.unsqueeze(3) + self.sliding.clamp(min=1.0).log() - extents.unsqueeze(2)
        return (innermost.unsqueeze(3) * on_axis * moved.clamp(max=0.0)).sum(2)

    def _blocks_and_steps(self, n: int) -> torch.Tensor:
        """[(1 + S) n, (I + pairs) n]: from log sizes and factors to logs of products of factors.

        The columns are the tiles of the inner levels (all factors from theirs inwards), then, pair
        by pair, the step of a loop of the outer level (all factors inside it).
        """
        after = self.temporal[1:] + [self.temporal[outer] + 1 for _, outer in self.pairs]
        inwards = [[float(slot >= at) for slot in range(len(self.structure.slots))] for at in after]
        table = torch.tensor([[0.0, *row] for row in inwards])
        return torch.kron(table.T.contiguous(), torch.eye(n))

    def _combinations(
        self, n: int, relevant: torch.Tensor, plain: torch.Tensor, sliding_tensor: torch.Tensor
    ) -> torch.Tensor:
        """Sums of logarithms that are features of their own.

        Rows: log sizes and factors [(1 + S) n], log extents of the sliding axes of the inner levels
        [I axes], log stationary runs above them [I T]. Columns: their tiles [I T] and visits [I T];
        per fan-out the spatial spread [T] and the children in use [1].
        """
        axes, tensors = sliding_tensor.shape
        inner, factors = len(self.structure.buffers), (1 + len(self.structure.slots)) * n
        spans, runs = inner * axes, inner * tensors
        eye = torch.eye(inner)
        tiles = self._blocks_and_steps(n)[:, : inner * n] @ torch.kron(eye, plain)
        tiles = torch.cat((tiles, torch.kron(eye, sliding_tensor), torch.zeros(runs, runs)))
        visits = torch.zeros(factors, runs)
        for outer, at in enumerate(self.temporal[:-1]):
            # The loops of a level are above all further in.
            visits[(1 + at) * n : (2 + at) * n, outer * tensors :] = 1.0
        visits = torch.cat((visits, torch.zeros(spans, runs), -torch.eye(runs)))
        spatial = torch.zeros(factors + spans + runs, len(self.fan_outs) * (tensors + 1))
        for x, at in enumerate(self.fan_outs):
            columns = slice(x * (tensors + 1), (x + 1) * (tensors + 1))
            spatial[(1 + at) * n : (2 + at) * n, columns] = torch.cat(
                (relevant, torch.ones(n, 1)), 1
            )
        return torch.cat((tiles, visits, spatial), 1)


def _places(structure: Structure) -> dict[int, tuple[int, int, int]]:
    """Per buffer whose place is searched: the column of its place, its group's first and size."""
    groups: dict[str, list[int]] = {}
    for b, buffer in enumerate(structure.buffers):
        if buffer.beside is not None:
            groups.setdefault(buffer.beside, []).append(b)
    return {
        b: (structure.features.index(f"{BESIDE}.{structure.buffers[b].name}"), group[0], len(group))
        for group in groups.values()
        for b in group
    }


def _words(structure: Structure) -> list[float]:
    """Words of every inner level or of one of its banks, at least 1; 1 for one without limit."""
    return [
        max((buffer.capacity_words or 1) / (buffer.banks or 1), 1.0) for buffer in structure.buffers
    ]


def _held(structure: Structure) -> list[list[list[float]]]:
    """Per inner level and tensor, [I, 2, T]: 1 where it is always held, 1 where it may be held."""
    names = [tensor.name for tensor in structure.tensors]
    return [
        [[float(n in buffer.keep) for n in names], [float(n not in buffer.bypass) for n in names]]
        for buffer in structure.buffers
    ]


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
