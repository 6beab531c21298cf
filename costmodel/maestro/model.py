"""MAESTRO as a cost model: batches of cluster mappings in, counts, energy and cycles out.

Source: "Understanding Reuse, Performance, and Hardware Cost of DNN Dataflows: A Data-Centric
Approach", Kwon et al., MICRO 2019. The unit of energy is one multiply-accumulate.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK, Costs, explain_status
from costmodel.maestro.closed_form import count_as_maestro
from costmodel.maestro.corrected import count_corrected
from costmodel.maestro.counts import Counts, Delays, Energies, FloatArray, energies
from costmodel.maestro.mappings import ClusterMappings, IntArray
from costmodel.maestro.on_chip import OnChipSpace
from costmodel.space import Codes
from mapspace.arguments import checked, explained
from mapspace.errors import ConfigError, ContractError

Fidelity = Literal["maestro", "corrected"]
FIDELITIES: tuple[Fidelity, ...] = ("maestro", "corrected")

STATUS_REMAINDER = -1  # fidelity maestro: a tile does not divide its bound
LEVELS = ("L2", "L1")  # STATUS_CAPACITY + the place here


@dataclass(frozen=True)
class MaestroCosts:
    """Result of a batch of B cluster mappings.

    Attributes:
        counts: accesses and cycles; zero where the status is a remainder. Where a capacity is
            exceeded, what they would be with room enough.
        energies: by where they are spent, in units of one multiply-accumulate.
        status: `[B]` int32: 0 OK, -1 a tile does not divide, 1 too few processing elements,
            2 the L2 buffer is too small, 3 an L1 buffer is too small.
        excess: `[B]` how far over: processing elements, or elements of the buffer.
        pj_per_unit: picojoules of one multiply-accumulate.
    """

    counts: Counts
    energies: Energies
    status: npt.NDArray[np.int32]
    excess: IntArray
    pj_per_unit: float

    @property
    def throughput(self) -> FloatArray:
        """`[B]` multiply-accumulates per cycle; 0 where the status is a remainder."""
        return self.counts.macs / np.maximum(self.counts.runtime_cycles, 1)

    def to_costs(self) -> Costs:
        """Energy in pJ and latency in cycles, inf where the status is not OK."""
        ok = self.status == STATUS_OK
        return Costs(
            energy_pj=np.where(ok, self.energies.total * self.pj_per_unit, np.inf),
            latency_cycles=np.where(ok, self.counts.runtime_cycles, np.inf),
            status=self.status,
            excess=self.excess,
        )


@explained
class MaestroModel:
    """Energy and cycles of cluster mappings by MAESTRO's counting, in closed form.

    Fidelity `maestro` equals MAESTRO (commit 4eb08d1) number for number where tiles divide and
    MAESTRO itself counts the right work; it knows no capacities and refuses tiles that do not
    divide (status -1). Fidelity `corrected` counts what `costmodel.maestro.corrected` states,
    remainders included, and enforces processing elements, L2 and L1.

    Args:
        fidelity: `maestro` or `corrected`.
        mac_units: energy of a multiply-accumulate.
        l1_access_units: energy of reading or writing an element of L1, in the same unit.
        l2_access_units: energy of reading or writing an element of L2, likewise.
        pj_per_unit: picojoules of one unit.

    Attributes:
        name: `maestro` or `maestro-corrected`, by the fidelity.
        version: changes whenever a figure could change.

    Raises:
        ConfigError: an unknown fidelity, or an energy that is negative or not finite.
    """

    version = "2"

    @checked
    def __init__(
        self,
        *,
        fidelity: Fidelity = "maestro",
        mac_units: float = 1.0,
        l1_access_units: float = 1.68,
        l2_access_units: float = 18.61,
        pj_per_unit: float = 1.0,
    ) -> None:
        if fidelity not in FIDELITIES:
            raise ConfigError(f"Unknown fidelity {fidelity!r}; known: {', '.join(FIDELITIES)}.")
        self.name = "maestro" if fidelity == "maestro" else "maestro-corrected"
        self.fidelity = fidelity
        self.mac_units = mac_units
        self.l1_access_units = l1_access_units
        self.l2_access_units = l2_access_units
        self.pj_per_unit = pj_per_unit
        for name in ("mac_units", "l1_access_units", "l2_access_units", "pj_per_unit"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"Expected {name} finite and at least 0, got {value!r}.")

    def cost(self, mappings: ClusterMappings) -> MaestroCosts:
        """Costs of a batch of mappings.

        Args:
            mappings: B mappings.

        Raises:
            ContractError: something else was given.
        """
        if not isinstance(mappings, ClusterMappings):
            raise ContractError(
                f"MaestroModel needs ClusterMappings, got {type(mappings).__name__}."
            )
        status = np.zeros(len(mappings), np.int32)
        excess = np.zeros(len(mappings), np.int64)
        if self.fidelity == "corrected":
            counts = count_corrected(mappings)
            _check_capacities(mappings, counts, status, excess)
        elif mappings.strict or (whole := mappings.divides).all():
            counts = count_as_maestro(mappings)
        else:
            status[~whole] = STATUS_REMAINDER
            counts = _scattered(count_as_maestro(mappings.rows(whole)), whole)
        spent = energies(
            counts,
            mac_units=self.mac_units,
            l1_access_units=self.l1_access_units,
            l2_access_units=self.l2_access_units,
        )
        return MaestroCosts(counts, spent, status, excess, self.pj_per_unit)

    def evaluate(self, space: Any, codes: Codes, *, detail: bool = False) -> Costs:
        """Costs of codes of an on-chip space, so that searchers can run on it.

        Args:
            space: an `OnChipSpace`.
            codes: `[B, D]`.
            detail: changes nothing. `Detail` counts whole words per instance of a level; this model
                counts all L1 buffers together and an element sent to many of them once, so that
                there is no count of one buffer. `cost(space.mappings(codes))` has its counts.

        Returns:
            Energy in pJ and cycles, inf where the space calls a mapping infeasible (status -2, 1
            or 3) or this model does.

        Raises:
            ContractError: another kind of space, or no codes of it.
        """
        if not isinstance(space, OnChipSpace):
            raise ContractError(f"MaestroModel needs an OnChipSpace, got {type(space).__name__}.")
        status, excess = space.status(codes)
        ok = status == STATUS_OK
        energy_pj, latency_cycles = np.full(len(ok), np.inf), np.full(len(ok), np.inf)
        if ok.any():
            costs = self.cost(space.mappings(codes[ok])).to_costs()
            energy_pj[ok], latency_cycles[ok] = costs.energy_pj, costs.latency_cycles
            status[ok], excess[ok] = costs.status, costs.excess
        return Costs(energy_pj, latency_cycles, status, excess)


def corrected_model() -> MaestroModel:
    """Cluster mappings by true counts: every fetch, remainders, strides, enforced capacities."""
    return MaestroModel(fidelity="corrected")


def explain(mappings: ClusterMappings, costs: MaestroCosts, row: int) -> str:
    """One line for a person about a mapping's status."""
    status = int(costs.status[row])
    if status == STATUS_REMAINDER:
        return mappings.remainder(row)
    return explain_status(status, int(costs.excess[row]), LEVELS)


def _check_capacities(
    mappings: ClusterMappings, counts: Counts, status: npt.NDArray[np.int32], excess: IntArray
) -> None:
    """Writes the first limit exceeded: processing elements, then L2, then L1."""
    needs = (
        (STATUS_FANOUT, mappings.elements, mappings.processing_elements),
        (STATUS_CAPACITY, counts.l2_required.sum(axis=1), mappings.l2_capacity),
        (STATUS_CAPACITY + 1, counts.l1_required.sum(axis=1), mappings.l1_capacity),
    )
    for code, needed, available in needs:
        over = (needed > available) & (status == STATUS_OK)
        status[over] = code
        excess[over] = (needed - available)[over]


def _scattered(counts: Counts, whole: npt.NDArray[np.bool_]) -> Counts:
    """Counts of the rows that divide, among zeros for the others."""

    def spread(array: IntArray) -> IntArray:
        result = np.zeros((len(whole), *array.shape[1:]), np.int64)
        result[whole] = array
        return result

    arrays = {
        field.name: spread(getattr(counts, field.name))
        for field in dataclasses.fields(counts)
        if field.name != "delays"
    }
    delays = counts.delays
    if delays is not None:
        delays = Delays(
            **{
                field.name: spread(getattr(delays, field.name))
                for field in dataclasses.fields(delays)
            }
        )
    return Counts(**arrays, delays=delays)
