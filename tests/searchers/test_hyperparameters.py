"""A hyperparameter of a wrong type is refused in one line, whichever searcher it is of."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate
from mapspace.testing.toy_space import ToySpace
from orchestrator.benchmark.config import Benchmark, prepare
from searchers import SEARCHERS, hyperparameters, make

CASES = [
    (name, parameter, value)
    for name in sorted(SEARCHERS)
    for parameter, default in hyperparameters(name).items()
    for value in (
        (True, 1.5, "3", [], {}, math.nan, 2**31)
        if type(default) is int
        else (True, "0.5", [], {}, math.nan, math.inf, -math.inf)
        if type(default) is float
        else (0, 1.0, "yes", None)
        if type(default) is bool
        else (3, True, ["x"], None)
        if type(default) is str
        else ()
    )
]


@pytest.mark.parametrize(
    ("name", "parameter"), sorted({(name, parameter) for name, parameter, _ in CASES})
)
def test_wrong_types_are_refused_by_name(name: str, parameter: str) -> None:
    values = [value for case in CASES if case[:2] == (name, parameter) for value in case[2:]]
    for value in values:
        # The space is not looked at: the check comes first.
        with pytest.raises(ConfigError, match=rf"^searcher {name}: {parameter}") as caught:
            make(name, ToySpace(), seed=0, **{parameter: value})
        assert re.search(r": expected .*, got ", str(caught.value))
        assert "\n" not in str(caught.value)


INTEGERS = sorted({(name, parameter) for name, parameter, value in CASES if value == 2**31})


@pytest.mark.parametrize(("name", "parameter"), INTEGERS)
def test_the_least_that_is_expected_is_the_least(name: str, parameter: str) -> None:
    def refused(value: int) -> str:
        try:
            make(name, ToySpace(), seed=0, **{parameter: value})
        except ConfigError as error:
            return str(error).split(", got ")[0]
        return ""

    said = refused(-7)
    found = re.fullmatch(rf"searcher {name}: {parameter}: expected at least (\d+)", said)
    assert found, said
    least = int(found[1])
    assert refused(least - 1) == said
    assert not refused(least).startswith(f"searcher {name}: {parameter}: expected at least")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperatures": [1, "x"]}, r"temperatures\[1\]: expected a number, got 'x'"),
        ({"temperatures": 3}, "temperatures: expected a list, got 3"),
        ({"temperatures": [True, 1.0]}, r"temperatures\[0\]: expected a number, got true"),
    ],
)
def test_lists_are_checked_inside(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("annealing", ToySpace(), seed=0, **parameters)


def test_numbers_of_numpy_and_whole_numbers_for_numbers_pass() -> None:
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator("mm256"))
    make("annealing", space, seed=0, chains=np.int64(2), tuning_share=1, temperatures=[2, 1])
    make("annealing", space, seed=0, tuning_share=np.float32(0.5))
    make("random", space, seed=0, patience=None)


def test_values_come_in_the_types_of_the_constructor() -> None:
    """Compiled code is compiled anew for a whole number where it had a number."""
    searcher = make("annealing", ToySpace(), seed=0, initial_acceptance=0.5, further_moves=0)
    assert type(searcher.options.further_moves) is float  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["name", "space", "seed", "preset"])
def test_no_argument_of_make_is_a_hyperparameter_of_a_file(name: str) -> None:
    benchmark = validate(
        Benchmark,
        {
            "kind": "benchmark",
            "name": "x",
            "workloads": ["gemm:M=4,N=4,K=4"],
            "searchers": {"random": {"parameters": {name: 1}}},
            "seeds": 1,
            "iterations": 5,
        },
        "x",
    )
    with pytest.raises(ConfigError, match=rf"^x: Unknown hyperparameter {name} of searcher random"):
        prepare(benchmark, "x")
