"""Cascades of small random operators."""

from __future__ import annotations

import numpy as np

from costmodel import workload
from costmodel.cascades.cascade import Cascade
from costmodel.problems.affine import Workload


def convolution(rng: np.random.Generator, place: int, channels: int, rows: int) -> Workload:
    """A convolution of some rows of so many channels, perhaps of each by itself."""
    taps, step = int(rng.integers(1, 4)), int(rng.choice([1, 1, 1, 2]))
    name = {"name": f"c{place}"}
    own = (rows - 1 + step) // step if taps > 1 else -(-rows // step)
    sizes = {"G": channels, "P": own, "R": taps}
    window = f"{step}*P + R"
    if rng.random() < 0.5:
        tensors = {"W": ["G", "R"], "I": ["G", window], "O": ["G", "P"]}
        return workload({**name, "dimensions": sizes, "tensors": tensors, "output": "O",
                         "roles": {"W": "weight"}})  # fmt: skip
    sizes = {"K": int(rng.integers(1, 5)), "C": channels, "P": own, "R": taps}
    tensors = {"W": ["K", "C", "R"], "I": ["C", window], "O": ["K", "P"]}
    return workload({**name, "dimensions": sizes, "tensors": tensors, "output": "O",
                     "roles": {"W": "weight"}})  # fmt: skip


def batched(name: str, sizes: dict[str, int]) -> Workload:
    """A product of matrices per head."""
    tensors = {"A": ["H", "M", "K"], "B": ["H", "K", "N"], "Z": ["H", "M", "N"]}
    said = {"name": name, "dimensions": sizes, "tensors": tensors, "output": "Z"}
    return workload({**said, "roles": {"B": "weight"}})


def product(rng: np.random.Generator, place: int, heads: int, m: int, k: int) -> Workload:
    """A product of matrices per head."""
    sizes = {"H": heads, "M": m, "N": int(rng.integers(1, 5)), "K": k}
    return batched(f"p{place}", sizes)


def cascade_of(rng: np.random.Generator, most: int = 5) -> Cascade:
    """Two to so many operators in a row, of products or of convolutions."""
    count, found = int(rng.integers(2, most + 1)), list[Workload]()
    images = rng.random() < 0.6
    heads, width = (int(rng.choice([1, 2, 3, 4])) for _ in range(2))
    rows = int(rng.choice([1, 3, 4, 6, 8]))
    for place in range(count):
        if images:
            work = convolution(rng, place, width, rows)
            width, rows = (work.dimensions.get("K") or width), work.dimensions["P"]
        else:
            work = product(rng, place, min(heads, 2), rows, width)
            width = work.dimensions["N"]
        found.append(work)
    may = [None, "activation", None if images else "softmax"]
    between = [rng.choice(may) for _ in found[1:]]
    return Cascade.of(*found, between=between, counted=bool(rng.random() < 0.5))


def attention_of(rng: np.random.Generator) -> Cascade:
    """Queries, scores, context and projection of some heads, perhaps sharing keys; or a part."""
    heads, shared, depth = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    tokens, keys, width = (int(rng.choice([1, 2, 3, 4])) for _ in range(3))
    columns, rows = heads * shared * depth, shared * tokens
    several = [
        workload({"name": "query", "gemm": {"M": tokens, "N": columns, "K": width}}),
        batched("scores", {"H": heads, "M": rows, "N": keys, "K": depth}),
        batched("context", {"H": heads, "M": rows, "N": depth, "K": keys}),
        workload({"name": "projection", "gemm": {"M": tokens, "N": width, "K": columns}}),
    ]
    first = int(rng.integers(0, 3))
    end = int(rng.integers(first + 2, 5))
    between = [None, "softmax", None][first : end - 1]
    return Cascade.of(*several[first:end], between=between, counted=bool(rng.random() < 0.5))


def gated_of(rng: np.random.Generator) -> Cascade:
    """A product whose columns gate each other, and one or two behind it."""
    rows, width, hidden, last = (int(rng.choice([1, 2, 3, 4])) for _ in range(4))
    several = [
        workload({"name": "gate-up", "gemm": {"M": rows, "N": 2 * hidden, "K": width}}),
        workload({"name": "down", "gemm": {"M": rows, "N": last, "K": hidden}}),
        workload({"name": "next", "gemm": {"M": rows, "N": width, "K": last}}),
    ][: int(rng.integers(2, 4))]
    between = ["activation", None][: len(several) - 1]
    return Cascade.of(*several, between=between, counted=bool(rng.random() < 0.7))
