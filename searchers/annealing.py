"""Simulated annealing (Kirkpatrick, Gelatt & Vecchi, Science 1983) with an automatic schedule.

Several chains walk in lockstep under one temperature, so that a batch is one query of each. The
schedule is found as the `simanneal` library's `auto` finds it (the set-up of Mind Mappings,
ASPLOS 2021, appendix A): upwards to where nearly every move is accepted, downwards to where moves
bring no improvement; but from one sample of moves, which is part of the budget, instead of whole
runs per temperature. After its horizon the search starts again from the best, reheated.

Of preset `paper` the paper states only the library and that it tunes itself for each problem. One
chain, the raw EDP and the two acceptances (98 %, and next to none at the end) are the library's.
The move (one attribute drawn anew), the length of the cooling and how many queries the tuning may
take are choices made here; what the paper's tuning asked, and whether it was counted, is not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from costmodel.space import Codes, Losses
from searchers.base import LARGEST_BATCH, feasible_moves, log_losses, metropolis
from searchers.options import (
    Count,
    Flag,
    Integer,
    Options,
    Positive,
    PositiveShare,
    Presets,
    ShareBelowOne,
    Sources,
    Temperatures,
)
from searchers.shared.asynchronous import Asynchronous, Notes

if TYPE_CHECKING:
    from costmodel.space import Space

# The most domain moves that one step combines.
MOST_STEPS = 4

# The factor between the temperatures that `auto` tries.
TEMPERATURE_STEP = 1.5

# Told losses of starts, as a share, with which chains begin where queries are asynchronous.
READY = 0.75

# What a move made before that is known by.
EARLY = -(2**40)

# A rise that is smaller than this beside the largest one counts as this.
SMALLEST_RISE = 1e-100


class AnnealingOptions(Options):
    """Hyperparameters of simulated annealing."""

    PRESETS: ClassVar[Presets] = {
        "paper": {
            "chains": 1,
            "moves": "attribute",
            "log_loss": False,
            "initial_acceptance": 0.98,
            "final_acceptance": 0.0005,
        }
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "Mind Mappings (ASPLOS 2021), Appendix A; defaults of simanneal",
    }

    chains: Count = 8
    """Chains in lockstep; the horizon is shared among them."""
    horizon: Annotated[Integer, Field(ge=2)] = 5000
    """True queries of one cooling, the tuning of its schedule included."""
    moves: Literal["domain", "attribute"] = "domain"
    """`domain` for the space's own moves, `attribute` to draw one attribute anew."""
    further_moves: ShareBelowOne = 0.7
    """Probability that another domain move follows in the same step, and another after that:
    exchanges need two that would not be accepted one by one."""
    log_loss: Flag = True
    """Anneal on the logarithm of the loss instead of the loss."""
    initial_acceptance: Positive = 0.15
    """Share of worsening moves accepted at the highest temperature."""
    final_acceptance: Positive = 0.01
    """The same at the lowest; as many moves improve as worsen in equilibrium, so this is `auto`'s
    share of improvements that counts as none."""
    tuning_share: PositiveShare = 0.05
    """Share of the horizon that may be spent on finding the temperatures."""
    temperatures: Temperatures | None = None
    """(highest, lowest) instead of finding them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.final_acceptance < self.initial_acceptance < 1:
            raise ValueError(
                "initial_acceptance: expected a share above final_acceptance "
                f"({self.final_acceptance:g}) and below 1, got {self.initial_acceptance:g}."
            )
        return self


class Annealing(Asynchronous):
    """Metropolis chains on log loss, cooled geometrically."""

    OPTIONS = AnnealingOptions
    options: AnnealingOptions
    TAKES_MIGRANTS = True
    STATE: ClassVar[tuple[str, ...]] = (
        "_queue",
        "_tuning_losses",
        "_codes",
        "_losses",
        "_steps",
        "_turn",
        "_rows",
        "_best_code",
        "_best_loss",
        "_hottest",
        "_coldest",
        "_taken",
        "_taken_losses",
    )
    STATE_OUT: ClassVar[tuple[str, ...]] = (
        "_handed",
        "_early_losses",
        "_met",
        "_met_losses",
        "_started",
    )

    def __init__(self, space: Space, options: AnnealingOptions, *, seed: int) -> None:
        """Prepares the chains; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        self._chains = min(options.chains, options.horizon)
        self._hottest, self._coldest = options.temperatures or (math.nan, math.nan)
        # Starts, and where the temperatures must be found a move of each, wait to be asked.
        tuned = options.temperatures is None
        samples = int(options.tuning_share * options.horizon) // 2 if tuned else 0
        starts = max(self._chains, samples)
        self._queue: Codes = space.sample(self.rng, starts, feasible=True)
        if tuned:
            self._queue = np.concatenate([self._queue, self._propose(self._queue)])
        self._tuning_losses: Losses = np.empty(0)
        self._codes: Codes = self._queue[: self._chains]
        self._losses: Losses = np.full(self._chains, np.inf)
        self._steps = np.zeros(self._chains, dtype=np.int64)
        self._turn = 0
        self._rows = np.empty(0, dtype=np.int64)
        self._best_code: Codes = self._queue[0]
        self._best_loss = math.inf
        # Mappings of others, before the chains begin.
        self._taken: Codes = self._queue[:0]
        self._taken_losses: Losses = np.empty(0)
        # Where queries are asynchronous: rows of the queue that were asked, their losses, nan
        # before they are told, what was met beside them, and whether the chains walk.
        self._handed = 0
        self._early_losses: Losses = np.full(len(self._queue), np.nan)
        self._met: Codes = self._queue[:0]
        self._met_losses: Losses = np.empty(0)
        self._started = False

    def _ask(self, n: int) -> Codes:
        told = len(self._tuning_losses)
        if told < len(self._queue):
            return self._queue[told : told + min(n, LARGEST_BATCH)]
        # Chains take turns, so that none starves where a host always asks for fewer.
        self._rows = (self._turn + np.arange(min(n, self._chains))) % self._chains
        self._turn = (self._turn + len(self._rows)) % self._chains
        return self._propose(self._codes[self._rows])

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._remember_best(codes, losses)
        if len(self._tuning_losses) < len(self._queue):
            self._tuning_losses = np.append(self._tuning_losses, losses)
            if len(self._tuning_losses) == len(self._queue):
                starts = np.concatenate([self._queue, self._taken])
                told = np.append(self._tuning_losses, self._taken_losses)
                self._start_chains(self._tuning_losses, starts, told)
            return
        energies = self._energy(losses)
        accepted = metropolis(
            self.rng, self._losses[self._rows], energies, self.temperature[self._rows]
        )
        moved = self._rows[accepted]
        self._codes[moved] = codes[accepted]
        self._losses[moved] = energies[accepted]
        self._steps[self._rows] += 1
        if self._steps.min() >= self._steps_per_cooling:
            self._reheat()

    def _take_in(self, codes: Codes, losses: Losses) -> None:
        """The chain that stands worst goes on from the best of them, where that is better.

        Before the chains begin they are starts like others.
        """
        self._remember_best(codes, losses)
        if len(self._tuning_losses) < len(self._queue) and not self._started:
            self._taken = np.concatenate([self._taken, codes])
            self._taken_losses = np.append(self._taken_losses, losses)
            return
        best, worst = int(losses.argmin()), int(self._losses.argmax())
        energy = self._energy(losses[[best]])[0]
        if energy < self._losses[worst]:
            self._codes[worst], self._losses[worst] = codes[best], energy

    def _ask_more(self, n: int) -> tuple[Codes, Notes]:
        """The queue first, moves from its best until the chains begin, then moves of chains."""
        rows = np.arange(self._handed, min(self._handed + n, len(self._queue)))
        if rows.size:
            self._handed += rows.size
            return self._queue[rows], -1 - rows
        if self._started:
            rows = self._least_busy(n)
            return self._propose(self._codes[rows]), rows
        codes, losses = self._told_early()
        best = np.argsort(losses, kind="stable")[: self._chains]
        best = best[np.isfinite(losses[best])]
        if not best.size:
            return self.space.sample(self.rng, n, feasible=True), np.full(n, EARLY)
        return self._propose(codes[self.rng.choice(best, n)]), np.full(n, EARLY)

    def _tell_more(self, codes: Codes, notes: Notes, losses: Losses) -> None:
        self._remember_best(codes, losses)
        for code, note, loss in zip(codes, notes.tolist(), losses, strict=True):
            if self._started:
                self._offer(code, note, loss)
                continue
            if note == EARLY:
                self._met = np.concatenate([self._met, code[None]])
                self._met_losses = np.append(self._met_losses, loss)
            else:
                self._early_losses[-1 - note] = loss
            if np.mean(~np.isnan(self._early_losses)) >= READY:
                self._start_chains(self._early_losses, *self._told_early())
                self._started = True

    def _told_early(self) -> tuple[Codes, Losses]:
        """What was told before the chains began, `[m, D]` and `[m]`."""
        told = ~np.isnan(self._early_losses)
        codes = np.concatenate([self._queue[told], self._met, self._taken])
        losses = (self._early_losses[told], self._met_losses, self._taken_losses)
        return codes, np.concatenate(losses)

    def _offer(self, code: Codes, note: int, loss: float) -> None:
        """A move comes back to its chain, which may have gone on; a late start to any chain."""
        row = np.array([abs(note) % self._chains])
        energy = self._energy(np.array([loss]))
        if metropolis(self.rng, self._losses[row], energy, self.temperature[row])[0]:
            self._codes[row], self._losses[row] = code, energy
        if note >= 0:
            self._steps[note] += 1
            if self._steps.sum() >= self._steps_per_cooling * self._chains:
                self._reheat()

    def _least_busy(self, n: int) -> Notes:
        """`[n]` the chains with the fewest moves out, in turn."""
        load = np.zeros(self._chains, np.int64)
        for _, note in self._out.values():
            if note >= 0:
                load[note] += 1
        rows = np.empty(n, np.int64)
        for index in range(n):
            turn = (np.arange(self._chains) - self._turn) % self._chains
            rows[index] = row = int(np.argmin(load * self._chains + turn))
            load[row] += 1
            self._turn = (row + 1) % self._chains
        return rows

    def _remember_best(self, codes: Codes, losses: Losses) -> None:
        if losses.min(initial=math.inf) < self._best_loss:
            best = int(losses.argmin())
            self._best_code, self._best_loss = codes[best].copy(), float(losses[best])

    def _propose(self, codes: Codes) -> Codes:
        """One feasible move per row; a row that finds none stays."""

        def redraw_one(rows: Codes) -> Codes:
            mask = np.zeros(rows.shape, dtype=bool)
            mask[np.arange(len(rows)), self.rng.integers(rows.shape[1], size=len(rows))] = True
            return self.space.resample(self.rng, rows, mask)

        def move(rows: Codes) -> Codes:
            moved = self.space.mutate(self.rng, rows)
            further = np.arange(len(rows))
            for _ in range(MOST_STEPS - 1):
                further = further[self.rng.random(len(further)) < self.options.further_moves]
                if not further.size:
                    break
                moved[further] = self.space.mutate(self.rng, moved[further])
            return moved

        propose = redraw_one if self.options.moves == "attribute" else move
        return feasible_moves(self.space, codes, propose)[0]

    def _energy(self, losses: Losses) -> Losses:
        """What is annealed: `[m]` the losses or their logarithms."""
        return log_losses(losses) if self.options.log_loss else losses

    @property
    def _steps_per_cooling(self) -> int:
        return max(1, (self.options.horizon - len(self._queue)) // self._chains)

    @property
    def temperature(self) -> Losses:
        """`[C]` of each chain, in units of what is annealed; nan while it is being found."""
        done = self._steps / max(1, self._steps_per_cooling - 1)
        fall: Losses = (self._coldest / self._hottest) ** np.minimum(done, 1.0)
        return self._hottest * fall

    def _start_chains(self, tuning: Losses, starts: Codes, told: Losses) -> None:
        """Finds the temperatures if they are not given, and puts the chains on the best starts.

        Args:
            tuning: `[Q]` losses of the queue; nan where they are not known.
            starts: `[m, D]` where chains may begin.
            told: `[m]` their losses.
        """
        energies = self._energy(tuning)
        if math.isnan(self._hottest):
            half = len(energies) // 2
            finite = np.isfinite(energies[:half]) & np.isfinite(energies[half:])
            changes = np.abs(energies[half:][finite] - energies[:half][finite])
            self._hottest, self._coldest = find_temperatures(
                changes, self.options.initial_acceptance, self.options.final_acceptance
            )
        energies = self._energy(told)
        # Fewer may be known than there are chains.
        best = np.resize(np.argsort(energies, kind="stable")[: self._chains], self._chains)
        self._codes = starts[best].copy()
        self._losses = energies[best]

    def _reheat(self) -> None:
        """Starts the next cooling: every chain from the best mapping found."""
        self._codes[:] = self._best_code
        self._losses[:] = self._energy(np.array([self._best_loss]))
        self._steps[:] = 0


def find_temperatures(
    changes: Losses, initial_acceptance: float, final_acceptance: float
) -> tuple[float, float]:
    """The highest and the lowest temperature for moves that change the energy by `changes`.

    As `simanneal.Annealer.auto`: raise the temperature by steps of 1.5 until the wanted share of
    worsening moves would be accepted, lower it until nearly none would be. A move and its
    reverse are equally likely, so the sizes of the changes stand for the worsenings.

    Args:
        changes: `[m]` absolute changes of energy; zeros say nothing and are left out.
        initial_acceptance: mean Metropolis acceptance at the highest temperature, at least.
        final_acceptance: the same at the lowest, at most.

    Returns:
        (highest, lowest); (1, 1) if nothing ever changes.
    """
    rises = changes[changes > 0]
    if not rises.size:
        return 1.0, 1.0
    # Scaled by a power of two, so that no step towards the lowest temperature rounds to nothing.
    _, exponent = np.frexp(rises.max())
    rises = np.ldexp(rises, -exponent)
    rises = np.maximum(rises, SMALLEST_RISE)

    def acceptance(temperature: float) -> float:
        return float(np.exp(-np.minimum(rises / temperature, 700.0)).mean())

    hottest = float(rises.mean())
    while acceptance(hottest) < initial_acceptance:
        hottest *= TEMPERATURE_STEP
    while acceptance(hottest / TEMPERATURE_STEP) >= initial_acceptance:
        hottest /= TEMPERATURE_STEP
    coldest = hottest
    while acceptance(coldest) > final_acceptance:
        coldest /= TEMPERATURE_STEP
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        scaled = np.clip(np.ldexp([hottest, coldest], exponent), limits.tiny, limits.max)
    return float(scaled[0]), float(scaled[1])
