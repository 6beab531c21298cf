"""Holds a claimed optimum or bound against mappings that are counted one by one.

Where the space is small all mappings are, and then the claim is settled. Else only the claimed
mapping's own cost is: a sample of other mappings can refute a bound and never confirm it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from costmodel.costs import Objective
from costmodel.independent.counting import Cost, Counter, Orders, Tiling, tiling_of
from costmodel.independent.mappings import (
    Mappings,
    Shape,
    every_order,
    order_count,
    random_orders,
)
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.mapping import Mapping as Nest
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError

Rank = tuple[Fraction, ...]

# Mappings that are all counted; some twenty seconds.
MOST_ENUMERATED = 100_000
SAMPLED_TILINGS = 1_000
# Draws per tiling that is wanted: most draws fit no buffer.
MOST_DRAWS = 50
ORDERS_PER_TILING = 36
DESCENTS = 4
# Of processor time.
SAMPLE_SECONDS = 30.0


@dataclass(frozen=True)
class Claim:
    """What a certificate says, in nobody's units.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        keep: tensors kept by level, where the claim is about such mappings only.
        objective: what was minimised.
        mapping: the mapping.
        cost: what the mapping is said to cost.
        bound: no mapping's objective is said to be below that of this cost.
        ties: whether none of an equal objective is said to have less energy (of equal energy:
            fewer cycles).
        tolerance: how far figures may be apart, as a share, and count as equal: 0 where they are
            exact.
    """

    workload: Workload
    accelerator: Accelerator
    keep: Mapping[str, Sequence[str]] | None
    objective: Objective
    mapping: Nest
    cost: Cost
    bound: Cost
    ties: bool = False
    tolerance: Fraction = Fraction(0)


@dataclass(frozen=True)
class SecondLook:
    """What came of it.

    Attributes:
        holds: whether nothing that was looked at contradicts the claim.
        complete: whether every mapping was looked at, so that the claim is settled.
        mappings: how many mappings were counted.
        findings: one line per thing that was looked at.
        not_shown: what was not; None where nothing is left.
        seconds: how long it took.
        cut: whether the time ended before everything was looked at that would have been.
    """

    holds: bool
    complete: bool
    mappings: int
    findings: tuple[str, ...]
    not_shown: str | None
    seconds: float
    cut: bool = False


def objective_of(objective: Objective, cost: Cost) -> Fraction:
    """The value that is minimised, in pJ and cycles.

    Raises:
        ConfigError: another objective than those that are proven.
    """
    energy, cycles = cost
    values = {
        "edp": energy * cycles,
        "energy": energy,
        "latency": Fraction(cycles),
        "ed2p": energy * cycles * cycles,
    }
    if objective not in values:
        raise ConfigError(f"objective: expected one of {', '.join(values)}, got {objective!r}.")
    return values[objective]


def look_again(
    claim: Claim,
    *,
    most: int = MOST_ENUMERATED,
    tilings: int = SAMPLED_TILINGS,
    seed: int = 0,
    seconds: float | None = None,
) -> SecondLook:
    """Counts the claimed mapping, and others that the claim says are no better.

    Args:
        claim: what is claimed.
        most: a space of at most so many mappings is counted completely.
        tilings: how many tilings of a larger one are drawn.
        seed: decides which.
        seconds: the most that it may take; what is not looked at then is said.

    Raises:
        ConfigError: the mapping cannot be read.
    """
    started = time.perf_counter()
    look = _Look(claim, math.inf if seconds is None else started + seconds)
    tiling = look.claimed()
    small = look.feasible_tilings(most)
    left = "independently, that none of the other mappings is below the bound: "
    if small is not None:
        look.count_all(small)
    if look.cut:
        left += "the time ended before all were counted"
    elif small is None:
        look.sample(random.Random(seed), tiling, tilings)
        left += (
            f"there are more than the {most:,} that are counted completely, so this rests on the "
            "prover"
        )
    complete = small is not None and not look.cut
    return SecondLook(
        look.holds,
        complete,
        look.counted,
        tuple(look.findings),
        None if complete else left,
        time.perf_counter() - started,
        look.cut,
    )


@dataclass
class _Look:
    claim: Claim
    ends: float
    """By the performance counter."""
    cut: bool = False
    """Whether the time ended while there was something left to do."""
    holds: bool = True
    counted: int = 0
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counter = Counter(self.claim.workload, self.claim.accelerator)
        self.space = Mappings(self.claim.workload, self.claim.accelerator, self.claim.keep)
        self.bound = self.rank(self.claim.bound)
        self.least: tuple[Rank, Cost] | None = None
        machine = self.claim.accelerator
        self.last = machine.link_transfers and machine.levels[-1].fanout > 1

    def over(self) -> bool:
        """Whether the time is; asked by what would go on."""
        self.cut |= time.perf_counter() >= self.ends
        return self.cut

    def rank(self, cost: Cost) -> Rank:
        """What is compared: the objective, and where ties are claimed what decides those."""
        energy, cycles = cost
        tie = Fraction(cycles) if self.claim.objective == "energy" else energy
        value = objective_of(self.claim.objective, cost)
        return (value, tie) if self.claim.ties else (value,)

    def check(self, ok: bool, claim: str, otherwise: str) -> None:
        self.holds &= ok
        self.findings.append(claim if ok else f"WRONG: {otherwise}")

    def claimed(self) -> Tiling:
        """Counts the claimed mapping."""
        claim = self.claim
        workload = claim.workload
        tiling, orders = tiling_of(claim.mapping, workload)
        factors = zip(workload.dimensions.items(), self.space.shape_of(tiling), strict=True)
        for (name, size), row in factors:
            product = 1
            for factor in row:
                product *= factor
            if product != size:
                raise ConfigError(f"mapping: the factors of {name} multiply to {product}.")
        problem = self.counter.why_not(tiling, [level.banks for level in claim.mapping.levels])
        if problem is not None:
            self.check(False, "", f"independent: the mapping is infeasible: {problem}")
            return tiling
        found = self.counter.cost(tiling, orders, {})
        apart = abs(found[0] - claim.cost[0])
        self.check(
            apart <= claim.tolerance * claim.cost[0] and found[1] == claim.cost[1],
            "independent: counted without the cost model's code, the mapping takes the same "
            f"{float(found[0]):.9g} pJ and {found[1]:,} cycles",
            f"independent: the mapping takes {float(found[0]):.17g} pJ and {found[1]:,} cycles, "
            f"not {float(claim.cost[0]):.17g} pJ and {claim.cost[1]:,} cycles",
        )
        return tiling

    def feasible_tilings(self, most: int) -> list[Tiling] | None:
        """All feasible tilings; None if they have more mappings than so many."""
        if self.space.shape_count() > most:
            return None
        found, mappings, seen = [], 0, 0
        for shape in self.space.shapes():
            for tiling in self.space.tilings(shape):
                seen += 1
                if self.counter.why_not(tiling) is None:
                    found.append(tiling)
                    mappings += order_count(tiling, last=self.last)
                if mappings > most or seen > 4 * most or self.over():
                    return None
        return found

    def count_all(self, tilings: Iterable[Tiling]) -> None:
        """Counts every mapping of the tilings, and holds the claim against the least."""
        for tiling in tilings:
            self.count(tiling, every_order(tiling, last=self.last))
        below = self._below()
        self.check(
            below is None,
            f"independent: {self.counted:,} mappings were counted one by one, none is below the "
            "bound"
            if self.cut
            else f"independent: all {self.counted:,} mappings were counted one by one, none is "
            "below the bound: settled without the prover",
            f"independent: among {'the first' if self.cut else 'all'} {self.counted:,} mappings "
            f"there is one of {below}",
        )

    def count(self, tiling: Tiling, orders: Iterable[Orders]) -> Rank | None:
        """The least objective of a feasible tiling under some orders."""
        known: dict[object, int] = {}
        least = None
        for each in orders:
            if self.over():
                break
            cost = self.counter.cost(tiling, each, known)
            value = self.rank(cost)
            self.counted += 1
            if least is None or value < least:
                least = value
            if self.least is None or value < self.least[0]:
                self.least = value, cost
        return least

    def _below(self) -> str | None:
        if self.least is None or not self._is_below(self.least[0]):
            return None
        energy, cycles = self.least[1]
        return f"{float(energy):.9g} pJ and {cycles:,} cycles, below the bound"

    def _is_below(self, rank: Rank) -> bool:
        """Whether a mapping is below the bound, by more than the tolerance."""
        low, high = 1 - self.claim.tolerance, 1 + self.claim.tolerance
        for its, bound in zip(rank, self.bound, strict=True):
            if its < bound * low:
                return True
            if its > bound * high:
                return False
        return False

    def sample(self, rng: random.Random, claimed: Tiling, wanted: int) -> None:
        """Counts some mappings that the proof cut away."""
        deadline = time.process_time() + SAMPLE_SECONDS
        tilings: list[tuple[Rank, Tiling]] = []
        for _ in range(MOST_DRAWS * wanted):
            if len(tilings) == wanted or time.process_time() >= deadline or self.over():
                break
            tiling = self.space.random_tiling(rng, self.space.random_shape(rng))
            value = self._best_of(rng, tiling)
            if value is not None:
                tilings.append((value, tiling))
        drawn = len(tilings)
        tilings.sort(key=lambda entry: entry[0])
        steps = 0
        for start in [claimed, *(tiling for _, tiling in tilings[:DESCENTS])]:
            steps += self._descend(rng, start, deadline)
        below = self._below()
        self.check(
            below is None,
            f"independent: {self.counted:,} mappings were counted one by one (of {drawn:,} tilings "
            f"at random, and of the neighbours on {steps:,} steps downhill from the mapping and "
            "from the best of those): none is below the bound",
            f"independent: there is a mapping of {below}",
        )

    def _best_of(self, rng: random.Random, tiling: Tiling) -> Rank | None:
        """The least objective of a tiling, over all its orders where they are few."""
        if self.counter.why_not(tiling) is not None:
            return None
        if order_count(tiling, last=self.last) <= ORDERS_PER_TILING:
            return self.count(tiling, every_order(tiling, last=self.last))
        drawn = (random_orders(tiling, rng, last=self.last) for _ in range(ORDERS_PER_TILING))
        return self.count(tiling, drawn)

    def _descend(self, rng: random.Random, start: Tiling, deadline: float) -> int:
        """Goes to the best neighbour while that is better; how many steps."""
        here, value = start, self._best_of(rng, start)
        steps = 0
        while value is not None:
            steps += 1
            best = None
            for tiling in self._around(rng, here):
                if time.process_time() >= deadline or self.over():
                    return steps
                found = self._best_of(rng, tiling)
                if found is not None and found < value:
                    value, best = found, tiling
            if best is None:
                return steps
            here = best
        return steps

    def _around(self, rng: random.Random, tiling: Tiling) -> Iterator[Tiling]:
        shape: Shape = self.space.shape_of(tiling)
        for other in self.space.neighbours(shape):
            drawn = self.space.random_tiling(rng, other)
            yield replace(drawn, keep=tiling.keep)
        # Other tensors kept, one at a time.
        for level, choices in enumerate(self.space.keep_choices()):
            for kept in choices:
                keep = (*tiling.keep[:level], kept, *tiling.keep[level + 1 :])
                if len(kept ^ tiling.keep[level]) == 1 and self.space.keeps_all(keep):
                    yield replace(tiling, keep=keep)
