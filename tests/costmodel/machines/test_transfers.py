"""The keys `startup` and `buffering` of a level: how they are read, written and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import printed

import mapspace as ms
from costmodel import MapSpace
from mapspace.errors import ConfigError


def machine(level: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {
        "name": "timed",
        "mac_energy_pj": 1,
        "levels": [
            {"name": "DRAM", "energy_pj": 200},
            {"name": "Buffer", "energy_pj": 6, "capacity_words": 512, **level},
        ],
        **further,
    }


def tables_of(level: dict[str, Any]) -> tuple[list[int], list[int]]:
    space = MapSpace(ms.workload("gemm:M=4,N=4,K=4"), ms.accelerator(machine(level)))
    found = space.tables.machine
    assert not found.startup[0].any()
    return found.startup[1].tolist(), found.single[1].tolist()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ({}, ([0, 0, 0], [0, 0, 0])),
        ({"startup": 5}, ([5, 5, 5], [0, 0, 0])),
        ({"startup": {"weight": 7, "A": 2}}, ([2, 7, 0], [0, 0, 0])),
        ({"buffering": "single"}, ([0, 0, 0], [1, 1, 1])),
        ({"buffering": {"output": "single", "A": "double"}}, ([0, 0, 0], [0, 0, 1])),
    ],
)
def test_values_by_role_and_tensor(level: dict[str, Any], expected: object) -> None:
    assert tables_of(level) == expected


@pytest.mark.parametrize("value", [5, {"input": 3, "weight": 2}])
def test_it_is_written_as_it_was_said(value: object) -> None:
    found = ms.accelerator(machine({"startup": value, "buffering": "single"}))
    written = found.model_dump()["levels"][1]
    assert (written["startup"], written["buffering"]) == (value, "single")
    assert ms.accelerator({**found.model_dump()}).hash == found.hash
    assert hash(found.levels[1]) == hash(ms.accelerator(found.model_dump()).levels[1])
    assert "startup" not in ms.accelerator(machine({})).model_dump()["levels"][1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (machine({"startup": -1}), "levels[Buffer].startup"),
        (machine({"startup": 2.5}), "levels[Buffer].startup"),
        (machine({"buffering": "triple"}), "levels[Buffer].buffering"),
        (machine({"startup": 1}, factors="imperfect"), "tiles are counted with perfect factors"),
        (machine({"startup": 1, "tiles": "apart"}), "Buffer shares its room"),
        (
            {**machine({}), "levels": [{"name": "DRAM", "energy_pj": 1, "buffering": "single"}]},
            "levels[0].buffering: DRAM is outermost and asks nobody for tiles",
        ),
    ],
)
def test_what_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ms.accelerator(content)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tensors_have_to_be_there() -> None:
    with pytest.raises(ConfigError, match=r"startup: expected a role .* or a tensor \(A, B, Z\)"):
        tables_of({"startup": {"Weights": 3}})
    with pytest.raises(ConfigError, match="tiles are counted with perfect factors"):
        MapSpace(
            ms.workload("gemm:M=7,N=7,K=7"), ms.accelerator(machine({"startup": 1})),
            factors="imperfect",
        )  # fmt: skip


def test_a_description_says_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "timed.yaml"
    file.write_text(json.dumps(machine({"startup": {"weight": 10}, "buffering": "single"})))
    said = " ".join(printed(capsys, "describe", file).split())
    assert "10 cycles before a tile of weight, work waits for tiles" in said
