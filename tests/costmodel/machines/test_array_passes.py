"""The key `array` of a level: sums of rows and columns, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mapspace as ms
from costmodel import MapSpace
from costmodel.machines.array_passes import ArrayPasses, cycles_of
from mapspace.errors import ConfigError


def machine(array: dict[str, Any] | None, **further: Any) -> dict[str, Any]:
    level = {"name": "Buffer", "energy_pj": 6, "capacity_words": 4096, "fanout": 8, "mesh": [4, 2]}
    return {
        "name": "systolic",
        "mac_energy_pj": 1,
        "levels": [
            {"name": "DRAM", "energy_pj": 200},
            level | ({} if array is None else {"array": array}),
            {"name": "Register", "energy_pj": 1, "capacity_words": 4},
        ],
        **further,
    }


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("7", 7),
        ("rows", 3),
        ("columns", 5),
        ("rows + columns - 2", 6),
        ("2 * rows + columns - 2", 9),
        ("2rows+3*columns", 21),
        ("- 2 + rows", 1),
        (" 10 - rows ", 7),
    ],
)
def test_sums_of_rows_and_columns(text: str, cycles: int) -> None:
    assert cycles_of(text, 3, 5) == cycles


@given(st.integers(1, 99), st.integers(1, 99), st.integers(0, 9), st.integers(0, 9))
def test_a_sum_is_what_python_makes_of_it(rows: int, columns: int, a: int, b: int) -> None:
    text = f"{a} * rows - {b} * columns + {a} - rows"
    assert cycles_of(text, rows, columns) == eval(text, {"rows": rows, "columns": columns})


@pytest.mark.parametrize(
    "text", ["", "row", "rows columns", "rows +", "rows * 2", "rows / 2", "1e3", "2.5", "1 2"]
)
def test_other_texts_are_no_sums(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a whole number of cycles or a sum such as"):
        ms.accelerator(machine({"stationary": "weight", "load": text}))


def test_rows_are_the_height_of_the_mesh() -> None:
    found = ms.accelerator(machine({"stationary": "weight", "load": "rows", "fill": "columns"}))
    array = found.levels[1].array
    assert array is not None
    assert array.parts(2, 4) == (2, 4, 0)
    space = MapSpace(ms.workload("gemm:M=8,N=8,K=8"), found)
    assert space.tables.machine.turns.tolist() == [[0, 0, 0], [0, 6, 0], [0, 0, 0]]


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"stationary": 3}, {}, "array.stationary: expected a list"),
    ({"stationary": []}, {}, "array.stationary"),
    ({"load": 3}, {}, "array: missing stationary. Known keys: stationary, load, fill, drain"),
    ({"stationary": "weight", "lod": 3}, {}, "array.lod: unknown key"),
    ({"stationary": "weight", "load": -3}, {}, "array.load: expected at least 0 cycles, got -3"),
    (
        {"stationary": "weight", "fill": "rows - columns"},
        {},
        "array.fill: expected at least 0 cycles, got rows - columns = -2 of 2 rows and 4 columns",
    ),
    ({"stationary": "weight"}, {"factors": "imperfect"}, "passes are counted with perfect factors"),
    ({"stationary": "weight"}, {"overflow": "bypass"}, "expected overflow: invalid, got bypass"),
]


@pytest.mark.parametrize(("array", "further", "message"), WRONG)
def test_what_is_refused(array: dict[str, Any], further: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ms.accelerator(machine(array, **further))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_array_needs_children_that_hold_what_is_stationary() -> None:
    whole = machine({"stationary": "weight"})
    whole["levels"][2]["bypass"] = ["weight"]
    with pytest.raises(ConfigError, match="expected a level inside Buffer that keeps weight"):
        ms.accelerator(whole)
    whole = machine({"stationary": "weight"})
    whole["levels"][1] |= {"fanout": 1, "mesh": None}
    with pytest.raises(ConfigError, match="array: expected children, got fanout: 1"):
        ms.accelerator(whole)


def test_machines_without_it_are_filed_as_ever() -> None:
    without, idle = ms.accelerator(machine(None)), ms.accelerator(machine(None))
    assert "array" not in str(without.model_dump())
    assert without.hash == idle.hash
    assert ms.accelerator(machine({"stationary": "weight", "load": 1})).hash != without.hash


def test_it_is_read_as_it_is_written() -> None:
    array = ArrayPasses(stationary="output", load=3, fill="rows")  # type: ignore[arg-type]
    assert ArrayPasses.model_validate(array.model_dump()) == array


def test_a_tensor_may_be_named_and_must_be_there() -> None:
    layer = ms.workload("gemm:M=8,N=8,K=8")
    space = MapSpace(layer, ms.accelerator(machine({"stationary": ["A", "output"], "load": 5})))
    assert space.tables.machine.turns.tolist() == [[0, 0, 0], [5, 0, 5], [0, 0, 0]]
    work = {
        "dimensions": {"M": 2, "N": 2, "K": 2},
        "tensors": {"A": ["M", "K"], "B": ["K", "N"], "Z": ["M", "N"]},
        "output": "Z",
        "roles": {"A": "weight", "B": "weight"},
    }
    for name, message in (
        ("Weights", r"stationary: expected a role .* or a tensor \(A, B, Z\), got 'Weights'"),
        ("input", r"stationary: no tensor is input \(A: weight, B: weight, Z: output\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            MapSpace(ms.workload(work), ms.accelerator(machine({"stationary": name})))


def test_remainders_are_not_counted() -> None:
    found = ms.accelerator(machine({"stationary": "weight", "load": 1}))
    with pytest.raises(ConfigError, match="passes are counted with perfect factors"):
        MapSpace(ms.workload("gemm:M=7,N=7,K=7"), found, factors="imperfect")
