"""Costs in the units that people read: mJ, ms, J s and W, from a model's picojoules and cycles.

The cost model knows picojoules and cycles. What that is in seconds depends on the accelerator's
clock, so that energy-delay products of two machines can only be compared in joule seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from costmodel.costs import UNITS, Objective

JOULES_PER_PJ = 1e-12
_PJ_PER_MJ = 1e9
# What an objective's unit is for people, a picojoule or 1 in it, and how many powers of seconds.
_DISPLAYED: Mapping[str, tuple[str, float, int]] = {
    "edp": ("J s", JOULES_PER_PJ, 1),
    "energy": ("mJ", 1 / _PJ_PER_MJ, 0),
    "latency": ("ms", 1e3, 1),
    "ed2p": ("J s^2", JOULES_PER_PJ, 2),
}


def seconds(cycles: float, clock_ghz: float) -> float:
    """How long cycles take at a clock in GHz, s."""
    return cycles / (clock_ghz * 1e9)


def physical(energy_pj: float, latency_cycles: float, clock_ghz: float) -> dict[str, float]:
    """What JSON has beside picojoules and cycles.

    Args:
        energy_pj: energy, pJ; nan where there is no mapping.
        latency_cycles: cycles; likewise.
        clock_ghz: the accelerator's clock, GHz.

    Returns:
        `latency_s`, `edp_js` (J s) and `power_w`, the mean power while it runs.
    """
    time, energy = seconds(latency_cycles, clock_ghz), energy_pj * JOULES_PER_PJ
    power = energy / time if time else math.nan
    return {"latency_s": time, "edp_js": energy * time, "power_w": power}


def millijoules(energy_pj: float) -> float:
    """Energy, mJ."""
    return energy_pj / _PJ_PER_MJ


def energy_text(energy_pj: float, digits: int = 6) -> str:
    """An energy for people."""
    return f"{millijoules(energy_pj):.{digits}g} mJ"


def latency_text(cycles: float, clock_ghz: float, digits: int = 6) -> str:
    """A latency for people: cycles, and what they take."""
    return f"{cycles:,.0f} cycles ({1e3 * seconds(cycles, clock_ghz):.{digits}g} ms)"


def value_text(objective: Objective, value: float, clock_ghz: float, digits: int = 6) -> str:
    """An objective's value for people.

    Args:
        objective: what the value is.
        value: in the cost model's unit, see `UNITS`.
        clock_ghz: the accelerator's clock, GHz.
        digits: significant ones.
    """
    if objective == "energy":
        return energy_text(value, digits)
    if objective == "latency":
        return latency_text(value, clock_ghz, digits)
    factor, unit = displayed(objective, clock_ghz)
    return f"{value * factor:.{digits}g} {unit}"


def displayed(objective: Objective, clock_ghz: float) -> tuple[float, str]:
    """What turns an objective's value from picojoules and cycles into people's unit, and that."""
    unit, factor, degree = _DISPLAYED[objective]
    return factor * seconds(1, clock_ghz) ** degree, unit


def displayed_of(objective: Objective, unit: str, clock_ghz: float | None) -> tuple[float, str]:
    """The same of any cost model: where its unit is its own, or no clock is known, it stays."""
    if clock_ghz is None or unit != UNITS[objective]:
        return 1.0, unit
    return displayed(objective, clock_ghz)


def percent(share: float, *, up: bool = False) -> str:
    """A share for people: 0.0123 is 1.23 %.

    Args:
        share: what rounding leaves of 0 is 0 on either side.
        up: whether it is a limit, which rounding must not lower.
    """
    value = 100 * share
    if abs(value) >= 1000:
        return f"{value:,.0f} %" if abs(value) < 1e9 else f"{value:.3g} %"
    # Less 1e-9: what rounding added to an exact figure is no hundredth.
    rounded = math.ceil(100 * value - 1e-9) / 100 if up else round(value, 2)
    return f"{rounded + 0.0:.2f} %"


def signed_percent(share: float) -> str:
    """A change for people: 0.0123 is +1.23 %; what rounding leaves of nothing is 0 %."""
    if abs(share) < 1e-11:
        return "0 %"
    if abs(share) < 5e-5:
        return f"{100 * share:+.2g} %"
    return f"+{percent(share)}" if share > 0 else percent(share)
