"""A request is looked at before the store: what is refused does not depend on what that knows."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from commands import call

import mapspace as ms
from orchestrator import agent_tools
from orchestrator.answers.options import NetworkOptions, SearchOptions
from orchestrator.cli import space
from orchestrator.commands.bypass import bypass
from orchestrator.commands.evaluate import evaluate
from orchestrator.commands.proofs import pareto
from orchestrator.commands.search import search as search_command
from orchestrator.commands.tile import tile
from orchestrator.search import one_workload

SMALL = "gemm:M=4,N=4,K=4"
OPEN = "mm256-bypass"
NETWORK = {"layers": [SMALL, {"workload": "gemm:M=8,N=4,K=4", "count": 2}]}
# Of every kind that an option may have, and of none.
WRONG: tuple[Any, ...] = (
    -1, 0, 3, 0.5, float("nan"), True, "nope", "", {"L9": "A"}, {"L2": "A"}, {"L1": "Weights"},
    {"L1": ("A", "A")}, ["L1"], [{"type": "temporal", "target": "L9"}],
)  # fmt: skip
# Beside each of them: what else may decide whether it is looked at.
BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"searcher": "random", "iterations": 20},
    {"islands": 2, "iterations": 20, "searcher": "random"},
)


# Of all cases every fifth by default, which meets every option and every value; all if slow.
PARTS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])


def outcome(function: Callable[[], object]) -> str:
    """Whether something is answered; if not, what is said."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


def cases(options: type, step: int) -> Iterator[tuple[str, Any]]:
    names = [name for name in inspect.get_annotations(options) if name != "store"]
    assert len(names) > 3
    for option, value in itertools.islice(itertools.product(names, WRONG), 0, None, step):
        if (option, value) != ("workers", 3):  # Ray would start
            yield option, value


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not refused searches shortly."""
    monkeypatch.setattr(one_workload, "SEARCH_SECONDS", 0.05)
    monkeypatch.setattr(one_workload, "BOUND_SECONDS", 0.05)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that knows the answers to what is asked without anything wrong."""
    store = tmp_path_factory.mktemp("store") / "warm"
    for machine, beside in itertools.product(("mm256", OPEN), BESIDE):
        ms.search(SMALL, machine, store=store, **beside)
    ms.search_network(NETWORK, store=store)
    ms.search_network(NETWORK, jointly=True, store=store)
    return store


@PARTS
@pytest.mark.parametrize(
    ("machine", "beside"), [(OPEN, {}), *(("mm256", beside) for beside in BESIDE)], ids=str
)
def test_a_search_is_refused_alike(
    machine: str, beside: dict[str, Any], step: int, warm: Path, tmp_path: Path
) -> None:
    refused = 0
    for number, (option, value) in enumerate(cases(SearchOptions, step)):
        asked = {**beside, option: value}
        new = tmp_path / str(number)
        without, cold, known = (
            outcome(lambda: ms.search(SMALL, machine, store=store, **asked))  # noqa: B023
            for store in (False, new, warm)
        )
        assert without == "answered" or not new.exists(), (option, value)
        assert cold == known, (option, value)
        # Which takes its mappings from a store.
        assert without == cold or option == "warm_start", (option, value)
        refused += without != "answered"
    assert refused > 60 // step


@PARTS
@pytest.mark.parametrize("how", [{}, {"jointly": True}, {"jointly": True, "resident": True}])
def test_a_network_is_refused_alike(
    how: dict[str, Any], step: int, warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.networks.search.is_installed", lambda library: False)
    refused = 0
    for number, (option, value) in enumerate(cases(NetworkOptions, step)):
        new = tmp_path / str(number)
        without, cold, known = (
            network_outcome(store, **how, **{option: value}) for store in (False, new, warm)
        )
        assert without.startswith("answered") or not new.exists(), (option, value)
        assert without == cold == known, (option, value)
        refused += without != "answered"
    assert refused > 60 // step


def network_outcome(store: Path | bool, **asked: Any) -> str:
    """Likewise of a network, whose layers say for themselves why they have no mapping."""
    said: list[str] = []

    def search() -> None:
        found = ms.search_network(NETWORK, store=store, **asked)
        said.extend(str(layer.failure) for layer in getattr(found, "layers", ()) if asked)

    found = outcome(search)
    return found if set(said) <= {"None"} else " ".join([found, *said])


def texts(command: click.Command) -> Iterator[tuple[str, ...]]:
    """Every option of a command, with texts of every kind where it takes one."""
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        name = option.opts[-1]
        if option.is_flag:
            yield (name,)
            continue
        for value in ("-1", "nope", "nan", "L9=A", "L1=Weights", "A,B", ""):
            yield name, value


def without(option: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments that do not say an option, which is given another value."""
    place = given.index(option) if option in given else len(given)
    return given[:place] + given[place + 2 :]


@pytest.mark.parametrize(
    ("command", "given"),
    [
        (search_command, (SMALL,)),
        (pareto, (SMALL,)),
        (bypass, (SMALL, "--accelerator", OPEN)),
        (evaluate, ("own.jsonl",)),
        (tile, (SMALL, "--model", "tiling", "--iterations", "20")),
        (space, (SMALL, "--samples", "50")),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
@PARTS
def test_a_command_is_refused_alike(
    step: int,
    command: click.Command,
    given: tuple[str, ...],
    warm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ms.search(SMALL).save(Path("own.jsonl"))
    name = str(command.name)
    assert call(name, *given, "--store", str(warm)) == 0
    capsys.readouterr()
    refused = 0
    for number, asked in enumerate(itertools.islice(texts(command), 0, None, step)):
        if asked[0] in ("--store", "--no-store", "--warm-start"):
            continue
        said = []
        for store in (("--no-store",), ("--store", f"cold{number}"), ("--store", str(warm))):
            status = call(name, *without(asked[0], given), *store, *asked)
            lines = capsys.readouterr().err.splitlines()
            error = [line for line in lines if "Error" in line]
            said.append((status, *error))
            assert status != 2 or lines == error, asked  # nothing is said before
            assert status != 2 or not Path(f"cold{number}").exists(), asked  # and nothing is left
        assert said[0] == said[1] == said[2], asked
        refused += said[0][0] == 2
    assert refused > (80 if command is search_command else 10) // step


def test_an_agent_is_refused_alike(
    warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*inspect.signature(agent_tools.search).parameters][2:]
    for number, (option, value) in enumerate(itertools.product(options, WRONG)):
        said = []
        for store in ("off", tmp_path / str(number), warm):
            monkeypatch.setenv("MAPSPACE_STORE", str(store))
            said.append(outcome(lambda: agent_tools.search(SMALL, **{option: value})))  # noqa: B023
        assert said[0] == said[1] == said[2], (option, value)
