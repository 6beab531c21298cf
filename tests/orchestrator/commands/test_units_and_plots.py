"""What commands say of a machine's units, and of a plot that cannot be drawn."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from commands import call

import mapspace as ms
from mapspace.notices import UnusualWarning, noticed_by
from orchestrator.benchmark.run import BenchmarkExperiment
from orchestrator.map_space import figure

SMALL = "gemm:M=4,N=4,K=4"


@pytest.mark.parametrize(
    "asked",
    [
        ("search", SMALL),
        ("search", "--network", "net.yaml"),
        ("search", "--network", "net.yaml", "--jointly"),
        ("pareto", SMALL),
        ("bypass", SMALL),
        ("space", SMALL, "--samples", "50"),
    ],
    ids=" ".join,
)
def test_a_clock_of_another_unit_is_said(
    asked: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fast.yaml").write_text("extends: mm256\nclock_ghz: 200\n")
    Path("net.yaml").write_text(f"layers: ['{SMALL}']\n")
    for _ in range(2):  # also where the store knows the answer
        assert call(*asked, "--accelerator", "fast.yaml", "--store", "store") == 0
        said = capsys.readouterr().err
        assert said.count("warning: fast: clock_ghz: 200 GHz is unusual") == 1


def test_a_clock_of_another_unit_is_said_wherever_a_machine_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fast.yaml").write_text("extends: mm256\nclock_ghz: 200\n")
    with noticed_by(lambda _: None):
        ms.search(SMALL, "fast.yaml").save("own.jsonl")
    small = {**BenchmarkExperiment.quick, "accelerator": "fast.yaml"}
    Path("small.yaml").write_text(json.dumps(small))
    monkeypatch.setattr(BenchmarkExperiment, "run", lambda *_: None)
    monkeypatch.setattr(BenchmarkExperiment, "close", lambda *_: {})
    for asked in (
        ("describe", "fast.yaml", "--json"),
        ("evaluate", "own.jsonl"),
        ("explain", "own.jsonl"),
        ("verify", "own.certificate.json"),
        ("benchmark", "small.yaml"),
    ):
        assert call(*asked) == 0
        said = capsys.readouterr().err
        assert said.count("warning: fast: clock_ghz: 200 GHz is unusual") == 1, asked
    assert call("describe", "fast.yaml") == 0
    said = capsys.readouterr()
    assert "warning: clock_ghz: 200 GHz is unusual" in said.out
    assert not said.err


def test_python_warns_once() -> None:
    machine = {"extends": "mm256", "name": "slow", "clock_ghz": 0.00125}
    with pytest.warns(UnusualWarning, match=r"slow: clock_ghz: 0.00125 GHz") as said:
        ms.search(SMALL, machine)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.search(SMALL, machine)


def test_a_plot_that_fails_takes_no_answer_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device", "full.png")

    monkeypatch.setattr(figure, "draw_surface", full)
    asked = ("space", SMALL, "--samples", 100, "--no-store", "--plot", tmp_path / "full.png")
    assert call(*asked) == 1
    said = capsys.readouterr()
    assert "mappings" in said.out
    assert said.err.splitlines()[-1].startswith("Error: full.png: No space left on device")


def test_describe_says_where_searchers_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("describe", "gradient") == 2
    assert "gradient is a searcher: mapspace describe searcher gradient" in capsys.readouterr().err
    assert call("describe", "nobody") == 2
    assert "Unknown accelerator 'nobody'" in capsys.readouterr().err
