"""What a design minimises: an objective, or the energy and the time at a rate of exchange.

At a rate of `w` watts a second is worth `w` joules, and the least energy + `w` x time of a network
is the sum of its layers' least. What has the least of it, of all machines that are no larger and of
all mappings, is on the front of energy, delay and area; such points are found at several rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from costmodel.costs import FloatArray, Objective
from costmodel.machines.accelerators import Accelerator
from mapspace.errors import ConfigError
from orchestrator.design.config import Design
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Proof

T = TypeVar("T", float, FloatArray)

# Sums and roots of floating-point numbers are off by less than this share.
ROUNDING = 1e-12
# Rates are multiples of it, pJ per cycle, so that no proof rounds them.
RATE_STEP = Fraction(1, 1024)
# Of the base machine's power with everything at work, where a design names no rates.
RATES = (0.25, 1.0, 4.0)


@dataclass(frozen=True)
class Aim:
    """What is least: of a layer's mapping, and summed up, of a machine.

    Attributes:
        objective: which; `energy` where there is a rate.
        rate: what a nanosecond is worth, pJ (so many milliwatts), beside the energy; 0: nothing.
    """

    objective: Objective
    rate: Fraction = Fraction(0)

    @property
    def power(self) -> int:
        """The power of cycles in it."""
        return {"energy": 0, "latency": 1, "edp": 1, "ed2p": 2}[self.objective]

    def weight(self, clock_ghz: float) -> Fraction | None:
        """The rate in pJ per cycle; None: there is none."""
        return self.rate / Fraction(str(clock_ghz)) if self.rate else None

    def value(self, energy_pj: T, cycles: T, clock_ghz: float) -> T:
        """Of energies and cycles: pJ and ns."""
        time = cycles / clock_ghz
        if self.objective == "latency":
            return time
        if self.rate:
            return energy_pj + float(self.rate) * time
        return energy_pj * time**self.power if self.power else energy_pj

    def bounds(self, proof: Proof, clock_ghz: float) -> tuple[float, float]:
        """What a proof of this aim says: no mapping has less than the first, one has the second."""
        if proof.status == "infeasible":
            return math.inf, math.inf
        value = math.inf
        if proof.energy_pj is not None and proof.latency_cycles is not None:
            value = self.value(proof.energy_pj, float(proof.latency_cycles), clock_ghz)
        if proof.status == "proven":
            return value, value
        return (proof.lower_bound or 0.0) / clock_ghz**self.power, value

    def least_total(self, bounds: Sequence[float], counts: Sequence[int]) -> float:
        """What it is of all layers together at least, whatever mapping each of them gets.

        Energies and times add up, each layer as often as it occurs. For their products it is
        Hoelder's inequality: `sum(E) * sum(D) >= sum(sqrt(E * D))**2`, and with the square of the
        time the same with third roots.

        Args:
            bounds: of each layer.
            counts: how often each occurs.
        """
        if math.inf in bounds:
            return math.inf
        power = {"edp": 2, "ed2p": 3}.get(self.objective, 1)
        pairs = zip(bounds, counts, strict=True)
        total = sum(count * bound ** (1 / power) for bound, count in pairs)
        return float(total**power) * (1 - ROUNDING)

    def longest(self, value: float, energy_pj: float) -> float:
        """How long a mapping of at most this value and at least this energy takes at most, ns."""
        if self.objective == "latency":
            return value
        return float((value / energy_pj) ** (1 / self.power)) * (1 + ROUNDING)

    def __str__(self) -> str:
        if self.rate:
            return f"{float(self.rate) / 1e3:.4g} W"
        return {"latency": "time"}.get(self.objective, self.objective)


def aims_of(design: Design) -> tuple[Aim, ...]:
    """What a design looks for: its objective, or energy, time and what is between them."""
    if design.find != "energy-delay-area":
        return (Aim(design.objective),)
    # As many digits as a float has may not tell a rate exactly.
    rates = [round(Fraction(str(w)) * 1000 / RATE_STEP) * RATE_STEP for w in design.rates_w or ()]
    return (Aim("energy"), Aim("latency"), *(Aim("energy", rate) for rate in rates))


def proof_aims(design: Design) -> tuple[Aim, ...]:
    """All that a design proves: its aims, and the least energies and times that limits ask for."""
    aims, limits = aims_of(design), design.limits
    if len(aims) > 1:
        return aims
    energy = (limits.power_w, limits.chip_power_w, limits.energy_mj) != (None, None, None)
    others = [Aim("energy")] if energy else []
    others += [Aim("latency")] if limits.latency_ms is not None else []
    return (*aims, *(one for one in others if one != aims[0]))


def with_rates(design: Design, base: Accelerator, layers: Sequence[Layer], where: str) -> Design:
    """A design with its rates named: those of its file, or by the base machine's power.

    That is what any mapping needs of energy on it, by what it needs of time.

    Raises:
        ConfigError: a rate is so low that it rounds to nothing, or two round to the same.
    """
    from costmodel.machines.bounds import algorithmic_minimum, floor

    if design.find != "energy-delay-area":
        return design
    wanted = design.rates_w
    if wanted is None:
        energy = cycles = 0.0
        for work, count in ((layer.workload, layer.count) for layer in layers):
            least = floor(work, base)
            # A floor knows little of levels whose accesses are blocks.
            energy += count * max(least.energy_pj, algorithmic_minimum(work, base).energy_pj)
            cycles += count * least.latency_cycles
        power = energy / cycles * base.clock_ghz / 1e3
        wanted = tuple(float(f"{power * share:.2g}") for share in RATES)
    clocks = (design.grid or {}).get("clock_ghz", (base.clock_ghz,))
    step = _step(clocks)
    rates = sorted(round(Fraction(str(watts)) * 1000 / step) * step for watts in wanted)
    if rates[0] <= 0 or len(set(rates)) < len(rates):
        raise ConfigError(
            f"{where}: rates_w: expected rates that are {float(step) / 1e3:g} W apart at "
            f"least, got {', '.join(f'{watts:g}' for watts in wanted)}."
        )
    return design.model_copy(update={"rates_w": tuple(float(rate / 1000) for rate in rates)})


def _step(clocks: Iterable[float]) -> Fraction:
    """Rates that are whole multiples of it, mW, no proof rounds at any of these clocks."""
    told = [Fraction(str(clock)) for clock in clocks]
    return RATE_STEP * math.lcm(*(clock.numerator for clock in told))
