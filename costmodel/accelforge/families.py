"""Which family an operation of named loops is, by its structure: convolution or matrix product."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Terms = tuple[tuple[str, int], ...]
"""An axis: dimensions with their coefficients."""


def family_of(
    sizes: Mapping[str, int],
    inputs: Sequence[Terms],
    weights: Sequence[Terms],
    output: Sequence[Terms],
) -> dict[str, Any] | None:
    """The content of a workload's file, such as `{"gemm": {...}}`; None where it is no family.

    Args:
        sizes: of the dimensions.
        inputs: the axes of the input.
        weights: the axes of the weights.
        output: the axes of the output.
    """
    if any(len(axis) != 1 or axis[0][1] != 1 for axis in (*weights, *output)):
        return None
    held = [{name for axis in axes for name, _ in axis} for axes in (inputs, weights, output)]
    if sum(len(axis) for axis in inputs) != len(held[0]):
        return None
    windows = [axis for axis in inputs if len(axis) > 1 or axis[0][1] != 1]
    kinds = {name: tuple(name in names for names in held) for name in sizes}
    by_kind = {
        kind: [name for name, its in kinds.items() if its == kind] for kind in set(kinds.values())
    }
    if not windows:
        return _gemm(sizes, by_kind)
    return _cnn(sizes, by_kind, windows)


_BATCH, _INNER = (True, False, True), (True, True, False)
_COLUMN, _GROUP = (False, True, True), (True, True, True)


def _gemm(
    sizes: Mapping[str, int], by_kind: Mapping[tuple[bool, ...], list[str]]
) -> dict[str, Any] | None:
    """Without windows: `Z[M, N] += A[M, K] * B[K, N]`, or a convolution of one pixel."""
    rows, inner, columns = (by_kind.get(kind, []) for kind in (_BATCH, _INNER, _COLUMN))
    if not len(inner) == len(columns) == 1 or len(rows) != len(sizes) - 2:
        return None
    pixels = [name for name in rows if name[0].upper() in "PQ"]
    if len(rows) != 3 or len(pixels) != 2:
        long = [sizes[name] for name in rows if sizes[name] > 1] or [1]
        if len(long) > 1:
            return None
        return {"gemm": {"M": long[0], "N": sizes[columns[0]], "K": sizes[inner[0]]}}
    (images,) = set(rows) - set(pixels)
    wide, high = sorted(pixels, key=lambda name: name.upper())
    content = {"N": images, "K": columns[0], "C": inner[0], "P": wide, "Q": high}
    return {"cnn": {ours: sizes[name] for ours, name in content.items()} | {"R": 1, "S": 1}}


def _cnn(
    sizes: Mapping[str, int],
    by_kind: Mapping[tuple[bool, ...], list[str]],
    windows: Sequence[Terms],
) -> dict[str, Any] | None:
    """Two windows of one stride and dilation; every other dimension stands for one of a layer."""
    if len(windows) != 2:
        return None
    content: dict[str, int] = {}
    steps = set()
    for (ours_out, ours_filter), axis in zip((("P", "R"), ("Q", "S")), windows, strict=True):
        outputs = [term for term in axis if term[0] in by_kind.get(_BATCH, [])]
        filters = [term for term in axis if term[0] in by_kind.get(_INNER, [])]
        if len(outputs) != 1 or len(filters) > 1 or len(outputs) + len(filters) != len(axis):
            return None
        content[ours_out] = sizes[outputs[0][0]]
        content[ours_filter] = sizes[filters[0][0]] if filters else 1
        steps.add((outputs[0][1], filters[0][1] if filters else 1))
    inside = {name for axis in windows for name, _ in axis}
    for ours, kind in (("N", _BATCH), ("C", _INNER), ("K", _COLUMN), ("groups", _GROUP)):
        names = [name for name in by_kind.get(kind, []) if name not in inside]
        if len(names) > 1:
            return None
        content[ours] = sizes[names[0]] if names else 1
    if len(steps) != 1 or math.prod(content.values()) != math.prod(sizes.values()):
        return None
    ((content["stride"], content["dilation"]),) = steps
    usual = ("stride", "dilation", "groups")
    order = ("N", "K", "C", "P", "Q", "R", "S", *usual)
    return {"cnn": {key: content[key] for key in order if key not in usual or content[key] > 1}}
