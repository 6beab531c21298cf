"""`mapspace explain`, `diff` and `search --why-not`: what they say, and what they refuse."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call, printed
from paths import GOLDEN

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError
from orchestrator.explain.difference import differences
from orchestrator.explain.read_mapping import read_mapping
from orchestrator.explain.record_explanation import explain_mapping

OWN = """
workload: gemm:M=4,N=2,K=2
accelerator: {machine}
mapping:
- {{level: DRAM, temporal: [[K, 2], [M, 2]]}}
- {{level: {first}, spatial: [[N, 2]]}}
- {{level: {second}, temporal: [[M, 2]]}}
"""
TINY = """
levels:
- {name: DRAM, energy_pj: 200.0, read_bandwidth: 1.0}
- {name: GLB, energy_pj: 6.0, capacity_words: 32, fanout: 4}
- {name: PE, energy_pj: 1.0, capacity_words: 14}
mac_energy_pj: 1.0
"""


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


@pytest.fixture
def own(tmp_path: Path, machine: str) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(OWN.format(machine=machine, first="GLB", second="PE"))
    return str(path)


def test_energies_add_up_and_say_their_loops(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "explain", own)
    parts = sum(one["energy_pj"] for one in found["transfers"])
    assert parts + found["mac_energy_pj"] == pytest.approx(found["energy_pj"], rel=1e-12)
    shares = [one["energy_pj"] for one in found["transfers"]]
    assert shares == sorted(shares, reverse=True)
    (weights,) = (
        one for one in found["transfers"] if (one["level"], one["tensor"]) == ("DRAM", "B")
    )
    assert weights["times"] == 1
    assert weights["accesses_per_word"] == 1
    (output,) = (
        one for one in found["transfers"] if (one["level"], one["tensor"]) == ("DRAM", "Z")
    )
    # Z[M, N] goes up twice, as K stands outside of M, and comes down once.
    assert output["again"] == [{"level": "DRAM", "dimension": "K", "factor": 2}]
    assert output["accesses_per_word"] == 3
    text = printed(capsys, "explain", own)
    assert "to GLB 2 times, for K 2 of DRAM" in text
    assert "limited by" in text


def test_the_best_move_is_the_best_of_all_neighbours(own: str) -> None:
    found = explain_mapping(read_mapping(ms.evaluate(own)[0]), "edp")
    space, code = found.read.space, found.read.code
    near = space.neighbours(code)
    losses = LoopNestModel().evaluate(space, near).edp
    before = LoopNestModel().evaluate(space, code[None]).edp[0]
    assert found.best_move.moves == len(near)
    assert found.best_move.change == pytest.approx(losses.min() / before - 1)
    assert found.best_move.better
    assert found.best_move.differences


def test_an_optimum_has_no_better_move(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / "best.jsonl"
    call("search", "gemm:M=4,N=2,K=2", "--accelerator", machine, "--output", best)
    found = answer(capsys, "explain", best)
    assert found["best_move"]["feasible"] > 0
    assert not found["best_move"]["better"]
    assert "none has a lower edp" in printed(capsys, "explain", best)


def test_what_a_kept_decision_costs_is_the_best_of_all_mappings_that_keep_it(
    own: str, machine: str
) -> None:
    result = ms.search("gemm:M=4,N=2,K=2", machine)
    found = ms.why_not(result, own, seconds=30)
    space = MapSpace(result.workload, result.accelerator)
    codes = np.array(list(itertools.product(*map(range, space.cardinality))), np.int32)
    codes = codes[space.feasible(codes)]
    losses = LoopNestModel().evaluate(space, codes).edp
    mine = found.read.mapping
    assert found.above == pytest.approx(
        losses.min() and found.read.evaluated.edp[0] / losses.min() - 1
    )
    differing = [{(d.level, d.what) for d in differences(mine, space.describe(c))} for c in codes]
    for one in found.decisions:
        assert one.kept.proven, one
        kept = {(one.decision.level, one.decision.what)}
        if one.decision.what == "order":
            kept.add((one.decision.level, "loops"))
        wanted = losses[[not kept & others for others in differing]].min() / losses.min() - 1
        assert one.kept.change == pytest.approx(wanted, abs=1e-9), one
    assert len(found.decisions) >= 3
    least = [one.kept.change_at_least for one in found.decisions]
    assert least == sorted(least, reverse=True)


def test_why_not_is_in_text_and_json(
    own: str, machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("search", "gemm:M=4,N=2,K=2", "--accelerator", machine, "--why-not", own)
    found = answer(capsys, *arguments)
    assert found["why_not"]["above"] == pytest.approx(found["why_not"]["edp"] / found["edp"] - 1)
    assert found["why_not"]["decisions"][0]["kept"]["proven"]
    text = printed(capsys, *arguments)
    assert "above the proven optimum" in text
    assert "(proven)" in text.partition("your mapping")[2]
    assert "why_not" not in answer(capsys, *arguments[:-2])


def test_what_is_not_proven_is_called_no_optimum(own: str, machine: str) -> None:
    """Against a poor mapping decisions of one's own gain, and are shown so."""
    result = ms.search("gemm:M=4,N=2,K=2", machine, searcher="random", iterations=1, seed=3)
    found = ms.why_not(result, own, seconds=30)
    assert not result.proven
    assert any((one.kept.change or 0) < 0 for one in found.decisions)
    text = found.text()
    assert "(best found: " in text
    assert "optimum" not in text
    assert ": -" in text
    assert "+-" not in text


def test_the_difference_of_two_mappings(
    own: str, machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / "best.jsonl"
    call("search", "gemm:M=4,N=2,K=2", "--accelerator", machine, "--output", best)
    found = answer(capsys, "diff", own, best)
    first, second = found["first"]["energy_pj"], found["second"]["energy_pj"]
    assert sum(one["change_pj"] for one in found["energy"]) == pytest.approx(second - first)
    assert found["change"]["energy_pj"] == pytest.approx(second / first - 1)
    assert found["decisions"]
    assert answer(capsys, "diff", own, own)["decisions"] == []
    assert "decisions       the same" in printed(capsys, "diff", own, own)
    other = answer(capsys, "diff", own, _other_machine(own, tmp_path))
    assert [one["what"] for one in other["decisions"]] == ["levels"]


def _other_machine(own: str, tmp_path: Path) -> str:
    path = tmp_path / "other.yaml"
    path.write_text(OWN.format(machine="mm256", first="L2", second="L1"))
    assert path != Path(own)
    return str(path)


def test_every_form_of_golden_records_is_explained() -> None:
    """Whole nests of machines that no preset is, and the first form: energies are Timeloop's."""
    seen, refused = 0, set()
    for file in sorted(GOLDEN.glob("timeloop*/*.jsonl*")):
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
            records = [json.loads(line) for line in itertools.islice(lines, 3)]
        for record in records:
            wanted = record.get("result", {})
            if "energy_pj" not in wanted or "links" in file.name:
                continue
            try:
                found = explain_mapping(read_mapping(record))
            except ConfigError as error:
                refused.add(re.sub(r"got .*", "", str(error)))
                continue
            assert found.read.energy_pj == pytest.approx(wanted["energy_pj"], rel=1e-9)
            assert found.read.cycles == wanted["cycles"]
            json.dumps(found.to_dict())
            seen += 1
    assert seen > 20
    assert {why.partition(":")[0] for why in refused} <= {"mapping", "problem", "problem.tensors"}
    assert not any("multiply to" in why for why in refused)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("workload: gemm-512\nmapping: []\n", "own.yaml: record 1: missing arch"),
        (
            OWN.format(machine="mm256", first="L2", second="L1").replace("[N, 2]", "[M, 2]"),
            "the factors of M multiply to 8",
        ),
    ],
)
def test_bad_records_are_refused_in_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content)
    assert call("explain", path) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_other_operations_and_machines_are_refused(
    own: str, machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: Any) -> str:
        """What is said of it, before anything else is done."""
        store = tmp_path / "store"
        asked = ("--accelerator", machine, "--store", store, "--why-not")
        assert call("search", *arguments[:-1], *asked, arguments[-1]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert not store.exists()
        return said

    small = "gemm:M=4,N=2,K=2"
    said = refused("gemm:M=4,N=2,K=8", own)
    assert "expected two mappings of one operation, got K = 2 and 8" in said
    assert "expected the levels DRAM, GLB, PE" in refused(small, _other_machine(own, tmp_path))
    assert "--why-not is for a single WORKLOAD" in refused("--network", "alexnet", own)
    assert "not with pad" in refused(small, "--pad", own)
