"""A search that was made once is answered from the store, and is the same answer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call, printed
from test_store_folder import row_of
from whole_spaces import golden

import mapspace as ms
from costmodel.exact.certificate import certify
from costmodel.exact_any.choice import make_prover, prove
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from orchestrator.answers.request import Request
from orchestrator.answers.results import SearchResult
from orchestrator.bypass.compare import compare_bypass
from orchestrator.proofs.pareto import front_text
from orchestrator.search import one_workload
from orchestrator.store.folder import CERTIFICATES, MARKER, NEW, Store
from orchestrator.store.proofs import keep_proof, read_proofs

GEMM = "gemm:M=12,N=8,K=6"
# One operation under two sets of names, in two orders.
FIRST = {
    "name": "first",
    "dimensions": {"m": 12, "n": 8, "k": 6},
    "tensors": {"A": ["m", "k"], "B": ["k", "n"], "C": ["m", "n"]},
    "output": "C",
}
OTHER = {
    "name": "other",
    "dimensions": {"red": 6, "left": 12, "right": 8},
    "tensors": {"Y": ["red", "right"], "X": ["left", "red"], "Z": ["left", "right"]},
    "output": "Z",
}
RANDOM: dict[str, Any] = {"searcher": "random"}
# What differs between an answer and the same answer from the store.
OF_NOW = {"wall_seconds", "from_store"}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the workloads that were really searched."""
    names: list[str] = []
    real = one_workload._search_now

    def search(asked: Any, *further: Any) -> SearchResult:
        names.append(asked.space.workload.name)
        return real(asked, *further)

    monkeypatch.setattr(one_workload, "_search_now", search)
    return names


def content(result: SearchResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key not in OF_NOW}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top": 3},
        {"objective": "latency"},
        {"accelerator": "mm256-bypass", "keep": {"L1": ["A", "Z"]}},
        {"accelerator": "tiny3"},
        {"accelerator": "eyeriss", "seconds": 20.0},
        {"searcher": "random", "iterations": 300, "seed": 4},
        {"searcher": "structured", "seconds": 0.2},
        {"factors": "imperfect", "searcher": "genetic", "iterations": 200},
    ],
    ids=str,
)
def test_the_second_answer_is_the_first(
    tmp_path: Path, searched: list[str], options: dict[str, Any]
) -> None:
    if "keep" in options:
        names = workload(GEMM).tensor_names
        options = {**options, "keep": {"L1": [names[0], names[-1]]}}
    first = ms.search(GEMM, **options, store=tmp_path)
    second = ms.search(GEMM, **options, store=tmp_path)
    assert len(searched) == 1
    assert (first.from_store, second.from_store) == (False, True)
    assert content(second) == content(first)
    assert second.to_dict()["from_store"] is True
    assert str(tmp_path) in str(second.stored)
    assert second.certificate == first.certificate
    assert second.mapping == first.mapping
    for name, value in vars(first.trial).items():
        assert np.array_equal(getattr(second.trial, name), value), name
    ms.search(GEMM, **options, store=False)
    assert len(searched) == 2


def test_the_same_operation_under_other_names(tmp_path: Path, searched: list[str]) -> None:
    first = ms.search(FIRST, "mm256-bypass", store=tmp_path)
    other = ms.search(OTHER, "mm256-bypass", store=tmp_path)
    assert other.from_store
    assert len(searched) == 1
    assert other.workload == workload(OTHER)
    assert other.costs == first.costs
    anew = ms.search(OTHER, "mm256-bypass", store=False)
    assert anew.costs == first.costs
    assert other.problem_hash == anew.problem_hash
    assert other.record["problem"] == anew.record["problem"]
    # The certificate is of the problem as it was asked, and holds.
    assert other.certificate is not None
    assert other.certificate.workload == other.workload
    assert ms.verify(other).holds


ROW = {"proven": False, "gap": 0.3, "budget_seconds": 4.0}


def test_the_same_machine_under_another_name(tmp_path: Path, searched: list[str]) -> None:
    """The answer is in the words of who asks: certificate and record name that machine."""
    one, two = (accelerator("mm256").model_copy(update={"name": name}) for name in ("one", "two"))
    first = ms.search("gemm:M=8,N=6,K=4", one, store=tmp_path)
    again = ms.search("gemm:M=8,N=6,K=4", two, store=tmp_path)
    assert len(searched) == 1
    assert again.from_store
    for found, name in ((first, "one"), (again, "two")):
        assert found.certificate is not None
        assert found.certificate.accelerator.name == name
        assert found.certificate.record["arch_name"] == found.record["arch_name"] == name
        assert ms.verify(found).holds


@pytest.mark.parametrize(
    ("asked_for", "stored", "serves"),
    [
        ({"seconds": 4.0}, {}, True),
        ({"seconds": 2.0}, {}, True),
        ({"seconds": 5.0}, {}, False),
        ({"seconds": 5.0}, {"proven": True}, True),
        ({"seconds": 5.0}, {"budget_seconds": None}, True),
        ({"seconds": math.inf}, {}, False),
        ({"seconds": math.inf}, {"budget_seconds": None}, True),
        # A proof may take a minute unless told otherwise.
        ({}, {}, False),
        ({}, {"budget_seconds": 60.0}, True),
        # It may have stopped because so much was enough.
        ({"seconds": 4.0}, {"budget_gap": 0.1}, False),
        ({"seconds": 4.0, "gap": 0.1}, {"budget_gap": 0.1}, True),
        ({"seconds": 9.0, "gap": 0.3}, {}, True),
        ({"seconds": 9.0, "gap": 0.2}, {}, False),
        ({"iterations": 9}, {"budget_seconds": None, "budget_iterations": 9}, True),
        ({"iterations": 8}, {"budget_seconds": None, "budget_iterations": 9}, True),
        ({"iterations": 10}, {"budget_seconds": None, "budget_iterations": 9}, False),
        ({"seconds": 4.0}, {"budget_iterations": 9}, False),
        # Of other searchers the seed decides what so many iterations find.
        (RANDOM | {"iterations": 9}, {"budget_seconds": None, "budget_iterations": 9}, True),
        (RANDOM | {"iterations": 8}, {"budget_seconds": None, "budget_iterations": 9}, False),
        (
            RANDOM | {"iterations": 8},
            {"proven": True, "budget_seconds": None, "budget_iterations": 9},
            False,
        ),
        (
            RANDOM | {"iterations": 9},
            {"budget_seconds": None, "budget_iterations": 9, "workload_hash": "of others"},
            False,
        ),
        (RANDOM | {"seconds": 3.0}, {"workload_hash": "of others"}, True),
        (RANDOM | {"seconds": 5.0}, {}, False),
    ],
)
def test_a_row_serves_if_it_is_proven_or_had_the_budget(
    asked_for: dict[str, Any], stored: dict[str, Any], serves: bool
) -> None:
    found = workload(GEMM)
    request = Request(GEMM, **asked_for)
    row = row_of(0, **{"workload_hash": found.hash, **ROW, **stored})
    assert one_workload.asked_of(request, found, request.device).is_served_by(row) == serves


def test_a_gap_that_is_enough(tmp_path: Path, searched: list[str]) -> None:
    first = ms.search(GEMM, gap=0.5, store=tmp_path)
    assert ms.search(GEMM, gap=0.5, store=tmp_path).from_store
    again = ms.search(GEMM, gap=0.0, store=tmp_path)
    assert again.from_store == first.proven
    assert ms.search(GEMM, gap=0.9, store=tmp_path).from_store


def test_what_was_interrupted_is_kept_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = one_workload._search_now

    def interrupted(*arguments: Any) -> SearchResult:
        return replace(real(*arguments), interrupted=True)

    monkeypatch.setattr(one_workload, "_search_now", interrupted)
    options = {"searcher": "random", "iterations": 50, "store": tmp_path}
    assert not ms.search("resnet-conv4", **options).from_store
    assert not ms.search("resnet-conv4", **options).from_store


def test_what_is_damaged_is_named_and_searched_anew(
    tmp_path: Path, searched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ms.search(GEMM, store=tmp_path)
    (row,) = (tmp_path / NEW).rglob("*.json")
    (certificate,) = (tmp_path / CERTIFICATES).iterdir()
    for damaged in (certificate, row):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-20])
        for path in {*(tmp_path / NEW).rglob("*.json")} - {row}:
            path.unlink()
        capsys.readouterr()
        assert not ms.search(GEMM, store=tmp_path).from_store
        (line,) = (line for line in capsys.readouterr().err.splitlines() if "anew" in line)
        assert damaged.name in line
    assert len(searched) == 3


def test_a_row_that_lies_about_its_value_is_no_answer(
    tmp_path: Path, searched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ms.search(GEMM, store=tmp_path)
    store = Store(tmp_path)
    (path,) = (tmp_path / NEW).rglob("*.json")
    (_, row), *_ = store.single(path.parent.name)
    path.unlink()
    assert row.value is not None
    store.add([row.model_copy(update={"value": row.value / 2})])
    assert not ms.search(GEMM, store=tmp_path).from_store
    assert "computed anew" in capsys.readouterr().err


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAPSPACE_STORE", str(tmp_path / "store"))
    assert answer(capsys, "search", GEMM)["from_store"] is False
    assert answer(capsys, "search", GEMM)["from_store"] is True
    shown = printed(capsys, "search", GEMM, "--output", tmp_path / "best.jsonl")
    assert f"from the store  {tmp_path / 'store'}, found on" in shown
    printed(capsys, "verify", tmp_path / "best.certificate.json")
    assert answer(capsys, "search", GEMM, "--no-store")["from_store"] is False
    assert answer(capsys, "search", GEMM, "--store", tmp_path / "new")["from_store"] is False
    (tmp_path / "store" / MARKER).write_text('{"format": "mapspace-store-9"}')
    for arguments in (("search", GEMM), ("search", GEMM, "--no-store", "--store", "x")):
        capsys.readouterr()
        assert call(*arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_front_under_two_sets_of_names(tmp_path: Path) -> None:
    first = ms.pareto(FIRST, "mm256-bypass", store=tmp_path)
    second = ms.pareto(FIRST, "mm256-bypass", store=tmp_path)
    other = ms.pareto(OTHER, "mm256-bypass", store=tmp_path)
    assert (first.from_store, second.from_store, other.from_store) == (False, True, True)
    assert second.rows() == first.rows()
    assert [point.costs for point in other.points] == [point.costs for point in first.points]
    anew = ms.pareto(OTHER, "mm256-bypass", store=False)
    for theirs, ours in zip(other.records, anew.records, strict=True):
        assert theirs["problem"] == ours["problem"]
    assert second.to_dict()["from_store"] is True
    assert "from the store" in front_text(second)


def test_every_layer_of_a_network(tmp_path: Path, searched: list[str]) -> None:
    file = tmp_path / "network.yaml"
    layers = ("gemm:M=8,N=4,K=6", "gemm:M=12,N=4,K=6")
    file.write_text("layers:\n" + "".join(f"  - {layer}\n" for layer in layers))
    store = tmp_path / "store"
    ms.search(layers[0], store=store)
    first = ms.search_network(file, store=store)
    assert len(searched) == 2
    second = ms.search_network(file, store=store)
    assert len(searched) == 2
    assert [row["from_store"] for row in first.rows()] == [True, False]
    assert (first.from_store, second.from_store) == (False, True)
    assert second.to_dict()["from_store"] is True
    assert second.totals == first.totals


def test_every_line_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = golden("mapspaces")[:2] + golden("constraints")[:1]
    file = tmp_path / "problems.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ("search", "--problems", file, "--json", "--store", tmp_path / "store")
    found = [
        [json.loads(line) for line in printed(capsys, *command).splitlines()] for _ in range(2)
    ]
    assert [line["from_store"] for line in found[0]] == [False] * 3
    assert [line["from_store"] for line in found[1]] == [True] * 3
    for first, second in zip(*found, strict=True):
        assert {k: v for k, v in first.items() if k not in OF_NOW} == {
            k: v for k, v in second.items() if k not in OF_NOW
        }


def test_a_proof_and_a_search_answer_for_each_other(tmp_path: Path, searched: list[str]) -> None:
    work, machine = workload("gemm:M=24,N=8,K=6"), accelerator("mm256-bypass")
    space = MapSpace(work, machine)
    proven = prove(space)
    store = Store(tmp_path)
    keep_proof(space, proven, 60.0, store)
    found = ms.search(work, machine, store=store)
    assert found.from_store
    assert searched == []
    assert found.proven
    assert found.certificate == proven
    assert found.iterations == 0
    assert ms.verify(found).holds
    other = workload("gemm:M=20,N=8,K=6")
    result = ms.search(other, machine, store=store)
    asked = [(other, machine, "edp"), (work, machine, "edp"), (work, machine, "energy")]
    assert list(read_proofs(asked, 60.0, store)) == [result.certificate, proven, None]
    # What a search among the mappings that keep something has proven is no proof of all.
    keep = {"L1": [work.tensor_names[0]]}
    ms.search(work, machine, objective="energy", keep=keep, store=store)
    assert list(read_proofs(asked[2:], 60.0, store)) == [None]


def test_what_bypass_is_worth(tmp_path: Path) -> None:
    def compared(store: Path) -> dict[str, Any]:
        found = compare_bypass(
            "gemm:M=24,N=8,K=6", "mm256", network=False, seconds=20.0, store=Store(store)
        ).to_dict()
        found.pop("seconds")
        return found

    ms.search("gemm:M=24,N=8,K=6", "mm256-bypass", store=tmp_path)
    first, second = compared(tmp_path), compared(tmp_path)
    (layer,) = first["layers"]
    assert (layer["kept"]["from_store"], layer["searched"]["from_store"]) == (False, True)
    assert (first["from_store"], second["from_store"]) == (False, True)
    for name in ("kept", "searched"):
        assert (
            second["layers"][0][name].pop("record")["mapping"]
            == layer[name].pop("record")["mapping"]
        )
    assert second["totals"] == first["totals"]


def test_an_unfinished_proof_serves_who_had_no_more_time(tmp_path: Path) -> None:
    work, machine = workload("resnet-conv4"), accelerator("mm256-bypass")
    space, store = MapSpace(work, machine), Store(tmp_path)
    prover = make_prover(space)
    prover.offer(space.sample(np.random.default_rng(0), 9, feasible=True))
    unfinished = certify(prover, 1.0)
    assert not unfinished.proven
    keep_proof(space, unfinished, 1.0, store)
    asked = [(work, machine, "edp")]
    assert list(read_proofs(asked, 60.0, store)) == [None]
    assert list(read_proofs(asked, 1.0, store)) == [unfinished]
