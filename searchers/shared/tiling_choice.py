"""Which tilings to measure next: told apart by their loops, ranked by what they could be at best.

The cheap model of tilings counts words in caches. Thousands of tilings are its best, and what tells
them apart is what a compiler makes of their innermost loops. So tilings are drawn from the cheap
model's good part alone and near the best measured ones; a process (`searchers.shared.body_process`)
learns from what was measured, and a batch has those whose lower confidence bound is least, one
after another, each believed to come out as predicted before the next is chosen. Source of the
bound: Cox and John, "SDO: a statistical method for global optimization", 1997.

Letters: M candidates, N measured, D attributes of a code, F features, G coordinates of a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from costmodel.space import Codes, Losses
from costmodel.tiling.space import TilingSpace
from searchers.shared.body_process import BodyProcess, Reals
from searchers.shared.priors import Prior

# Uniform draws of which the best by the cheap model are candidates, and how many those are; how
# many of them the first batch chooses from.
DRAWN, KEPT, SPREAD = 40_000, 3000, 600
# ln above the cheap model's least beyond which nothing is measured.
FARTHEST = 0.5
# Share of the cheap model's ln latency that is believed before anything is measured.
BELIEVED = 0.5
# Standard deviations that a tiling may turn out better than predicted.
HOPE = 3.0
# ln above the best from which on losses count by their logarithm only.
WORSE = 0.3
# Best tilings whose neighbours are candidates; how many random walks, and of how many steps, and
# how many draws of one attribute anew, start from the first of them.
CENTRES = 24
WALKS = ((12, 60, 2), (6, 60, 3))
REDRAWN = (6, 40)
# Longest vectors that may make a difference, in doublings of a word.
VECTORS = (4, 5, 6)
# Results that stay in registers, in doublings: half of 32 registers of 16 words.
RESULTS = 8


class Described(NamedTuple):
    """Tilings as a process sees them.

    Attributes:
        latency: `[M]` ln of the cheap model's.
        features: `[M, F]` log2 of what the inner loops of each dimension come to, of vectors, and
            of how often a result is brought back into registers; ln of the cheap model's latency
            and energy.
        bodies: `[M, G]` log2 of the innermost loops of K and N and of the results that the two
            innermost loops of M and N work on.
    """

    latency: Reals
    features: Reals
    bodies: Reals

    def rows(self, chosen: Codes) -> Described:
        """Those of some tilings."""
        return Described(*(column[chosen] for column in self))


def describe(space: TilingSpace, prior: Prior, codes: Codes) -> Described:
    """What a process sees of codes `[M, D]`."""
    causes, steps = prior(codes), np.log2(space.factors(codes)).astype(np.float64)
    m, k, n = np.split(steps, np.cumsum(space.splits)[:2], axis=1)
    # Of every loop, what it and those inside of it come to.
    inside = [np.cumsum(one[:, ::-1], axis=1)[:, ::-1] for one in (m, k, n)]
    results = m[:, -2:].sum(axis=1) + n[:, -2:].sum(axis=1)
    features = np.column_stack(
        [
            *(one[:, 1:] for one in inside),
            *(np.minimum(n[:, -1], vector) for vector in VECTORS),
            # Between two steps of the outer K loops results stay where they are if they can.
            np.where(results > RESULTS, k[:, :-1].sum(axis=1), 0.0),
            causes.latency,
            causes.energy,
        ]
    )
    return Described(causes.latency, features, np.column_stack([k[:, -1], n[:, -1], results]))


class Measured(NamedTuple):
    """What was measured, `[N, D]` and ln losses `[N]`, all finite; and what is under way."""

    codes: Codes
    logs: Losses
    out: Codes


class Chooser:
    """Draws candidates of a space and chooses batches among them."""

    def __init__(
        self,
        space: TilingSpace,
        prior: Prior,
        rng: np.random.Generator,
        fresh: Callable[[Codes], Codes],
    ) -> None:
        """Takes what the searcher has.

        Args:
            space: the tilings.
            prior: their cheap model.
            rng: the searcher's.
            fresh: of codes, those that were never proposed, each once.
        """
        self._space, self._prior, self._rng, self._fresh = space, prior, rng, fresh

    def first(self, count: int) -> Codes:
        """`[count, D]` or fewer of the cheap model's best, as different as can be."""
        codes = self._fresh(self._good())
        latency = self._prior(codes).latency
        codes = codes[np.sort(np.argsort(latency, kind="stable")[:SPREAD])]
        features = describe(self._space, self._prior, codes).features
        points = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-9)
        chosen, nearest = [0], np.full(len(codes), np.inf)
        while len(chosen) < min(count, len(codes)):
            to_last = ((points - points[chosen[-1]]) ** 2).sum(axis=1)
            nearest = np.minimum(nearest, to_last)
            chosen.append(int(nearest.argmax()))
        return codes[chosen] if len(codes) else codes

    def next(self, measured: Measured, count: int, *, shuffled: bool = False) -> Codes:
        """`[count, D]` or fewer that are worth measuring, most promising first.

        Args:
            measured: N at least 1.
            count: of tilings.
            shuffled: candidates in any order instead.
        """
        codes = self._candidates(measured)
        if shuffled or not len(codes):
            return self._rng.permutation(codes)[:count]
        known = describe(self._space, self._prior, measured.codes)
        asked = describe(self._space, self._prior, codes)
        above = measured.logs - measured.logs.min()
        losses = WORSE * np.log1p(above / WORSE)
        process = BodyProcess(known.features, known.bodies, losses - BELIEVED * known.latency)
        if len(measured.out):
            out = describe(self._space, self._prior, measured.out)
            process.believe(out.features, out.bodies)
        chosen: list[int] = []
        open_ = np.ones(len(codes), np.bool_)
        for _ in range(min(count, len(codes))):
            means, deviations = process.predict(asked.features, asked.bodies)
            bound = means + BELIEVED * asked.latency - HOPE * deviations
            chosen.append(int(np.where(open_, bound, np.inf).argmin()))
            open_[chosen[-1]] = False
            process.believe(asked.features[chosen[-1:]], asked.bodies[chosen[-1:]])
        return codes[chosen]

    def _good(self) -> Codes:
        """`[KEPT, D]` the cheap model's best of many draws, in the order they were drawn."""
        drawn = self._space.sample(self._rng, DRAWN)
        latency = self._prior(drawn).latency
        kept = np.sort(np.argsort(latency, kind="stable")[:KEPT])
        return drawn[kept]

    def _candidates(self, measured: Measured) -> Codes:
        """`[M, D]` what may be measured next: the cheap model's best, and kin of the best."""
        good = self._good()
        best = measured.codes[np.argsort(measured.logs, kind="stable")[:CENTRES]]
        parts = [good, *(self._space.neighbours(code) for code in best)]
        for centres, walks, steps in WALKS:
            starts = np.repeat(best[:centres], walks, axis=0)
            parts.append(self._space.mutate(self._rng, starts, steps=steps))
        starts = np.repeat(best[: REDRAWN[0]], REDRAWN[1], axis=0)
        anew = self._rng.integers(0, starts.shape[1], len(starts))
        mask = anew[:, None] == np.arange(starts.shape[1])
        parts.append(self._space.resample(self._rng, starts, mask))
        codes = self._fresh(np.concatenate(parts))
        if not len(codes):
            return codes
        latency = self._prior(np.concatenate([codes, good])).latency
        near: Codes = codes[latency[: len(codes)] < latency.min() + FARTHEST]
        return near
