"""An experiment is looked at before stores, folders and Ray: what is refused is refused alike."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Never

import pytest
from commands import call

from orchestrator.runs.run_folder import Experiment, experiment_of

PROVEN = ("benchmark", "sweep", "design")
KINDS = (*PROVEN, "generate", "train")
# Of every kind that a key may have, and of none.
WRONG: tuple[Any, ...] = (
    -1, 0, 0.5, True, None, "nope", "", [], ["nope"], [5], {"nope": 5}, {"L9.fanout": [2]},
    {"L2.fanout": []}, [{"type": "temporal", "target": "L9"}],
)  # fmt: skip
# Of all cases every fifth by default, which meets every key and every value; all if slow.
PARTS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])


class BegunError(Exception):
    """Ray is started: what was asked was not refused."""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that knows the answers to what is asked without anything wrong."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Experiment, "close", no_page)
        # Nothing here is worth to start Ray for.
        patched.setattr("orchestrator.runs.run_folder.fan_out", here)
        patched.setattr("orchestrator.benchmark.tune_runner.are_few", lambda *_: True)
        patched.chdir(folder)
        for name in (*PROVEN, "generate"):  # a training would start Ray
            Path("asked.yaml").write_text(json.dumps(right(name)))
            assert call(name, "asked.yaml", "--output", f"made/{name}", "--store", "warm") == 0
    return folder / "warm"


def no_page(*_: object) -> dict[str, Any]:
    """In place of pages and MLflow."""
    return {}


def here(function: Callable[[Any], Any], items: Iterable[Any], **_: object) -> Iterator[Any]:
    """In place of Ray's tasks."""
    return map(function, items)


def right(name: str, data: Path = Path("data")) -> dict[str, Any]:
    """A small experiment; one that proves nothing beside its searches, or learns from `data`."""
    beside = {"proof_seconds": 0} if name == "benchmark" else {}
    found = {**experiment_of(name).quick, **beside}
    return {key: str(data) if value == "{data}" else value for key, value in found.items()}


def no_ray(*_: object, **__: object) -> Never:
    """In place of what starts Ray."""
    raise BegunError


def cases(name: str) -> Iterator[tuple[str, Any]]:
    for key in (*experiment_of(name).config.model_fields, "nope"):
        for value in WRONG:
            yield key, value


@PARTS
@pytest.mark.parametrize("name", KINDS)
def test_an_experiment_is_refused_alike(
    name: str,
    step: int,
    warm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Experiment, "close", no_page)
    monkeypatch.setattr("orchestrator.runs.ray_runtime.start_ray", no_ray)
    refused = 0
    for number, (key, value) in enumerate(itertools.islice(cases(name), 0, None, step)):
        asked = {**right(name, warm.parent / "made" / "generate"), key: value}
        Path("asked.yaml").write_text(json.dumps(asked))
        said = []
        for place, store in enumerate((["--no-store"], ["--store", f"cold{number}"],
                                       ["--store", str(warm)])):  # fmt: skip
            folder = Path(f"made/{number}-{place}")
            try:
                status = call(name, "asked.yaml", "--output", folder, *store)
            except BegunError:
                status = 0
            errors = capsys.readouterr().err.splitlines()
            if status == 2:  # nothing is said before, and nothing is left
                assert [*errors[:1]] == errors, (key, value)
                assert not folder.exists(), (key, value)
                assert not Path(f"cold{number}").exists(), (key, value)
            said.append([status, *errors] if status else [])
        assert said[1] == said[2], (key, value)
        # Which takes its mappings from a store.
        assert said[0] == said[1] or key == "warm_start", (key, value)
        refused += said[0][:1] == [2]
    assert refused > 80 // step


@pytest.mark.parametrize("name", KINDS)
def test_all_that_is_wrong_is_said_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("asked.yaml").write_text(json.dumps({**right(name), "nope": 5}))
    assert call(name, "asked.yaml", "--output", "/proc/x") == 2
    error = capsys.readouterr().err
    assert "asked.yaml: nope: unknown key" in error
    assert "/proc/x: expected a place that can be written" in error
