"""`mapspace search --explain` and `ms.explain`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import answer, printed

import mapspace as ms
from costmodel.explanation.explained import DecisionAnswer, Explanation, Neighbour, ResourceAnswer
from costmodel.explanation.neighbours import Resource
from mapspace.errors import ConfigError
from orchestrator.answers.explained import ExplainedOptimum

SMALL = "gemm:M=8,N=8,K=8"
DEEP = """
levels:
- {name: DRAM, energy_pj: 200.0, read_bandwidth: 1.0}
- {name: GLB, energy_pj: 6.0, capacity_words: 32, fanout: 4}
- {name: ROW, energy_pj: 2.0, capacity_words: 12, fanout: 2}
- {name: PE, energy_pj: 1.0, capacity_words: 6}
mac_energy_pj: 1.0
"""


@pytest.fixture
def deep(tmp_path: Path) -> str:
    """A machine of four levels."""
    path = tmp_path / "deep.yaml"
    path.write_text(DEEP)
    return str(path)


@pytest.mark.parametrize("machine", ["mm256-bw", "deep"])
def test_the_answers_are_in_text_and_json(
    machine: str, deep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("search", SMALL, "--accelerator", deep if machine == "deep" else machine)
    found = answer(capsys, *arguments, "--explain")
    assert found["proven"]
    said = found["explain"]
    assert said["value"] == pytest.approx(found["edp"], rel=1e-12)
    names = [one["name"] for one in said["resources"]]
    assert "DRAM reads" in names
    for one in said["resources"]:
        assert one["active"] in (True, False)
        assert one["one_more_gains"] in (True, False)
        if one["active"]:
            assert one["step"]["change"] < 0 or one["enough"]["change"] < 0
    assert all(one["forced"] in (True, False) for one in said["decisions"])
    if machine == "deep":
        return
    text = printed(capsys, *arguments, "--explain")
    assert "by proofs of its neighbours" in text
    assert all(name in text for name in names)
    assert ("forced" in text) is any(one["forced"] for one in said["decisions"])
    assert "explain" not in answer(capsys, *arguments)


def test_the_function_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    result = ms.search(SMALL, "mm256-bw")
    found = ms.explain(result, seconds=60)
    assert isinstance(found, ms.ExplainedOptimum)
    there = answer(capsys, "search", SMALL, "--accelerator", "mm256-bw", "--explain")["explain"]
    assert {**found.to_dict(), "seconds": 0} == {**there, "seconds": 0}
    assert "L2 capacity" in repr(found)
    assert len(found.frame) == len(found.rows()) > 5
    json.dumps(found.to_dict())


def test_what_is_not_proven_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    hard = ("inception-conv2", "--accelerator", "register256", "--gap", "100%")
    found = answer(capsys, "search", *hard, "--explain")
    assert not found["proven"]
    assert "expected a proven optimum to explain, got one certainly" in found["explain"]["why"]
    assert "nothing explained: " in printed(capsys, "search", *hard, "--explain")
    result = ms.search(SMALL, searcher="random", iterations=3)
    with pytest.raises(ConfigError, match="expected a proven optimum"):
        ms.explain(result)
    with pytest.raises(ConfigError, match="seconds: expected more than 0"):
        ms.explain(ms.search(SMALL), seconds=0)


def test_bounds_and_what_is_impossible_are_said_as_such() -> None:
    nothing = Neighbour(128.0, None, float("inf"), True, None, float("inf"))
    within = Neighbour(64.0, 1.0, 0.9, False, -6.8e-16, -0.1)
    near = Neighbour(64.0, 0.75, 0.75, True, -0.25, -0.25)
    width = Resource("elements", "L2 width", 1, "width", 16.0, 1.0, only_helps=False)
    text = "\n".join(
        line
        for one, other in ((nothing, near), (within, within))
        for _, line in ExplainedOptimum(
            "p", Explanation("edp", 1.0, (ResourceAnswer(width, one, other, 16.0, False),), (),
                             (DecisionAnswer("L1 keeps Z", one),), 1.0)
        ).facts()
    )  # fmt: skip
    assert "with 64 edp -25.00 % (proven); with 128 no mapping is feasible (proven)" in text
    assert "other amounts were not looked at" in text
    assert "with 64 edp -10.00 % to 0 % (not proven)" in text
    assert "L1 keeps Z: forced, no mapping that decides otherwise is feasible" in text
    assert "inf" not in text.replace("infeasible", "")
    assert json.loads(json.dumps(nothing.to_dict()))["lower_bound"] is None


@pytest.mark.slow
def test_layers_and_lines_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every layer of a network and every line of a file, as a workload by itself."""
    network = tmp_path / "two.yaml"
    network.write_text(f"layers: ['{SMALL}', {{workload: 'gemm:M=8,N=8,K=4', count: 2}}]\n")
    found = answer(capsys, "search", "--network", network, "--explain")
    alone = answer(capsys, "search", SMALL, "--explain")["explain"]
    assert {**found["layers"][0]["explain"], "seconds": 0} == {**alone, "seconds": 0}
    assert found["layers"][1]["explain"]["resources"]
    text = printed(capsys, "search", "--network", network, "--explain")
    assert text.count("by proofs of its neighbours") == 2
    lines = tmp_path / "lines.jsonl"
    record = ms.search(SMALL, "eyeriss").record
    line = json.dumps({key: record[key] for key in ("arch", "problem")})
    lines.write_text(f"{line}\n")
    said = answer(capsys, "search", "--problems", lines, "--explain", "--searcher", "exact")
    assert "explain" in said
    assert "explain" not in answer(capsys, "search", "--network", network)["layers"][0]
