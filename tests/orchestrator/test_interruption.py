"""Ctrl-C: what was found is printed, marked as cut off, and the exit status is 130."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from commands import call


@contextmanager
def pressed() -> Iterator[threading.Event]:
    """As `interruptible`, with Ctrl-C pressed at once."""
    event = threading.Event()
    event.set()
    yield event


@contextmanager
def never_pressed() -> Iterator[threading.Event]:
    yield threading.Event()


COMMANDS = {
    "search": ("orchestrator.search.one_workload", "search", "gemm-512", "--searcher", "random"),
    "proof": ("orchestrator.search.one_workload", "search", "gemm-512"),
    "tile": ("orchestrator.search.tiling", "tile", "gemm:M=64,N=64,K=64", "--model", "tiling"),
    "space": (
        "orchestrator.map_space.describe",
        "space",
        "gemm:M=64,N=64,K=64",
        "--samples",
        "500000",
    ),
    "family": (
        "orchestrator.map_space.describe",
        "space",
        "--family",
        "mttkrp",
        "--samples",
        "500000",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_was_found_is_printed_and_the_status_is_130(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *arguments = COMMANDS[name]
    monkeypatch.setattr(f"{module}.interruptible", pressed)
    assert call(*arguments, "--json") == 130
    output = capsys.readouterr()
    assert json.loads(output.out)["interrupted"] is True
    assert output.err.splitlines()[-1].startswith("Error: interrupted: this is ")


@pytest.mark.parametrize("name", ["search", "tile", "space"])
def test_otherwise_it_says_that_nothing_was_cut_off(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *arguments = COMMANDS[name]
    monkeypatch.setattr(f"{module}.interruptible", never_pressed)
    if name == "space":
        arguments[-1] = "200"
    else:
        arguments += ["--iterations", "50"]
    assert call(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["interrupted"] is False


def test_the_last_layer_of_a_network_may_be_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    source = tmp_path / "net.yaml"
    source.write_text('layers: ["gemm:M=8,N=4,K=2"]')
    event = threading.Event()

    @contextmanager
    def during() -> Iterator[threading.Event]:
        yield event

    from orchestrator.networks import search as network

    searched = network.search_layer

    def interrupted(*arguments: Any, **options: Any) -> Any:
        event.set()
        return searched(*arguments, **options)

    monkeypatch.setattr(network, "interruptible", during)
    monkeypatch.setattr(network, "search_layer", interrupted)
    assert call("search", "--network", str(source), "--json") == 130
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert found["interrupted"] is True
    assert found["unfinished"] == []
    assert "a layer has the best found so far" in output.err


@pytest.mark.parametrize(
    ("command", "patched", "continues"),
    [
        (("search", "gemm-512"), "orchestrator.search.one_workload.search", False),
        (
            ("evaluate", "--model", "loopnest", __file__),
            "orchestrator.records.evaluate_records.evaluate_file",
            False,
        ),
        (("generate", "smoke"), "orchestrator.runs.command.find_experiment", True),
        (("sweep", "sweep-smoke"), "orchestrator.runs.command.run_experiment", True),
        (("run", "--quick"), "orchestrator.mind_mappings.main_job", True),
    ],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_only_what_continues_is_said_to(
    command: tuple[str, ...],
    patched: str,
    continues: bool,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def cut_off(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(patched, cut_off)
    assert call(*command) == (130 if isinstance(error, KeyboardInterrupt) else 1)
    said = capsys.readouterr().err
    assert ("the same command continues" in said) is continues
