"""What an evaluation returns: energy, latency and status per mapping, and detail on request.

Letters: B mappings, L memory levels (outermost first), T tensors (output last).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from mapspace.arguments import explained
from mapspace.errors import ConfigError, ContractError

Objective = Literal["edp", "energy", "latency", "ed2p"]
OBJECTIVES: tuple[Objective, ...] = ("edp", "energy", "latency", "ed2p")

# What decides between mappings of an equal objective, so that the best mapping for one cost is not
# wasteful in the other. The same rule in whole numbers is `costmodel.exact.objective.rank`.
TIE_BREAKERS: Mapping[Objective, Objective] = MappingProxyType(
    {"edp": "energy", "energy": "latency", "latency": "energy", "ed2p": "energy"}
)

# An objective as powers of energy and latency.
POWERS: Mapping[Objective, tuple[int, int]] = MappingProxyType(
    {"edp": (1, 1), "energy": (1, 0), "latency": (0, 1), "ed2p": (1, 2)}
)

STATUS_IDLE = -2
STATUS_OUTSIDE = -1
STATUS_OK = 0
STATUS_FANOUT = 1
STATUS_CAPACITY = 2  # + the level's index, outermost = 0; + L + it for a least utilisation

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Value = TypeVar("Value", float, FloatArray)


def objective_of(name: str, energy: Value, cycles: Value) -> Value:
    """An objective of energy in pJ and cycles, in the unit of `UNITS`."""
    if name in ("energy", "latency"):
        return energy if name == "energy" else cycles
    edp: Value = energy * cycles
    return edp if name == "edp" else edp * cycles


def times(value: float, other: float) -> float:
    """How many times one cost is another: once where both are nothing, inf times nothing itself."""
    if other == 0:
        return 1.0 if value == 0 else math.inf
    return value / other


@dataclass(frozen=True)
class Detail:
    """Counts and energies behind the costs; rows of infeasible mappings are zero.

    Attributes:
        tile: `[B, L, T]` words of the tile at one instance, 0 where the tensor bypasses the level.
        reads: `[B, L, T]` words read per instance; on average where elements are counted one by
            one, as are fills and updates.
        fills: `[B, L, T]` words written from the level above, per instance.
        updates: `[B, L, T]` words written from the level below, per instance.
        instances: `[B, L]` instances of the level in use.
        energy_pj: `[B, L, T]` energy of all instances, pJ.
        network_energy_pj: `[B, T]` energy of the hops between levels, pJ.
        mac_energy_pj: energy of the multiply-accumulates, pJ, the same for every mapping; the most
            of any where imperfect factors count some twice.
        utilisation: `[B]` MACs / (processing elements x cycles).
    """

    tile: IntArray
    reads: IntArray
    fills: IntArray
    updates: IntArray
    instances: IntArray
    energy_pj: FloatArray
    network_energy_pj: FloatArray
    mac_energy_pj: float
    utilisation: FloatArray


@explained
@dataclass(frozen=True)
class Costs:
    """Costs of B mappings: finite exactly where the status is OK.

    Attributes:
        energy_pj: `[B]` energy in pJ, inf where infeasible.
        latency_cycles: `[B]` cycles, inf where infeasible.
        status: `[B]` int32: 0 OK, 1 fan-out exceeded, 2 + l capacity of level l exceeded,
            2 + L + l least utilisation of level l missed, 2 + 2 L + t tensor t kept at no level,
            -1 a result for which Timeloop has no figures, -2 fewer processing elements work than
            constraints ask for.
        excess: `[B]` how far over: processing elements for a fan-out, words for a capacity (bits
            where tensors have them).
        detail: counts per level and tensor, when they were asked for.
    """

    energy_pj: FloatArray
    latency_cycles: FloatArray
    status: npt.NDArray[np.int32]
    excess: IntArray
    detail: Detail | None = None

    def __post_init__(self) -> None:
        shape = self.status.shape
        for name in ("energy_pj", "latency_cycles", "excess"):
            got = getattr(self, name).shape
            if got != shape:
                raise ContractError(f"Expected {name} of shape {shape} (as status), got {got}.")
        ok = self.status == STATUS_OK
        for name in ("energy_pj", "latency_cycles"):
            wrong = np.isfinite(getattr(self, name)) != ok
            if wrong.any():
                row = int(wrong.argmax())
                raise ContractError(
                    f"{name} must be finite exactly where status is OK; row {row} has "
                    f"{getattr(self, name)[row]} with status {self.status[row]}."
                )

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """`[B]` whether the mapping is feasible."""
        ok: npt.NDArray[np.bool_] = self.status == STATUS_OK
        return ok

    @property
    def edp(self) -> FloatArray:
        """`[B]` energy-delay product, pJ x cycles."""
        return self.energy_pj * self.latency_cycles

    def tie_breaker(self, name: str) -> FloatArray:
        """`[B]` what decides between equal values of an objective: less is better."""
        return self.objective(TIE_BREAKERS.get(name, name))  # type: ignore[call-overload]

    def objective(self, name: str) -> FloatArray:
        """The value to minimise.

        Args:
            name: `edp`, `energy`, `latency` or `ed2p` (energy x delay squared).

        Returns:
            `[B]` float64, inf where infeasible.

        Raises:
            ConfigError: the objective is unknown.
        """
        if name not in OBJECTIVES:
            raise ConfigError(f"Unknown objective {name!r}; known: {', '.join(OBJECTIVES)}.")
        return objective_of(name, self.energy_pj, self.latency_cycles)


def explain_status(
    status: int, excess: int, level_names: tuple[str, ...], unit: str = "words"
) -> str:
    """One line for a person about a mapping's status.

    Args:
        status: one entry of `Costs.status`.
        excess: the matching entry of `Costs.excess`.
        level_names: the accelerator's levels, outermost first.
        unit: of capacities: words, or bits where the workload's tensors have them.
    """
    if status == STATUS_OK:
        return "feasible"
    if status == STATUS_IDLE:
        return f"{excess} processing elements fewer at work than the constraints ask for"
    if status < 0:
        return f"outside what the model can score (status {status}), over by {excess}"
    levels = len(level_names)
    if status == STATUS_FANOUT:
        return f"fan-out exceeded by {excess} processing elements"
    place = status - STATUS_CAPACITY
    if place < levels:
        return f"capacity of {level_names[place]} exceeded by {excess} {unit}"
    if place < 2 * levels:
        name = level_names[place - levels]
        return f"least utilisation of {name} missed by {excess} {unit}"
    return f"tensor {place - 2 * levels} kept at no level"


# The cost model's own units, in which objectives are searched, proven and stored.
UNITS: Mapping[str, str] = {
    "edp": "pJ x cycles",
    "energy": "pJ",
    "latency": "cycles",
    "ed2p": "pJ x cycles^2",
}
