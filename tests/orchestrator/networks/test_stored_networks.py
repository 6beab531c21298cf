"""What was proven of a whole network is answered from the store, and is the same answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from commands import answer, call, printed
from test_limited_resident import bounded_pair

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from costmodel.loop_nest.records import mapping_record
from orchestrator.networks import search_jointly, search_resident, stored_networks
from orchestrator.networks.jointly import Jointly
from orchestrator.networks.limited import Limited
from orchestrator.networks.resident_result import ResidentOptimum
from orchestrator.store import folder
from orchestrator.store.compaction import compact
from orchestrator.store.folder import CERTIFICATES, NEW, ROWS, Store
from orchestrator.store.rows import Row

NETWORK: dict[str, Any] = {
    "name": "block",
    "layers": [
        {"name": "up", "gemm": {"M": 4, "N": 6, "K": 2}, "count": 3},
        {
            "name": "down",
            "gemm": {"M": 4, "N": 2, "K": 6},
            "count": 3,
            "input": "up",
            "between": "softmax",
        },
        {"name": "last", "gemm": {"M": 8, "N": 4, "K": 2}, "count": 3},
    ],
}
ROLES = {"X": "input", "Y": "weight"}
TENSORS = {"Y": ["red", "right"], "X": ["left", "red"], "Z": ["left", "right"]}
# The same under other names, with dimensions and tensors in another order.
OTHER: dict[str, Any] = {
    "name": "same",
    "layers": [
        {
            "name": "one",
            "dimensions": {"red": 2, "left": 4, "right": 6},
            "tensors": TENSORS,
            "output": "Z",
            "roles": ROLES,
            "count": 3,
        },
        {
            "name": "two",
            "dimensions": {"right": 2, "red": 6, "left": 4},
            "tensors": TENSORS,
            "output": "Z",
            "roles": ROLES,
            "count": 3,
            "input": "one",
            "between": "softmax",
        },
        {"name": "three", "gemm": {"M": 8, "N": 4, "K": 2}, "count": 3},
    ],
}
PAIR: dict[str, Any] = {
    "name": "pair",
    "layers": [
        {"name": "up", "gemm": {"M": 4, "N": 4, "K": 2}, "count": 3},
        {"name": "down", "gemm": {"M": 4, "N": 2, "K": 4}, "count": 3, "input": "up"},
    ],
}
RESIDENT: dict[str, Any] = {"resident": True}
FUSED: dict[str, Any] = {"resident": True, "fused": True, "moves": True}
# A negative limit is so many cycles below the least energy's: what is best then needs fronts.
WAYS: dict[str, dict[str, Any]] = {
    "ed2p": {"objective": "ed2p"},
    "moves": {"moves": True},
    "limited": {"objective": "energy", "moves": True, "max_cycles": -1},
    "resident": RESIDENT,
    "resident and limited": {**RESIDENT, "objective": "energy", "max_cycles": -1},
    "fused": FUSED,
    "fused and limited": {**FUSED, "objective": "energy", "max_cycles": -1, "network": PAIR},
}
Search = Callable[..., Any]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Objectives of what was really proven."""
    found: list[str] = []
    for kind in (Jointly, Limited):
        real = kind.run

        def run(self: Any, real: Any = real) -> Any:
            found.append(self.objective)
            return real(self)

        monkeypatch.setattr(kind, "run", run)
    return found


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """Asks for a network's optimum with a store, on a machine whose bandwidths matter."""
    device = bounded_pair(tmp_path)[1]

    def found(network: Any = NETWORK, machine: Any = device, **options: Any) -> Any:
        most = options.get("max_cycles")
        if most is not None and most < 0:
            free = {**options, "max_cycles": None, "store": False}
            least = ms.search_network(network, str(machine), jointly=True, **free)
            options["max_cycles"] = int(least.costs.latency_cycles) + most
        options = {"store": tmp_path / "store", **options}
        return ms.search_network(network, str(machine), jointly=True, **options)

    return found


def content(result: Any) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key != "from_store"}


def saved(result: Any, file: Path) -> tuple[bytes, bytes]:
    result.save(file)
    return file.read_bytes(), file.with_suffix(".certificate.json").read_bytes()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("together", [False, True])
def test_the_second_answer_is_the_first(
    way: str, together: bool, tmp_path: Path, search: Search, runs: list[str]
) -> None:
    options = WAYS[way]
    if "limited" in way and "resident" not in options:
        options = {**options, "machine": "tiny4"}
    first = search(**options)
    assert first.proven
    assert first.certificate.fronts == ("limited" in way)
    if together:
        compact(Store(tmp_path / "store"))
        assert not [*(tmp_path / "store" / NEW).rglob("*.json")]
        assert [*(tmp_path / "store" / ROWS).iterdir()]
    options = {**options, "max_cycles": None if first.limit is None else first.limit.cycles}
    before = len(runs)
    second = search(**options)
    assert len(runs) == before, "nothing is proven twice"
    assert (first.from_store, second.from_store) == (False, True)
    assert content(second) == content(first)
    assert second.to_dict()["from_store"] is True
    assert str(tmp_path / "store") in str(second.stored)
    assert second.picture() == f"{first.picture()}\nfrom the store  {second.stored}"
    assert saved(second, tmp_path / "b.jsonl") == saved(first, tmp_path / "a.jsonl")
    assert ms.verify(tmp_path / "b.certificate.json").holds
    if isinstance(second, ResidentOptimum):
        assert second.ran == first.ran
    third = search(**options, store=False)
    assert not third.from_store
    assert len(runs) > before


@pytest.mark.parametrize("way", ["moves", "resident", "resident and limited"])
def test_the_same_network_under_other_names(way: str, search: Search, runs: list[str]) -> None:
    first = search(**WAYS[way])
    options = {**WAYS[way], "max_cycles": None if first.limit is None else first.limit.cycles}
    before = len(runs)
    other = search(OTHER, **options)
    assert other.from_store
    assert len(runs) == before
    assert other.network == "same"
    assert other.costs == first.costs
    assert {row["workload"] for row in other.rows()} == {"one", "two", "three"}
    anew = search(OTHER, **options, store=False)
    for theirs, ours in zip(other.records, anew.records, strict=False):
        assert theirs["problem"] == ours["problem"]
    assert ms.verify(other).holds


def test_names_count_where_layers_may_be_tiled_together(
    tmp_path: Path, search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed_machine = tmp_path / "renamed.yaml"
    said = json.loads(bounded_pair(tmp_path)[1].read_text())
    renamed_machine.write_text(json.dumps({"name": "renamed", **said}))
    first = search(**FUSED)
    assert any(ran.fused for ran in first.ran)
    capsys.readouterr()
    assert not search(OTHER, **FUSED).from_store
    assert "store: " not in capsys.readouterr().err
    renamed = search({**NETWORK, "name": "renamed"}, renamed_machine, **FUSED)
    assert renamed.from_store
    assert renamed.network == "renamed"
    assert renamed.accelerator.name == "renamed"
    assert content(renamed)["layers"] == content(first)["layers"]
    anew = search({**NETWORK, "name": "renamed"}, renamed_machine, **FUSED, store=False)
    assert renamed.records == anew.records
    assert ms.verify(renamed).holds


def changed(place: int, **changes: Any) -> dict[str, Any]:
    layers = [dict(layer) for layer in NETWORK["layers"]]
    layers[place] |= changes
    return {**NETWORK, "layers": layers}


@pytest.mark.parametrize(
    "changes",
    [
        {"network": changed(2, count=2)},
        {"network": changed(2, gemm={"M": 8, "N": 2, "K": 2})},
        {"network": {**NETWORK, "layers": [NETWORK["layers"][place] for place in (2, 0, 1)]}},
        {"network": changed(1, between="activation")},
        {"network": changed(0, until="last")},
        {"objective": "energy"},
        {"objective": "energy", "max_cycles": 10**6},
        {"objective": "latency", "max_energy_pj": 1e9},
        {"moves": True},
        {"fused": True},
        {"resident": False},
        {"machine": "tiny4"},
    ],
    ids=str,
)
def test_what_changes_the_answer_changes_the_question(
    changes: dict[str, Any], search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    search(**RESIDENT)
    asked = {**RESIDENT, **changes}
    assert not search(**asked).from_store
    assert search(**asked).from_store
    assert search(**RESIDENT).from_store
    assert "store: " not in capsys.readouterr().err, "no row is refused: it is not asked for"


def test_another_version_is_another_question(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    search()
    monkeypatch.setattr(stored_networks, "RULES", stored_networks.RULES + 1)
    assert not search().from_store
    monkeypatch.undo()
    assert search().from_store
    monkeypatch.setattr("costmodel.loop_nest.model.LoopNestModel.version", "next")
    assert not search().from_store


def rows_of(place: Path) -> list[tuple[Path, Row]]:
    store = Store(place)
    found = [
        (store.file(path), row)
        for question in (place / NEW).iterdir()
        for path, row in store.single(question.name)
    ]
    return sorted(found, key=lambda entry: entry[1].stored)


@pytest.mark.parametrize("options", [{}, RESIDENT, FUSED], ids=str)
def test_what_is_damaged_is_named_and_proven_anew(
    options: dict[str, Any], tmp_path: Path, search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    search(**options)
    ((file, row),) = rows_of(place)
    certificate = place / CERTIFICATES / str(row.certificate)
    for damaged in (certificate, file):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-20])
        for path in {*(place / NEW).rglob("*.json")} - {file}:
            path.unlink()
        capsys.readouterr()
        assert not search(**options).from_store
        (line,) = (line for line in capsys.readouterr().err.splitlines() if "anew" in line)
        assert damaged.name in line
        damaged.write_bytes(whole)
    assert search(**options).from_store


def test_a_damaged_parquet_file_is_named_and_proven_anew(
    tmp_path: Path, search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    search(**RESIDENT)
    compact(Store(tmp_path / "store"))
    (file,) = (tmp_path / "store" / ROWS).iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    capsys.readouterr()
    assert not search(**RESIDENT).from_store
    assert str(file) in capsys.readouterr().err


@pytest.mark.parametrize("options", [{}, RESIDENT], ids=str)
@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ({"objective": "energy"}, "another objective or limit"),
        ({"machine": "tiny4"}, "another machine"),
        ({"network": changed(2, count=2)}, "another network"),
        ({"moves": True}, "other operators"),
        ({"lies": ("latency_cycles", lambda cycles: cycles - 1)}, "in all they take"),
        ({"lies": ("lower_bound", lambda bound: bound + "0")}, "the lines say"),
        ({"lies": ("network", lambda _: 7)}, "network"),
    ],
    ids=["objective", "machine", "layers", "operators", "cycles", "bound", "name"],
)
def test_a_row_with_the_certificate_of_something_else_is_no_answer(
    options: dict[str, Any],
    other: dict[str, Any],
    wrong: str,
    tmp_path: Path,
    search: Search,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "store"
    search(**options)
    ((file, row),) = rows_of(place)
    file.unlink()
    if "lies" in other:
        key, change = other["lies"]
        said = json.loads((place / CERTIFICATES / str(row.certificate)).read_text())
        said[key] = change(said[key])
        text = json.dumps(said)
    else:
        foreign = search(**{**options, **other}, store=tmp_path / "other")
        text = foreign.certificate.text()
    name = f"{folder.content_id(text.encode())}.json"
    Store(place).add([row.model_copy(update={"certificate": name})], [text])
    capsys.readouterr()
    assert not search(**options).from_store
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "anew" in line)
    assert wrong in line
    assert search(**options).from_store, "what was proven anew answers, beside the other row"


@pytest.mark.parametrize("options", [{}, RESIDENT], ids=str)
def test_an_infeasible_mapping_is_no_answer_and_no_proof(
    options: dict[str, Any],
    tmp_path: Path,
    search: Search,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "store"
    options = {
        **options,
        "machine": "tiny4",
        "network": changed(2, gemm={"M": 64, "N": 64, "K": 9}),
    }
    found = search(**options)
    ((file, row),) = rows_of(place)
    file.unlink()
    said = json.loads(found.certificate.text())
    last = said["steps" if options.get("resident") else "layers"][-1]
    space = MapSpace(workload("gemm:M=64,N=64,K=9"), accelerator("tiny4"))
    codes = space.sample(np.random.default_rng(0), 500, feasible=False)
    wrong = mapping_record(space, codes[~space.feasible(codes)][0])
    last["record"]["mapping"] = wrong["mapping"]
    text = json.dumps(said)
    name = f"{folder.content_id(text.encode())}.json"
    Store(place).add([row.model_copy(update={"certificate": name})], [text])
    capsys.readouterr()
    assert not search(**options).from_store
    assert "last: its mapping is not feasible" in capsys.readouterr().err
    forged = tmp_path / "forged.certificate.json"
    forged.write_text(text)
    assert call("verify", forged) == 1
    assert "WRONG: last: its mapping is not feasible" in capsys.readouterr().out


@contextmanager
def _at_once() -> Iterator[threading.Event]:
    event = threading.Event()
    event.set()
    yield event


@pytest.mark.parametrize("options", [{}, RESIDENT, FUSED], ids=str)
def test_what_is_cut_off_is_kept_where_it_is_settled_alone(
    options: dict[str, Any], search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (search_jointly, search_resident):
        monkeypatch.setattr(module, "interruptible", _at_once)
    # Of this network the first line is open when the first proofs have been looked at.
    hard = {**options, "network": "resnet50", "machine": "mm256-bw", "seconds": 20.0}
    if not options:
        assert search(**hard).interrupted
        assert not search(**hard).from_store
    first = search(**options, gap=1.0)
    assert first.interrupted
    again = search(**options, gap=1.0)
    assert again.from_store
    assert not again.interrupted


def test_a_row_serves_if_all_of_it_is_settled_or_had_the_budget(
    tmp_path: Path, search: Search
) -> None:
    place = tmp_path / "store"
    search(**RESIDENT, seconds=20.0)
    ((file, row),) = rows_of(place)
    file.unlink()
    found = search(**RESIDENT, store=False)
    shown = (row.value, row.energy_pj, row.latency_cycles, row.lower_bound, row.gap, row.proven)
    costs = found.costs
    told = (costs.edp, costs.energy_pj, costs.latency_cycles, found.lower_bound, 0.0, True)
    assert shown == pytest.approx(told, rel=1e-12)
    kept = json.loads(row.payload)

    def from_store(asked: dict[str, Any], alone: float = 0.0, **changes: Any) -> bool:
        kept["beside"]["alone"]["gap"] = alone
        told = row.model_copy(update={"payload": json.dumps(kept), **changes})
        Store(place).add([told])
        found = bool(search(**RESIDENT, **asked).from_store)
        for path in (place / NEW).rglob("*.json"):
            path.unlink()
        return found

    open_: dict[str, Any] = {"proven": False, "gap": 0.3}
    assert from_store({"seconds": 30.0})
    assert not from_store({"seconds": 30.0}, **open_)
    assert from_store({"seconds": 20.0}, **open_)
    assert from_store({"seconds": 10.0}, **open_)
    assert not from_store({"seconds": 10.0}, **open_, budget_gap=0.1)
    assert from_store({"seconds": 10.0, "gap": 0.1}, **open_, budget_gap=0.1)
    assert from_store({"seconds": 30.0, "gap": 0.3}, **open_)
    # What it is held against has to be as certain.
    assert not from_store({"seconds": 30.0}, alone=0.2)
    assert from_store({"seconds": 30.0, "gap": 0.2}, alone=0.2)
    assert from_store({"seconds": 20.0}, alone=0.2)


def test_on_the_command_line_and_for_a_second_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, output = tmp_path / "store", tmp_path / "found.jsonl"
    file = tmp_path / "network.yaml"
    file.write_text(json.dumps(NETWORK))
    monkeypatch.setenv("MAPSPACE_STORE", str(place))
    asked = ("search", "--network", file, "--accelerator", "tiny4", "--jointly")
    assert answer(capsys, *asked)["from_store"] is False
    assert answer(capsys, *asked)["from_store"] is True
    assert answer(capsys, *asked, "--no-store")["from_store"] is False
    assert answer(capsys, *asked, "--resident")["from_store"] is False
    assert f"from the store  {place}, found on" in printed(capsys, *asked, "--resident")
    assert call(*asked, "--output", output) == 0
    assert f"answered from the store: {place}, found on" in capsys.readouterr().err
    # A process of its own, in a home of its own, with the same store; machine code is no answer.
    (tmp_path / "home").mkdir()
    code = platformdirs.user_cache_dir()
    alone = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": code}
    again = subprocess.run(
        [sys.executable, "-m", "orchestrator", *map(str, asked), "--output", "again.jsonl"],
        cwd=tmp_path, env=alone, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "answered from the store" in again.stderr
    for name in ("{}.jsonl", "{}.certificate.json"):
        files = [(tmp_path / name.format(which)).read_bytes() for which in ("found", "again")]
        assert files[0] == files[1]
    assert call("verify", tmp_path / "again.certificate.json") == 0
    capsys.readouterr()
    shown = answer(capsys, "results", "SELECT kind, method, workload, proven, gap FROM proofs")
    assert sorted((row.pop("method"), row) for row in shown) == [
        (method, {"kind": "network", "workload": "block", "proven": True, "gap": 0.0})
        for method in ("jointly", "resident")
    ]
    assert len(answer(capsys, "results", "--workload", "block", "--kind", "network")) == 2
    assert answer(capsys, "results", "rm", "--method", "jointly")["removed"] == 1
    assert answer(capsys, "results", "gc")["removed"] == 1
    assert answer(capsys, *asked, "--resident")["from_store"] is True
    assert answer(capsys, *asked)["from_store"] is False


def test_a_warm_start_passes_over_networks(
    tmp_path: Path, search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    search(machine="tiny4")
    ms.search("gemm:M=8,N=8,K=2", "tiny4", store=place)
    capsys.readouterr()
    found = ms.search(
        "gemm:M=8,N=4,K=2", "tiny4", searcher="genetic", iterations=50, warm_start=True,
        store=place,
    )  # fmt: skip
    assert found.begins is not None
    assert [winner.workload for winner in found.begins] == ["gemm:M=8,N=8,K=2"]
    assert "cannot be used" not in capsys.readouterr().err
