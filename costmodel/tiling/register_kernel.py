"""The innermost loops of a tiling as a compiler makes them: vectors, unrolled rows, registers.

A block of rows x vectors of results stays in registers while the innermost K loop adds to it. A
step of K takes a multiply-add per vector of results, a load per vector of B and one per row of A.
Results that do not stay are loaded and stored once per visit. Few results leave units idle, since
each waits for its own last multiply-add.

Source: Low, Igual, Smith and Quintana-Orti, "Analytical Modeling Is Enough for High-Performance
BLIS", ACM TOMS 43(2), 2016, section 4.1. That a compiler keeps the results of the loops of M and N
around the innermost K loop as well, if they fit into half of the registers, was seen with LLVM.

Letters: B tilings, L loops.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from costmodel.costs import FloatArray, IntArray
from costmodel.machines.accelerators import Accelerator
from costmodel.tiling.loop_nest import DIMENSIONS, loops
from costmodel.tiling.space import TilingSpace

WORDS = 16
"""Of a register."""
VECTORS = (64, 32, 16)
"""Words that a loop is vectorised by, the longest first: whole registers."""
UNROLLED_ROWS = 32
UNROLLED_WORDS = 512  # 32 registers of 16 words

LATENCY = 4
"""Cycles from a multiply-add to the next one of the same result: cores with AVX-512 since 2017."""


def lanes(columns: int) -> int:
    """Words of the vectors of an innermost loop of N; 1 leaves them to the compiler.

    LLVM takes a vector of up to one register of any length, and several registers at once where
    they are whole; of others (24 words, 48) it makes code that is ten times slower than its own.
    """
    for words in VECTORS:
        if columns % words == 0:
            return words
    return columns if columns <= WORDS else 1


def unrolls(rows: IntArray | int, columns: IntArray | int) -> npt.NDArray[np.bool_]:
    """Whether all rows of the innermost M loop stand in the code: their results fit registers."""
    rows, columns = np.asarray(rows), np.asarray(columns)
    found: npt.NDArray[np.bool_] = (rows <= UNROLLED_ROWS) & (rows * columns <= UNROLLED_WORDS)
    return found


def kernel_cycles(space: TilingSpace, factors: IntArray, core: Accelerator) -> FloatArray:
    """Cycles of the innermost loops with everything in the first cache.

    Args:
        space: of the tilings.
        factors: `[B, L]` trip counts m0 m1 .. k0 k1 .. n0 n1 ..
        core: its mesh is vector lanes x units; the level outside of the registers says by its
            bandwidths how many vectors are loaded and stored per cycle.

    Returns:
        `[B]`.
    """
    registers, cache = core.levels[-1], core.levels[-2]
    width, units = registers.mesh or (registers.fanout, 1)
    loads = (cache.read_bandwidth or math.inf) / width
    stores = (cache.write_bandwidth or math.inf) / width
    held = (registers.capacity_words or math.inf) / width
    by_name: dict[str, list[IntArray]] = {name: [] for name in DIMENSIONS}
    for loop in loops(space.splits):
        by_name[DIMENSIONS[loop.dimension]].append(factors[:, loop.column])
    m, k, n = (by_name[name] for name in "MKN")
    vectors = -(-n[-1] // width)
    unrolled = unrolls(m[-1], n[-1])
    rows = np.where(unrolled, m[-1], 1)
    block = rows * vectors
    # The loops of M and N between the two innermost ones of K.
    around = math.prod((*m[-2:-1], *n[-2:-1]), start=np.ones_like(block))
    outer_steps = math.prod(k[:-1], start=np.ones_like(block))
    # Two of the longest vectors stay a loop of their own, which leaves nothing in registers.
    fits = unrolled & (n[-1] < 2 * VECTORS[0]) & (block + vectors < held)
    stays = fits & ((around * block <= held / 2) | (outer_steps == 1))
    busy = np.maximum(block / units, (rows + vectors) / loads)
    step = np.hypot(busy, LATENCY) / block
    visits = np.where(stays, 0.0, np.where(fits, 1 / k[-1], 1.0)) * (1 / loads + 1 / stores)
    # Multiply-adds of whole vectors, the last of a row as long as the others.
    operations = space.workload.macs / n[-1] * vectors
    found: FloatArray = operations * (step + visits)
    return found
