"""Tilings of a matrix product as TVM schedules, for processors and for NVIDIA GPUs.

Needs the extra `tvm`; nothing but `costmodel.tiling.build_and_time` and the peer imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm.s_tir
from tvm import te

from costmodel.tiling.loop_nest import DIMENSIONS, SPLITS, loops, nest
from costmodel.tiling.register_kernel import UNROLLED_WORDS, lanes, unrolls

MAX_THREADS = 1024
"""Per block, on every GPU since 2010."""


def product(m: int, k: int, n: int) -> Any:
    """A function `main(A, B, C)` with C `[m, n]` = A `[m, k]` B `[k, n]`, float32, unscheduled."""
    a = te.placeholder((m, k), "float32", name="A")
    b = te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def schedule(factors: Sequence[int], splits: tuple[int, int, int], target: str) -> Any:
    """The scheduled module of one tiling.

    Args:
        factors: trip counts m0 m1 .. k0 k1 .. n0 n1 ..
        splits: nested loops of M, K and N.
        target: `llvm` or `cuda`; `cuda` needs splits 4, 2, 4.

    Returns:
        A `tvm.ir.IRModule`.

    Raises:
        ValueError: no GPU could run it.
    """
    found, block, by_name = _split(factors, splits)
    if target == "cuda":
        _bind(found, block, by_name, _by_dimension(factors, splits))
    else:
        _order(found, block, by_name, splits, _by_dimension(factors, splits))
    return found.mod


def _by_dimension(
    factors: Sequence[int], splits: tuple[int, int, int]
) -> dict[str, tuple[int, ...]]:
    trips: dict[str, tuple[int, ...]] = dict.fromkeys(DIMENSIONS, ())
    for loop in loops(splits):
        trips[DIMENSIONS[loop.dimension]] += (int(factors[loop.column]),)
    return trips


def _split(factors: Sequence[int], splits: tuple[int, int, int]) -> tuple[Any, Any, dict[str, Any]]:
    """A schedule whose loops are split but not ordered, its block, and its loops by name."""
    trips = _by_dimension(factors, splits)
    m, k, n = (math.prod(trips[name]) for name in DIMENSIONS)
    found = tvm.s_tir.Schedule(product(m, k, n))
    block = found.get_sblock("C")
    whole = dict(zip("MNK", found.get_loops(block), strict=True))
    by_name: dict[str, Any] = {}
    for name, counts in trips.items():
        parts = found.split(whole[name], factors=list(counts))
        by_name |= {f"{name.lower()}{depth}": part for depth, part in enumerate(parts)}
    return found, block, by_name


def _order(
    found: Any,
    block: Any,
    by_name: dict[str, Any],
    splits: tuple[int, int, int],
    trips: dict[str, tuple[int, ...]],
) -> None:
    """The loop nest for a processor: innermost N in vectors, results in registers.

    The innermost M loop is unrolled where its vectors fit into registers, so that LLVM keeps them
    there while the innermost K loop runs. Results are set to zero before the outermost K loop, not
    by a test in the innermost one: that halved the time of the fastest tilings.
    """
    found.reorder(*[by_name[loop.name] for loop in nest(splits)])
    rows, columns = trips["M"][-1], trips["N"][-1]
    words, vector = lanes(columns), by_name[f"n{splits[2] - 1}"]
    if 1 < words < columns:
        _, vector = found.split(vector, factors=[columns // words, words])
    if words > 1:
        found.vectorize(vector)
    if rows > 1 and unrolls(rows, columns):
        found.unroll(by_name[f"m{splits[0] - 1}"])
    found.decompose_reduction(block, by_name["k0"])


def _bind(
    found: Any, block: Any, by_name: dict[str, Any], trips: dict[str, tuple[int, ...]]
) -> None:
    """The paper's tiling for a GPU: m0 n0 blocks, m1 n1 virtual threads, m2 n2 threads, m3 n3 each.

    K is split in two: tiles of A and B of k1 columns and rows go through shared memory, loaded by
    all threads of a block; a thread keeps its results in registers.
    """
    if tuple(len(trips[name]) for name in DIMENSIONS) != SPLITS:
        raise ValueError(f"A GPU needs splits {SPLITS}.")
    rows, columns = trips["M"][2], trips["N"][2]
    if rows * columns > MAX_THREADS:
        raise ValueError(f"{rows} x {columns} threads per block; a GPU runs {MAX_THREADS}.")
    order = ("m0", "n0", "m1", "n1", "m2", "n2", "k0", "k1", "m3", "n3")
    found.reorder(*[by_name[name] for name in order])
    results = found.cache_write(block, 0, "local")
    for name, thread in (
        ("m0", "blockIdx.y"),
        ("n0", "blockIdx.x"),
        ("m1", "vthread.y"),
        ("n1", "vthread.x"),
        ("m2", "threadIdx.y"),
        ("n2", "threadIdx.x"),
    ):
        found.bind(by_name[name], thread)
    found.reverse_compute_at(results, by_name["n2"])
    for operand in (0, 1):
        tile = found.cache_read(block, operand, "shared")
        found.compute_at(tile, by_name["k0"], preserve_unit_loops=True)
        words = found.fuse(*found.get_loops(tile)[-2:])
        _, y, x = found.split(words, factors=[None, rows, columns])
        found.bind(y, "threadIdx.y")
        found.bind(x, "threadIdx.x")
    if trips["M"][3] * trips["N"][3] <= UNROLLED_WORDS:
        found.unroll(by_name["m3"])
        found.unroll(by_name["n3"])
    found.decompose_reduction(block, by_name["k0"])
