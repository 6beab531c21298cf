"""What each rule of a map space costs: by hand on one array, by enumeration on a small machine."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from commands import answer, call

import mapspace as ms
from orchestrator.report.units import percent
from orchestrator.search.widening import cost_of, rules_of

ROW = {
    "name": "row",
    "clock_ghz": 1.0,
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0, "fanout": 16, "mesh": [4, 4]},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 4096},
    ],
}


def test_a_dimension_along_both_axes_by_hand() -> None:
    # 80 steps of one dimension on 4 x 4 elements: 20 cycles along one axis, 5 along both.
    result = ms.search("gemm:M=80,N=1,K=1", ROW, objective="latency", store=False)
    assert result.costs.latency_cycles == 20
    found = ms.widen(result, seconds=30, store=False)
    of = {one.rule.name: one for one in found.wider}
    assert of["axes"].value == 5
    assert of["axes"].at_least == of["axes"].at_most == 3.0
    assert of["axes"].proven
    assert "one -> both" in found.text()
    assert "costs 300.00 % (proven)" in found.text()
    assert (of["bypass"].value, of["bypass"].text()) == (20, "costs nothing")
    assert of["all but factors"].value == 5


def test_bypass_is_worth_what_the_best_of_every_kept_set_says() -> None:
    kept = {"extends": "tiny3", "bypass": "none"}
    result = ms.search("gemm:M=4,N=1,K=4", kept, objective="energy", store=False)
    found = ms.widen(result, seconds=60, store=False)
    one = next(one for one in found.wider if one.rule.name == "bypass")
    machine = result.accelerator.model_copy(update={"bypass": "searched"})
    space = ms.MapSpace(result.workload, machine)
    counts = [range(int(count)) for count in space.cardinality]
    assert math.prod(map(len, counts)) < 4_000_000
    least, model = math.inf, ms.LoopNestModel()
    every = itertools.product(*counts)
    while chunk := list(itertools.islice(every, 200_000)):
        codes = np.array(chunk, np.int32)
        codes = codes[space.feasible(codes)]
        if len(codes):
            least = min(least, float(model.evaluate(space, codes).energy_pj.min()))
    assert one.value == pytest.approx(least, rel=1e-11)
    assert one.proven
    assert one.at_least == pytest.approx(result.costs.energy_pj / least - 1)


def test_rules_that_are_lifted_already_are_none() -> None:
    wide = {"extends": "mm256", "bypass": "searched", "tiles": "apart"}
    assert [rule.name for rule in rules_of(ms.accelerator(wide))] == ["factors"]
    names = [rule.name for rule in rules_of(ms.accelerator("mm256"), restricted=True)]
    assert names == ["factors", "tiles", "bypass", "all but factors"]


def test_what_excludes_nothing_costs_nothing_and_what_cannot_be_lifted_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rule = {"target": "L1", "type": "temporal", "factors": "M<=1"}
    machine = tmp_path / "row.yaml"
    machine.write_text(json.dumps(ROW | {"constraints": [rule]}))
    words = ("search", "gemm:M=16,N=1,K=1", "--accelerator", machine, "--objective", "latency")
    found = answer(capsys, *words, "--widen", "--seconds", "20", "--no-store")["widen"]
    of = {one["rule"]: one for one in found["rules"]}
    assert of["constraints"] == {
        "rule": "constraints", "lifted": "1 -> none", "value": 4.0, "proven": True,
        "at_least": 0.0, "at_most": 0.0, "why": None,
    }  # fmt: skip
    assert of["factors"]["value"] is None
    assert "factors: perfect beside them" in of["factors"]["why"]
    assert not found["interrupted"]


def test_it_is_for_a_single_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", "--network", "alexnet", "--widen") == 2
    assert "--widen is for a single WORKLOAD" in capsys.readouterr().err


def test_what_one_rule_gains_all_of_them_gain() -> None:
    # So little time that the wider space by itself is not searched as far.
    result = ms.search("gemm:M=80,N=1,K=1", ROW, objective="latency", store=False)
    rules = {rule.name: rule for rule in rules_of(result.accelerator)}
    assert rules["axes"].part_of(rules["all but factors"])
    assert not rules["factors"].part_of(rules["all but factors"])
    overall = dataclasses.replace(result.overall, lower_bound=4.0)
    wide = dataclasses.replace(result, overall=overall)
    found = cost_of(rules["all but factors"], result, wide, 5.0)
    assert (found.value, found.at_least, found.at_most) == (5.0, 3.0, 4.0)
    assert found.text() == "at least 300.00 %, at most 400.00 %"
    # Of a narrow space whose optimum may lie at 15 less is certain.
    overall = dataclasses.replace(result.overall, lower_bound=15.0)
    unsure = dataclasses.replace(result, overall=overall)
    found = cost_of(rules["all but factors"], unsure, wide, 5.0)
    assert (found.value, found.at_least, found.at_most) == (5.0, 2.0, 4.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_are_refused(seconds: float) -> None:
    result = ms.search("gemm:M=4,N=4,K=4", "mm256", store=False)
    with pytest.raises(ms.ConfigError, match="seconds: expected more than 0"):
        ms.widen(result, seconds=seconds, store=False)
    with pytest.raises(ms.ConfigError, match="seconds: expected more than 0"):
        ms.why_not(result, result, seconds=seconds)


def test_large_shares_are_whole_per_cents() -> None:
    assert [percent(share) for share in (42.1234, 4.2, 1e9, math.inf)] == [
        "4,212 %", "420.00 %", "1e+11 %", "inf %",
    ]  # fmt: skip
