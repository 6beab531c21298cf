"""What one evaluation counts, in elements and cycles, and what it costs.

Letters: B mappings; the columns of `[B, 3]` are `TENSORS`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.maestro.mappings import IntArray

TENSORS = ("input", "weight", "output")
INPUT, WEIGHT, OUTPUT = range(3)
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Delays:
    """Cycles per step of the outermost level, as MAESTRO reports them.

    Attributes:
        compute_cycles: `[B]` of one step below the outermost level.
        egress_cycles: `[B]` to write one step's outputs back.
        ingress_cycles: `[B, 3]` to load one step's inputs and weights: least, most, mean (floor).
    """

    compute_cycles: IntArray
    egress_cycles: IntArray
    ingress_cycles: IntArray


@dataclass(frozen=True)
class Counts:
    """Accesses of a batch, all processing elements together.

    Attributes:
        runtime_cycles: `[B]` int64.
        macs: `[B]` multiply-accumulates.
        l2_write: `[B, 3]` elements written to the L2 buffer.
        l2_read: `[B, 3]` elements read from the L2 buffer.
        l1_write: `[B, 3]` elements written to the L1 buffers.
        l1_read: `[B, 3]` elements read from the L1 buffers.
        l2_required: `[B, 3]` elements the L2 buffer has to hold, double buffered.
        l1_required: `[B, 3]` elements one L1 buffer has to hold, double buffered.
        delays: per step, where every step of a class is alike (fidelity `maestro`).
    """

    runtime_cycles: IntArray
    macs: IntArray
    l2_write: IntArray
    l2_read: IntArray
    l1_write: IntArray
    l1_read: IntArray
    l2_required: IntArray
    l1_required: IntArray
    delays: Delays | None = None


@dataclass(frozen=True)
class Energies:
    """Energy of a batch by where it is spent, in units of one multiply-accumulate.

    Attributes:
        l2_write: `[B]`.
        l2_read: `[B]`.
        l1_write: `[B]`.
        l1_read: `[B]`.
        mac: `[B]`.
    """

    l2_write: FloatArray
    l2_read: FloatArray
    l1_write: FloatArray
    l1_read: FloatArray
    mac: FloatArray

    @property
    def total(self) -> FloatArray:
        """`[B]` the sum."""
        return self.l2_write + self.l2_read + self.l1_write + self.l1_read + self.mac


def energies(
    counts: Counts, *, mac_units: float, l1_access_units: float, l2_access_units: float
) -> Energies:
    """Accesses times their costs; the network is free."""
    return Energies(
        l2_write=_total(counts.l2_write) * l2_access_units,
        l2_read=_total(counts.l2_read) * l2_access_units,
        l1_write=_total(counts.l1_write) * l1_access_units,
        l1_read=_total(counts.l1_read) * l1_access_units,
        mac=counts.macs.astype(np.float64) * mac_units,
    )


def _total(accesses: IntArray) -> FloatArray:
    total: FloatArray = accesses.sum(axis=1).astype(np.float64)
    return total
