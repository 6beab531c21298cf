"""What is one beyond a limit of the page is one line, before work is spent on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.maestro import dataflow_text
from costmodel.maestro.dataflow_text import read_network_file
from costmodel.networks import scalesim_topology
from costmodel.networks.scalesim_topology import read_topology
from mapspace import bounded_reading
from mapspace.bounded_reading import parse_json
from mapspace.errors import ConfigError, DataError, MapspaceError
from orchestrator.imports.from_onnx import LARGEST_MODEL, from_onnx
from orchestrator.runs import checkpoints
from orchestrator.runs.checkpoints import load_state, save_state
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import prepare_sweep


def machine(levels: int) -> dict[str, Any]:
    """As many levels, each with two children but for the outermost."""
    inner = [
        {"name": f"L{n}", "capacity_words": 64, "energy_pj": 1.0, "fanout": 2}
        for n in range(levels - 1)
    ]
    outer = {"name": "DRAM", "energy_pj": 9.0}
    return {"name": "deep", "mac_energy_pj": 1.0, "levels": [outer, *inner]}


def tensors(count: int) -> dict[str, Any]:
    inputs = {f"T{n}": ["M"] for n in range(count - 1)}
    return {"dimensions": {"M": 4}, "tensors": {**inputs, "Z": ["M"]}, "output": "Z"}


def banked(banks: int) -> MapSpace:
    levels = [{"name": "L1", "capacity_words": 2**20, "banks": banks}]
    return MapSpace(workload("gemm-512"), accelerator({"extends": "mm256", "levels": levels}))


def swept(sizes: int) -> object:
    grid = {"clock_ghz": [n / 1000 for n in range(1, 1001)], "mac_energy_pj": [*range(sizes)]}
    content = {"kind": "sweep", "name": "it", "grid": grid, "workloads": ["gemm:M=4,N=4,K=4"]}
    return prepare_sweep(Sweep.model_validate(content), "here")


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (lambda: accelerator(machine(17)), "levels: expected at most 16, got 17."),
        (lambda: workload(tensors(10)), "tensors: expected at most 9, got 10."),
        (lambda: MapSpace(workload("gemm-512"), accelerator(machine(9))), "over 17 loops are "),
        (lambda: banked(2**20), "can give its 1,048,576 banks to 3 tensors in ways of "),
        (lambda: swept(101), "here: grid: expected at most 100,000 points, got 101,000"),
    ],
    ids=["levels", "tensors", "factors", "banks", "points"],
)
def test_one_more_is_one_line(beyond: Callable[[], object], said: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as caught:
        beyond()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 2


def test_as_much_as_is_allowed_is_read() -> None:
    assert len(accelerator(machine(16)).levels) == 16
    assert len(workload(tensors(9)).tensors) == 9


def test_a_model_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """It takes no room on the disk, and would take as much memory."""
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(LARGEST_MODEL + 1)
    with pytest.raises(ConfigError, match=r"expected at most 2,147,483,647 bytes, got 2,147,483,6"):
        from_onnx(path)


def test_a_state_that_unpacks_to_more_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.npz"
    save_state(path, {"held": np.zeros(1000)})
    assert load_state(path)["held"].size == 1000
    monkeypatch.setattr(checkpoints, "LARGEST_UNPACKED", 8000)
    with pytest.raises(DataError, match=r"damaged \(expected at most 8,000 bytes, unpacked\)"):
        load_state(path)


def test_a_text_in_memory_has_the_bound_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading, "LARGEST_FILE", 10)
    assert parse_json(b"[12345678]", "x") == [12345678]
    with pytest.raises(ConfigError, match=r"^x: expected at most 10 bytes\.$"):
        parse_json(b"[123456789]", "x")


@pytest.mark.parametrize("kind", ["csv", "m"])
def test_layers_of_others_files_have_a_bound(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more of a table are read."""
    monkeypatch.setattr(scalesim_topology, "_MOST_LAYERS", 3)
    monkeypatch.setattr(dataflow_text, "_MOST_LAYERS", 3)
    layer = "Layer a { Type: GEMM Dimensions { M: 4, N: 4, K: 4 } Dataflow { } }\n"
    path = tmp_path / f"layers.{kind}"
    for count in (3, 4):
        if kind == "csv":
            path.write_text("Layer, M, N, K,\n" + "a, 8, 8, 8,\n" * count)
        else:
            path.write_text(f"Network a {{\n{layer * count}}}\n")
        read: Callable[[Path], Any] = read_topology if kind == "csv" else read_network_file
        if count == 3:
            assert len(read(path).layers) == 3
            continue
        with pytest.raises(MapspaceError, match="expected at most 3 layers"):
            read(path)
