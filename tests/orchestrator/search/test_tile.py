"""`mapspace tile`: a tiling for this processor now, and one line for every mistake."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import call

from costmodel.models import cost_model_entry
from costmodel.tiling.measured_model import MeasuredTiling
from costmodel.tiling.measurement import STATUS_BUILD_FAILED, Measurement, Request
from mapspace.errors import ConfigError, MapspaceError
from orchestrator.search import tiling as tile_module
from orchestrator.search.tiling import TileRequest, tile, tile_text
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row


def test_by_model_it_says_how_far_the_optimum_is(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("tile", "gemm:M=24,N=20,K=7", "--model", "tiling", "--searcher", "gbfs")
    assert call(*arguments, "--iterations", "300", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["latency"] >= summary["optimum"] > 0
    assert summary["iterations"] == 300
    assert [math.prod(summary["factors"][name]) for name in "MKN"] == [24, 7, 20]
    assert call(*arguments, "--iterations", "300") == 0
    out = capsys.readouterr().out
    assert "above the optimum (all " in out
    assert "multiply-accumulate" in out


def test_methods_by_default(measured_by_hand: list[Request]) -> None:
    assert tile(TileRequest("gemm:M=8,N=8,K=8", iterations=30)).searcher == "multi-fidelity"


def test_a_modelled_product_has_another_method_by_default() -> None:
    assert tile(TileRequest("gemm:M=8,N=8,K=8", model="tiling", iterations=30)).searcher == "na2c"


@pytest.fixture
def measured_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Request]:
    """The world `tvm`, whose times are the first factor of M in milliseconds; what was asked."""
    asked: list[Request] = []

    def execute(requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        for row, request in enumerate(requests):
            asked.append(request)
            yield row, Measurement(0, (request.factors[0] * 1e-3,), spent=0.01)

    monkeypatch.setattr("costmodel.tiling.measured_model.tvm_version", lambda: "0")

    def model(accelerator: Any, measurement: Any) -> MeasuredTiling:
        return MeasuredTiling(cache=tmp_path / "kept.sqlite", execute=execute)

    there = replace(cost_model_entry("tvm"), model=model)
    monkeypatch.setattr(tile_module, "cost_model_entry", lambda name: there)
    return asked


def test_by_measurement_it_compares_with_numpy(measured_by_hand: list[Request]) -> None:
    result = tile(TileRequest("gemm:M=8,N=8,K=8", searcher="gbfs", iterations=60))
    summary = result.to_dict()
    assert summary["latency"] == pytest.approx(1e-3)
    assert summary["gflops"] == pytest.approx(2 * 8**3 / 1e-3 / 1e9)
    assert summary["numpy_seconds"] > 0
    assert "NumPy takes" in tile_text(result)
    assert len(measured_by_hand) == len(set(measured_by_hand)) <= 60


def test_what_was_measured_is_read_from_the_store(
    measured_by_hand: list[Request], tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    request = TileRequest("gemm:M=8,N=8,K=8", searcher="gbfs", iterations=60)
    first = tile(request, store=store)
    assert not first.to_dict()["from_store"]
    count = len(measured_by_hand)
    assert len(store.rows_with(kind="evaluation", workload="gemm:M=8,N=8,K=8")) == count
    # On a machine with the same processor that has no file of its own.
    (tmp_path / "kept.sqlite").unlink()
    second = tile(request, store=store)
    assert second.to_dict() == first.to_dict() | {
        "from_store": True,
        "seconds": second.trial.seconds,
        "numpy_seconds": second.numpy_seconds,
    }
    assert len(measured_by_hand) == count
    # A damaged row is named, and its tiling measured anew.
    lines: list[str] = []
    file = next((tmp_path / "store" / "new").glob("*/*.json"))
    file.write_text("{")
    third = tile(request, store=Store(tmp_path / "store", lines.append))
    assert not third.from_store
    assert len(measured_by_hand) == count + 1
    assert any(file.name in line for line in lines)
    # So is a row that is whole and holds no measurement.
    (row,) = Store(tmp_path / "store").rows([file.parent.name])
    for old in (*file.parent.iterdir(), tmp_path / "kept.sqlite"):
        old.unlink()
    changed = Row(**{**row.model_dump(), "payload": '{"measurement": {"status": 0}}'})
    assert Store(tmp_path / "store").add([changed])
    lines.clear()
    assert not tile(request, store=Store(tmp_path / "store", lines.append)).from_store
    assert [line for line in lines if changed.name in line and "measured anew" in line]
    assert len(measured_by_hand) == count + 2


def test_the_file_of_before_feeds_the_store(
    measured_by_hand: list[Request], tmp_path: Path
) -> None:
    request = TileRequest("gemm:M=8,N=8,K=8", searcher="gbfs", iterations=60)
    tile(request)
    count, store = len(measured_by_hand), Store(tmp_path / "store")
    assert not tile(request, store=store).from_store
    assert len(measured_by_hand) == count == len(store.rows_with(kind="evaluation"))


def test_a_budget_of_seconds_counts_what_measurements_took(
    measured_by_hand: list[Request],
) -> None:
    summary = tile(TileRequest("gemm:M=64,N=64,K=64", searcher="random", seconds=1.0)).to_dict()
    # The last batch may begin within the budget and end beyond it; what it took is said.
    assert 1.0 <= summary["seconds"] < 1.5
    # 0.01 s each, which this stand-in does not spend; one batch may be asked in vain.
    assert summary["iterations"] <= 100
    assert len(measured_by_hand) <= 100 + cost_model_entry("tvm").largest_batch


def test_nothing_that_could_be_measured_is_an_error(
    measured_by_hand: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, keys: Sequence[str]) -> list[Measurement]:
        return [Measurement(STATUS_BUILD_FAILED, explanation="no") for _ in keys]

    monkeypatch.setattr("costmodel.tiling.measurement_store.MeasurementCache.find", fail)
    with pytest.raises(MapspaceError, match=r"None of 5 tilings of gemm:M=8,N=8,K=8"):
        tile(TileRequest("gemm:M=8,N=8,K=8", searcher="random", iterations=5))
    assert not measured_by_hand


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet-conv4",), "needs a workload of the family gemm"),
        (("gemm:M=0,N=4,K=4",), "M"),
        (("gemm-512", "--searcher", "exact"), "exact searcher needs a MapSpace, got TilingSpace"),
        (("gemm-512", "--searcher", "tabu"), "Unknown searcher 'tabu'. Known: annealing"),
        (("gemm-512", "--iterations", "0"), "at least 1 iteration"),
        (("gemm-512", "--time-limit", "3"), "--time-limit is for measurements"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("tile", "--model", "tiling", *arguments) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error")]
    assert len(error) == 1
    assert message in error[0]


def test_without_tvm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ConfigError("Measuring tilings needs TVM, which is not installed: the extra")

    monkeypatch.setattr("costmodel.tiling.measured_model.tvm_version", missing)
    with pytest.raises(ConfigError, match="needs TVM"):
        tile(TileRequest("gemm-512"))
