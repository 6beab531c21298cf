"""A surrogate for every machine: counts that are nearly linear in logarithms, then a known readout.

What enters a tile, what is read for the children and what one sees of an output first are, as
logarithms, sums of the logarithms that `PhysicalFeatures` makes, but for one thing: tiles that
slide over each other, in time (only a part of the next one is new) and across children (neighbours
share words). Two small networks learn that rest, of one axis at a time, so that they are the same
for every operation and hierarchy. The machine comes after them, known and exact: energy is a sum of
counts times energies, latency the largest of what each level's bandwidth needs, whose gradient is
that of a soft maximum. So a network sees no energy, bandwidth or capacity, and need not.

Letters: `B` points, `I` inner levels, `X` fan-outs, `T` tensors, `C` pairs of a level and a tensor
that it keeps, `E` members of the ensemble, `G` columns of the description.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from surrogate.applicability import Structure
from surrogate.features import PhysicalFeatures

WIDTH = 48
MEMBERS = 4
# How sharply the largest of several times is chosen, for gradients alone.
SHARPNESS = 8.0
# Least logarithm of what is renewed, and of factors, that counts as one.
LEAST_SHARED = 1e-3
# Least share of the words that are left where others are taken away.
LEAST_LEFT = 1e-6
# What the networks see of an axis: in time the share that is renewed and the trips of the loop that
# slides; across children the factors of two dimensions and how far a step of each moves.
IN_TIME, ACROSS = 2, 4


class Rest(nn.Module):
    """Members of an ensemble: what one sliding axis adds to a logarithm, 0 where nothing slides."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            nn.Sequential(
                nn.Linear(inputs, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(),
                nn.Linear(WIDTH, 1),
            )
            for _ in range(MEMBERS)
        )  # fmt: skip

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """[E, ...] of columns [..., inputs]; axes whose columns are 0 add nothing."""
        slides = (seen.abs() > 1e-6).any(-1)
        found = torch.stack([member(seen / 3.0).squeeze(-1) for member in self.members])
        return torch.where(slides, found, torch.zeros_like(found))


class CountNetwork(nn.Module):
    """The two networks, which all spaces share."""

    def __init__(self) -> None:
        super().__init__()
        self.in_time = Rest(IN_TIME)
        self.across = Rest(ACROSS)


class Counts(NamedTuple):
    """Logarithms of a run's counts, per kept pair: [E, B, C] each, `instances` [B, C].

    Attributes:
        served: words that one instance hands to what is below it.
        entering: words that enter it.
        first: words of an output that it is the first to see.
        instances: how many instances are in use.
        iterations: [B] steps of every element.
    """

    served: torch.Tensor
    entering: torch.Tensor
    first: torch.Tensor
    instances: torch.Tensor
    iterations: torch.Tensor


class Readout(nn.Module):
    """The counts of one space's mappings, and their cost on its machine."""

    of_linear: torch.Tensor
    of_rests: torch.Tensor
    offset: torch.Tensor
    output: torch.Tensor
    axis_tensor: torch.Tensor
    log_energy: torch.Tensor
    happens: torch.Tensor

    def __init__(self, space: MapSpace, network: CountNetwork) -> None:
        """Lays out what is linear, once.

        Args:
            space: of one operation on one machine.
            network: the learnt rest.
        """
        super().__init__()
        self.features = PhysicalFeatures(Structure.of(space))
        self.network = network
        self._space = space
        machine = space.accelerator
        self.levels, self.tensors = len(machine.levels), len(space.workload.tensors)
        self.fans = [index for index, level in enumerate(machine.levels) if _spreads(space, index)]
        never = space.tables.machine.never_kept
        self.kept = [
            (level, t)
            for level in range(self.levels)
            for t in range(self.tensors)
            if not never[level] >> t & 1
        ]
        self.axes = _axes(space.workload)
        self.width = 1 + len(self.fans) * (1 + self.tensors) + 2 * (self.levels - 1) * self.tensors
        self.slides_at = self.width
        self.width += len(self.axes) * ((self.levels - 1) * IN_TIME + len(self.fans) * ACROSS)
        self._lay_out()
        self._charge()

    def describe(self, points: torch.Tensor) -> torch.Tensor:
        """Columns [B, G] that counts are made of, from raw points [B, F]: no network is asked."""
        blocks = self.features.blocks(points)
        slots = 1 + torch.tensor(self.features.temporal)
        iterations = blocks.factors[:, slots].sum((1, 2))
        columns = [
            iterations[:, None],
            blocks.spatial[:, :, -1],
            blocks.spatial[:, :, :-1].flatten(1),
            blocks.tiles.flatten(1),
            blocks.visits.flatten(1),
        ]
        if self.axes:
            sliding = [axis.column for axis in self.axes]
            pairs = torch.stack([blocks.renewed, blocks.run], 3)[:, :, sliding]
            # Where a step renews the whole tile nothing is shared.
            columns.append((pairs * (pairs[..., :1] < -LEAST_SHARED)).flatten(1))
            columns.append(self._across(blocks.factors).flatten(1))
        return torch.cat(columns, 1)

    def counts(self, described: torch.Tensor) -> Counts:
        """Counts of a description [B, G], of every member of the ensemble."""
        in_time, across = self.sliding(described)
        of_axis = self.axis_tensor
        time, space = self.network.in_time(in_time), self.network.across(across)
        rests = torch.cat([(time @ of_axis).flatten(2), (space @ of_axis).flatten(2)], 2)
        known = self.known(described)
        learnt = (rests @ self.of_rests).view(rests.shape[0], len(described), 2, -1)
        return Counts(
            served=known[:, 0] + learnt[:, :, 0],
            entering=known[:, 1] + learnt[:, :, 1],
            first=known[:, 2].expand_as(learnt[:, :, 0]),
            instances=known[:, 3],
            iterations=described[:, 0],
        )

    def known(self, described: torch.Tensor) -> torch.Tensor:
        """[B, 4, C] served, entering, first and instances, as if no tiles slid over each other."""
        linear = described[:, : self.slides_at] @ self.of_linear + self.offset
        return linear.view(len(described), 4, -1)

    def sliding(self, described: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the networks see: [B, I, axes, 2] in time, [B, X, axes, 4] across children."""
        batch, inner, axes = described.shape[0], self.levels - 1, len(self.axes)
        end = self.slides_at + inner * axes * IN_TIME
        in_time = described[:, self.slides_at : end].view(batch, inner, axes, IN_TIME)
        return in_time, described[:, end:].view(batch, len(self.fans), axes, ACROSS)

    def energy_and_cycles(self, described: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logarithms of energy (pJ) and cycles, [E, B] each."""
        counts = self.counts(described)
        left = _less(counts.served, counts.first)
        reads = torch.where(self.output, left, counts.served)
        fills = torch.where(self.output, _less(counts.entering, counts.first), counts.entering)
        actions = torch.stack([reads, fills, counts.served])  # [3, E, B, C]
        charged = actions + counts.instances + self.log_energy[:, None, None]
        # What costs nothing, or does not happen, is far below everything.
        energy = torch.cat([charged.movedim(0, 2).flatten(2), self.mac_term(charged)], 2)
        happening = actions + self.happens[:, None, None]
        times = [(counts.iterations + self.log_cycles_per_mac).expand(reads.shape[:2])]
        for level in range(self.levels):
            pairs = self.pairs_of[level]
            read = happening[0][:, :, pairs].logsumexp(2)
            written = happening[1:][:, :, :, pairs].movedim(0, 2).flatten(2).logsumexp(2)
            for words, limit in (
                (read, self.bandwidths[level][0]),
                (written, self.bandwidths[level][1]),
                (torch.logaddexp(read, written), self.bandwidths[level][2]),
            ):
                if limit is not None:
                    times.append(words - math.log(limit))
        return energy.logsumexp(2), _largest(torch.stack(times))

    def log_edp(self, described: torch.Tensor) -> torch.Tensor:
        """Ln EDP (pJ x cycles) of a description [B, G], [E, B]."""
        energy, cycles = self.energy_and_cycles(described)
        return energy + cycles

    def mac_term(self, like: torch.Tensor) -> torch.Tensor:
        """Ln energy of the multiply-adds, as a column [E, B, 1]."""
        return like.new_full((*like.shape[1:3], 1), self.log_mac_energy)

    def _across(self, factors: torch.Tensor) -> torch.Tensor:
        """[B, X, axes, 4] factors and steps of the two dimensions of an axis, at every fan-out."""
        slots = [1 + at for at in self.features.fan_outs]
        columns = []
        for slot in slots:
            inside = factors[:, slot + 1 :].sum(1)
            for axis in self.axes:
                (a, step_a), (b, step_b) = axis.terms
                spread = factors[:, slot]
                pair = torch.stack(
                    [
                        spread[:, a], spread[:, b],
                        inside[:, a] + math.log(step_a), inside[:, b] + math.log(step_b),
                    ],
                    1,
                )  # fmt: skip
                # Where one of them does not spread, no two children share a part.
                both = (spread[:, a] > LEAST_SHARED) & (spread[:, b] > LEAST_SHARED)
                columns.append(pair * both[:, None])
        if not columns:
            return factors.new_zeros(len(factors), 0, len(self.axes), ACROSS)
        return torch.stack(columns, 1).view(len(factors), len(slots), len(self.axes), ACROSS)

    def _lay_out(self) -> None:
        """Tables from the description and the rests to the counts of the kept pairs."""
        inner, tensors, fans = self.levels - 1, self.tensors, len(self.fans)
        used_at, spread_at = 1, 1 + fans
        tile_at = spread_at + fans * tensors
        visit_at = tile_at + inner * tensors
        pairs = len(self.kept)
        linear = np.zeros((self.slides_at, 4, pairs))
        rests = np.zeros(((inner + fans) * tensors, 2, pairs))
        offset = np.zeros((4, pairs))
        outputs = [tensor.output for tensor in self._space.workload.tensors]
        for c, (level, t) in enumerate(self.kept):
            below = next((at for at, s in self.kept if s == t and at > level), None)
            if below is None:
                linear[0, 0, c] = 1.0
            else:
                column = (below - 1) * tensors + t
                linear[[tile_at + column, visit_at + column], 0, c] = 1.0
                rests[column, 0, c] = 1.0
            for x, fan in enumerate(self.fans):
                if level <= fan and (below is None or fan < below):
                    linear[spread_at + x * tensors + t, 0, c] = 1.0
                    rests[(inner + x) * tensors + t, 0, c] = 1.0
                if fan < level:
                    linear[used_at + x, 3, c] = 1.0
                    linear[spread_at + x * tensors + t, 2, c] = -1.0
            if any(s == t and at < level for at, s in self.kept):
                column = (level - 1) * tensors + t
                linear[[tile_at + column, visit_at + column], 1, c] = 1.0
                rests[column, 1, c] = 1.0
            offset[2, c] = math.log(self._space.workload.words(t))
        self.register_buffer("of_linear", _table(linear), persistent=False)
        self.register_buffer("of_rests", _table(rests), persistent=False)
        self.register_buffer("offset", torch.tensor(offset.reshape(-1), dtype=torch.float32), False)
        output = torch.tensor([outputs[t] for _, t in self.kept])
        self.register_buffer("output", output, persistent=False)
        slides = torch.zeros(len(self.axes), tensors)
        for row, axis in enumerate(self.axes):
            slides[row, axis.tensor] = 1.0
        self.register_buffer("axis_tensor", slides, persistent=False)

    def _charge(self) -> None:
        """What the machine charges for reads, fills and updates of every pair, and its limits."""
        machine, far = self._space.accelerator, -1e4
        energy, happens = np.full((3, len(self.kept)), far), np.full((3, len(self.kept)), far)
        for c, (level, t) in enumerate(self.kept):
            output = self._space.workload.tensors[t].output
            enters = any(s == t and at < level for at, s in self.kept)
            for action, there in enumerate((True, enters, output)):
                cost = machine.levels[level].energies[action]
                if there:
                    happens[action, c] = 0.0
                    energy[action, c] = math.log(cost) if cost > 0 else far
        self.register_buffer("log_energy", _table(energy), persistent=False)
        self.register_buffer("happens", _table(happens), persistent=False)
        self.bandwidths = [
            (level.read_bandwidth, level.write_bandwidth, level.bandwidth)
            for level in machine.levels
        ]
        self.pairs_of = [
            [c for c, (at, _) in enumerate(self.kept) if at == level]
            for level in range(self.levels)
        ]
        self.log_cycles_per_mac = math.log(machine.cycles_per_mac)
        macs = self._space.workload.macs * machine.mac_energy_pj
        self.log_mac_energy = math.log(macs) if macs > 0 else far


class _Axis(NamedTuple):
    """An axis of two dimensions: its column among sliding axes, its tensor, terms with steps."""

    column: int
    tensor: int
    terms: tuple[tuple[int, int], tuple[int, int]]


def _axes(workload: Workload) -> list[_Axis]:
    """Axes that are sums of two dimensions, in the order of the features' sliding axes."""
    index = {name: d for d, name in enumerate(workload.dimension_names)}
    found, column = [], 0
    for t, tensor in enumerate(workload.tensors):
        for axis in tensor.axes:
            if len(axis.terms) == 1 and axis.terms[0][1] == 1:
                continue
            if len(axis.terms) == 2:
                (a, step_a), (b, step_b) = axis.terms
                found.append(_Axis(column, t, ((index[a], step_a), (index[b], step_b))))
            column += 1
    return found


def _spreads(space: MapSpace, level: int) -> bool:
    return bool(space.tables.spatial_slot[level] >= 0)


def _table(values: np.ndarray) -> torch.Tensor:
    """A table of floats; of three axes the last two become one."""
    flat = values.reshape(values.shape[0], -1) if values.ndim == 3 else values
    return torch.tensor(flat, dtype=torch.float32)


def _less(all_of_it: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """ln(e^a - e^b), at least a small share of e^a."""
    share = torch.exp((part - all_of_it).clamp(max=0.0))
    return all_of_it + torch.log((1.0 - share).clamp(min=LEAST_LEFT))


def _largest(times: torch.Tensor) -> torch.Tensor:
    """The largest of times [K, E, B]; its gradient is a soft maximum's."""
    soft = (SHARPNESS * times).logsumexp(0) / SHARPNESS
    return times.amax(0).detach() + soft - soft.detach()
