"""The workloads of a node: one set of rules for every tool that a network comes from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from costmodel.problems.affine import LARGEST_SIZE, MAX_DIMENSIONS
from orchestrator.imports.operators import Attention, Convolution, Product, Recurrent, Shape

# Output and filter by axis, the last axis first: P and R are the widths, as in the family `cnn`.
_OUTPUT = ("P", "Q", "O")
_FILTER = ("R", "S", "T")


MOST_PHASES = 1024
"""Ordinary convolutions, equal ones too, that a transposed one may consist of."""


@dataclass(frozen=True)
class Layer:
    """One workload of a node."""

    content: dict[str, Any]
    """What a workload's file holds."""
    count: int = 1
    """How often the node has it."""
    suffix: str = ""
    """Tells the layers of one node apart."""


def layers_of(work: Convolution | Product | Attention | Recurrent) -> list[Layer]:
    """The workloads that a node is made of."""
    if isinstance(work, Product):
        return [Layer(_product(work))]
    if isinstance(work, Attention):
        rows = work.shared * work.queries
        batch = work.batch * work.heads
        return [
            Layer(_product(Product(batch, rows, work.keys, work.depth)), suffix="scores"),
            Layer(_product(Product(batch, rows, work.values, work.keys)), suffix="context"),
        ]
    if isinstance(work, Recurrent):
        return list(_recurrent(work))
    if work.transposed:
        return list(_transposed(work))
    return [_convolution(work)]


def _recurrent(work: Recurrent) -> Iterator[Layer]:
    """Inputs of all steps are one product; each step waits for the state of the one before."""
    for index, (inputs, gates, state, projected) in enumerate(work.cells):
        rows = Product(1, work.steps * work.batch, gates, inputs)
        yield Layer(_product(rows), suffix=f"cell{index}.inputs")
        step = Product(1, work.batch, gates, state)
        yield Layer(_product(step), work.steps, f"cell{index}.state")
        if projected:
            out = Product(1, work.batch, projected, gates // 4)
            yield Layer(_product(out), work.steps, f"cell{index}.projection")


def softmax_words(work: Attention) -> int:
    """Words that the softmax between the two products reads and writes."""
    return 2 * work.batch * work.heads * work.shared * work.queries * work.keys


def _product(work: Product) -> dict[str, Any]:
    sizes = {"M": work.m, "N": work.n, "K": work.k}
    if work.batch == 1:
        return {"gemm": sizes}
    return {
        "dimensions": {"H": work.batch, **sizes},
        "tensors": {"A": ["H", "M", "K"], "B": ["H", "K", "N"], "Z": ["H", "M", "N"]},
        "output": "Z",
        "roles": {"B": "weight"},
    }


def _convolution(work: Convolution) -> Layer:
    axes = len(work.sizes)
    sizes, kernel = work.sizes[::-1], work.kernel[::-1]
    strides, dilations = work.strides[::-1], work.dilations[::-1]
    output = dict(zip(_OUTPUT[:axes], sizes, strict=True))
    filters = dict(zip(_FILTER[:axes], kernel, strict=True))
    base = {"N": work.images, "K": work.outputs, "C": work.inputs, **output, **filters}
    more = {"stride": strides[0], "dilation": dilations[0], "groups": work.groups}
    more = {key: value for key, value in more.items() if value != 1}
    if axes == 2 and len(set(strides)) == len(set(dilations)) == 1:
        return Layer({"cnn": base | more})
    if axes == 1 and work.groups == 1:
        return Layer({"conv1d": base | more})
    groups = {"G": work.groups} if work.groups > 1 else {}
    count = 1
    if len(base) + len(groups) > MAX_DIMENSIONS:
        # Groups share no word: each by itself is the same work.
        groups, count = {}, work.groups
    windows = [
        f"{stride}*{place} + {dilation}*{tap}"
        for place, tap, stride, dilation in zip(output, filters, strides, dilations, strict=True)
    ]
    content = {
        "dimensions": {"N": work.images, **groups, **base},
        "tensors": {
            "Weights": [*groups, "K", "C", *filters],
            "Inputs": ["N", *groups, "C", *windows],
            "Outputs": ["N", *groups, "K", *output],
        },
        "output": "Outputs",
        "roles": {"Weights": "weight"},
    }
    return Layer(content, count)


def _transposed(work: Convolution) -> Iterator[Layer]:
    """The ordinary convolutions that a transposed one consists of.

    Tap r of input i reaches output `stride*i + dilation*r - padding`. Outputs whose distance from
    -padding is f modulo the stride meet every (stride / g)th tap, g = gcd(stride, dilation), where
    g divides f, and from one such tap to the next the input moves by dilation / g: a convolution
    of stride 1. Those of equal sizes are equal layers.
    """
    if max(work.strides) > MOST_PHASES or math.prod(work.strides) > MOST_PHASES:
        raise ValueError(
            f"expected strides of a product of at most {MOST_PHASES:,}, got {list(work.strides)}"
        )
    if max(work.kernel) > LARGEST_SIZE:
        raise ValueError(f"expected at most {LARGEST_SIZE:,} taps, got {list(work.kernel)}")
    axes: list[list[tuple[int, int, int]]] = []
    for size, taps, stride, dilation, cut in zip(
        work.sizes, work.kernel, work.strides, work.dilations, work.padding, strict=True
    ):
        common = math.gcd(stride, dilation)
        phases = []
        for phase in range(0, stride, common):
            reached = (t for t in range(min(taps, stride)) if (dilation * t) % stride == phase)
            first = next(reached, None)
            if first is None:
                continue
            outputs = len(range((phase - cut) % stride, size, stride))
            number = len(range(first, taps, stride // common))
            if outputs:
                phases.append((outputs, number, dilation // common if number > 1 else 1))
        axes.append(phases)
    found: dict[tuple[tuple[int, int, int], ...], int] = {}
    for parts in itertools.product(*axes):
        found[parts] = found.get(parts, 0) + 1
    for index, (parts, count) in enumerate(found.items()):
        layer = _convolution(
            Convolution(
                images=work.images,
                groups=work.groups,
                outputs=work.outputs,
                inputs=work.inputs,
                sizes=_column(parts, 0),
                kernel=_column(parts, 1),
                strides=(1,) * len(parts),
                dilations=_column(parts, 2),
            )
        )
        suffix = f"phase{index}" if len(found) > 1 else ""
        yield Layer(layer.content, layer.count * count, suffix)


def _column(parts: tuple[tuple[int, int, int], ...], index: int) -> Shape:
    return tuple(part[index] for part in parts)
