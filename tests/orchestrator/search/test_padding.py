"""Padding: which dimensions may be padded, what larger sizes give, what is said of them."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from typing import Any

import numpy as np
import pytest
from commands import call, printed

from costmodel import MapSpace, Workload, accelerator, workload
from costmodel.exact_any.choice import prove
from orchestrator.answers.padding import is_awkward, paddable
from orchestrator.answers.request import Request
from orchestrator.search import padding_advice, padding_trials
from orchestrator.search.padding_trials import (
    candidates,
    find_padding,
    pad,
    padded,
    roundest,
    until,
)

AWKWARD = "gemm:M=67,N=71,K=73"
# Small enough for many proofs: 64 elements of 64 words, 4,096 words shared.
MACHINE: dict[str, Any] = {
    "name": "small",
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 10.0, "capacity_words": 4096, "fanout": 64},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 64},
    ],
    "mac_energy_pj": 0.5,
}


def request(**options: Any) -> Request:
    common: dict[str, Any] = {"searcher": None, "seconds": None, "iterations": None, "seed": 0}
    return Request(AWKWARD, "small", **{"objective": "edp", **common, **options})


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, every size is tried."""
    monkeypatch.setattr(padding_trials, "PROBLEM_SECONDS", 300.0)
    monkeypatch.setattr(padding_trials, "PADDING_SECONDS", 300.0)
    monkeypatch.setattr(padding_advice, "ADVICE_SECONDS", 300.0)


def never() -> bool:
    return False


def computed(nest: Workload, inputs: list[np.ndarray]) -> np.ndarray:
    """The operation itself, one multiply-accumulate after another."""
    names = nest.dimension_names

    def index(tensor: Any, point: dict[str, int]) -> tuple[int, ...]:
        return tuple(sum(c * point[d] for d, c in axis.terms) for axis in tensor.axes)

    *sources, output = nest.tensors
    result = np.zeros(shape(nest, output))
    for values in itertools.product(*(range(size) for size in nest.sizes)):
        point = dict(zip(names, values, strict=True))
        product = 1.0
        for tensor, array in zip(sources, inputs, strict=True):
            product *= array[index(tensor, point)]
        result[index(output, point)] += product
    return result


def shape(nest: Workload, tensor: Any) -> tuple[int, ...]:
    return tuple(
        1 + sum(c * (nest.dimensions[d] - 1) for d, c in axis.terms) for axis in tensor.axes
    )


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("gemm:M=3,N=2,K=2", "MNK"),
        ("cnn:N=1,K=2,C=3,P=2,Q=3,R=2,S=1,stride=2", "NKCPQ"),
        ("cnn:N=1,K=1,C=2,P=2,Q=2,R=2,S=2,dilation=2,groups=2", "NGKCPQ"),
        ("conv1d:P=3,K=2,R=2", "NKCP"),
        ("mttkrp:I=2,J=3,K=2,L=2", "IJKL"),
    ],
)
def test_what_may_be_padded_does_not_change_the_result(text: str, dimensions: str) -> None:
    """Computed: zeros where a padded sum reads, garbage wherever else the inputs grow."""
    nest = workload(text)
    allowed = paddable(nest)
    assert set(allowed) == set(dimensions) & set(nest.dimensions)
    rng = np.random.default_rng(0)
    larger = padded(nest, {name: nest.dimensions[name] + 1 for name in allowed})
    small, large = [], []
    summed = set(nest.dimensions) - set(nest.tensors[-1].dimensions)
    for tensor in nest.tensors[:-1]:
        values = rng.normal(size=shape(nest, tensor))
        array = rng.normal(size=shape(larger, tensor)) * 1e6
        for at, axis in enumerate(tensor.axes):
            if len(axis.terms) == 1 and axis.terms[0][0] in summed:
                beyond = [slice(None)] * array.ndim
                beyond[at] = slice(values.shape[at], None)
                array[tuple(beyond)] = 0.0
        array[tuple(slice(size) for size in values.shape)] = values
        small.append(values)
        large.append(array)
    expected, result = computed(nest, small), computed(larger, large)
    assert expected.size < result.size
    np.testing.assert_allclose(result[tuple(slice(n) for n in expected.shape)], expected, rtol=1e-9)


def test_candidates_are_close_and_have_small_factors() -> None:
    assert candidates(997) == [998, 1000, 1008, 1024]
    assert candidates(1) == []
    assert candidates(3) == [4]
    assert candidates(512) == []
    assert [roundest(size) for size in (1, 7, 67, 997)] == [1, 7, 72, 1000]
    assert [is_awkward(size) for size in (1, 7, 512, 720, 11, 22, 997)] == [False] * 4 + [True] * 3


# Of two fan-outs, which the proof for three levels does not treat.
CLUSTERS: dict[str, Any] = {
    **MACHINE,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 10.0, "capacity_words": 4096, "fanout": 8},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 64, "fanout": 8},
    ],
}


@pytest.mark.parametrize(
    ("problem", "machine"), [(AWKWARD, MACHINE), ("gemm:M=23,N=13,K=4", CLUSTERS)]
)
def test_sizes_are_found_by_proofs(problem: str, machine: dict[str, Any]) -> None:
    nest, device = workload(problem), accelerator(machine)

    def optimum(**sizes: int) -> float:
        return prove(MapSpace(padded(nest, {**nest.dimensions, **sizes}), device)).value

    found = find_padding(request(), nest, device, paddable(nest), never)
    assert found.complete
    assert found.original == pytest.approx(optimum(), rel=1e-12)
    assert found.objective == pytest.approx(optimum(**found.sizes), rel=1e-12)
    assert found.objective < min(value for _, value in found.single.values()) < found.original

    for name in paddable(nest):
        values = {size: optimum(**{name: size}) for size in candidates(nest.dimensions[name])}
        if name in found.single:
            size, value = found.single[name]
            assert value == pytest.approx(min(values.values()), rel=1e-12)
            assert values[size] == pytest.approx(value, rel=1e-12)
        else:
            assert min(values.values(), default=math.inf) >= found.original * (1 - 1e-12)
        # No other size of one dimension is better beside the others.
        for size in (nest.dimensions[name], *values):
            assert optimum(**{**found.sizes, name: size}) >= found.objective * (1 - 1e-12)


def test_what_was_not_tried_in_time_is_not_claimed() -> None:
    nest, device = workload(AWKWARD), accelerator(MACHINE)
    interrupted = threading.Event()
    interrupted.set()
    found = pad(request(), nest, device, interrupted)
    assert not found.complete
    assert found.sizes == nest.dimensions
    stop = until(time.monotonic(), threading.Event())
    assert find_padding(request(), nest, device, ("M",), stop, 5.0).objective == 5.0


def test_awkward_sizes_are_named_with_what_padding_gives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "search", "gemm:M=263,N=257,K=16")
    assert "M = 263 is prime, N = 257 is prime" in text
    assert "K = 16" not in text
    # With one of the two padded the other has no work left to spread.
    assert "M padded to 272" in text
    assert "best alone M=272" in text
    found = json.loads(printed(capsys, "search", "gemm:M=263,N=257,K=16", "--json"))
    assert found["utilisation"] < 0.5
    assert found["padding"]["complete"] is True
    assert found["padding"]["objective"] < found["edp"]
    better = json.loads(printed(capsys, "search", "gemm:M=263,N=257,K=16", "--pad", "--json"))
    assert better["original"] == {
        "workload": "gemm:M=263,N=257,K=16",
        "dimensions": {"M": 263, "N": 257, "K": 16},
    }
    sizes = {"M": 263, "N": 257, "K": 16, **better["padded"]}
    assert better["wasted_macs"] == sizes["M"] * sizes["N"] * sizes["K"] - 263 * 257 * 16 > 0
    assert better["record"]["problem"]["dims"] == sizes
    # All dimensions were tried, not only the awkward ones.
    assert better["edp"] <= found["padding"]["objective"] * (1 + 1e-12)
    assert better["proven"] is True
    text = printed(capsys, "search", "gemm:M=263,N=257,K=16", "--pad")
    assert "of the padded problem" in text
    assert "wasted multiply-accumulates" in text


@pytest.mark.parametrize("text", ["gemm:M=64,N=64,K=61", "gemm:M=2,N=2,K=512"])
def test_sizes_that_are_not_to_blame_are_not_blamed(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The array is full; or it is not, and no size is awkward."""
    assert "awkward" not in printed(capsys, "search", text)


def test_padding_is_for_one_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", "--network", "alexnet", "--pad") == 2
    assert "--pad is for a single WORKLOAD" in capsys.readouterr().err
