"""Constraints in Python and in experiments, by role, and which of them together leave nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call

import mapspace as ms
from costmodel.exact.certificate import Certificate
from mapspace.strict_yaml import validate
from orchestrator.benchmark.config import Benchmark, prepare

WORK = "gemm:M=64,N=64,K=64"
STATIONARY: list[dict[str, Any]] = [
    {"target": "L2", "type": "spatial", "factors": "M<=8 N<=32"},
    {"target": "L1", "type": "temporal", "factors": "K>=16"},
]
Capture = pytest.CaptureFixture[str]


def test_in_python_as_in_a_machines_file() -> None:
    given = ms.search(WORK, constraints=STATIONARY)
    written = ms.search(WORK, {"extends": "mm256", "name": "mm256", "constraints": STATIONARY})
    assert given.proven
    assert given.costs == written.costs
    assert given.costs.edp > ms.search(WORK).costs.edp
    element = given.mapping.levels[2]
    assert element.temporal["K"] >= 16
    assert isinstance(given.certificate, Certificate)
    assert ms.verify(given).holds
    assert ms.prove(WORK, constraints=STATIONARY[:1]).costs.edp <= given.costs.edp


def test_beside_those_of_the_machine() -> None:
    machine = {"extends": "mm256", "constraints": STATIONARY[:1]}
    both = ms.search(WORK, machine, constraints=STATIONARY[1:])
    assert both.costs == ms.search(WORK, constraints=STATIONARY).costs
    with pytest.raises(ms.ConfigError, match="M: an entry before says the same of this level"):
        ms.search(WORK, machine, constraints=STATIONARY[:1])


def test_every_layer_of_a_network_obeys(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(f'layers: ["{WORK}", "gemm:M=64,N=64,K=32"]')
    free, found = (ms.search_network(file, constraints=c) for c in ((), STATIONARY))
    assert found.layers[0].result is not None
    assert found.layers[0].result.costs == ms.search(WORK, constraints=STATIONARY).costs
    assert found.totals.costs.edp > free.totals.costs.edp


def test_tensors_by_role() -> None:
    machine = {"extends": "mm256", "bypass": "searched"}
    by_role = [{"target": "L1", "type": "bypass", "keep": ["output"], "bypass": ["weight"]}]
    by_name = [{"target": "L1", "type": "bypass", "keep": ["Z"], "bypass": ["B"]}]
    found = ms.search(WORK, machine, constraints=by_role)
    assert found.costs == ms.search(WORK, machine, constraints=by_name).costs
    assert found.mapping.levels[2].keep in (("Z",), ("A", "Z"))
    exported = ms.to_timeloop(WORK, machine | {"constraints": by_role}).text
    assert yaml.safe_load(exported)["mapspace"]["constraints"][0]["keep"] == ["Z"]
    with pytest.raises(ms.ConfigError, match=r"keep: expected one of A, B, Z, input \(a role\)"):
        ms.search(WORK, constraints=[{"target": "L1", "type": "bypass", "keep": ["Q"]}])


def test_a_machine_whose_outermost_level_bypasses_takes_constraints() -> None:
    machine = {"extends": "mm256", "levels": [{"name": "DRAM", "bypass": ["weight"]}]}
    found = ms.search(WORK, machine, constraints=STATIONARY)
    assert found.mapping.levels[0].keep == ("A", "Z")


UNITS = [
    {"target": "L2", "type": "spatial", "factors": "M<=4 N<=4 K<=4"},
    {"target": "L1", "type": "parallelism", "min": 0.5},
    {"target": "DRAM", "type": "temporal", "factors": "M<=2"},
]
SPREAD = [
    {"target": "L2", "type": "spatial", "factors": "M>=32 N>=32"},
    {"target": "L1", "type": "temporal", "factors": "K<=8"},
]
TILE = [
    {"target": "L1", "type": "temporal", "factors": "M>=256 N>=256"},
    {"target": "L2", "type": "spatial", "factors": "K<=8"},
]


@pytest.mark.parametrize(
    ("entries", "conflict"),
    [
        (UNITS, "L2 spatial factors M<=4; L2 spatial factors N<=4; L2 spatial factors K<=4; "
                "L1 parallelism min 0.5."),
        (SPREAD, "L2 spatial factors M>=32; L2 spatial factors N>=32."),
        (TILE, "L1 temporal factors M>=256; L1 temporal factors N>=256."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [256, 1024])
def test_those_that_together_leave_nothing_are_named(
    entries: list[dict[str, Any]], conflict: str, size: int
) -> None:
    work = f"gemm:M={size},N={size},K=256"
    with pytest.raises(ms.ConfigError) as caught:
        ms.search(work, constraints=entries, seconds=5)
    assert re.split(" By themselves| What would", str(caught.value))[0] == (
        f"No mapping of {work} on mm256 is feasible: together these leave no feasible mapping: "
        f"{conflict}"
    )


def test_what_the_machine_itself_says_otherwise_is_named() -> None:
    entry = {"target": "L1", "type": "bypass", "keep": ["Z"], "bypass": ["A"]}
    with pytest.raises(ms.ConfigError) as caught:
        ms.search(WORK, constraints=[entry])
    assert str(caught.value) == (
        "constraints: L1 bypass keep Z, bypass A: mm256 itself keeps A there."
    )


def experiment(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "benchmark",
        "name": "narrow",
        "workloads": [WORK],
        "searchers": {"random": {}, "structured": {}},
        "seeds": 1,
        "iterations": 50,
        **changes,
    }


def test_an_experiments_spaces_obey() -> None:
    whole = validate(Benchmark, experiment(), "x")
    assert "constraints" not in whole.model_dump()
    narrow = validate(Benchmark, experiment(constraints=STATIONARY), "x")
    assert json.loads(narrow.model_dump_json())["constraints"] == STATIONARY
    spaces = [prepare(each, "x").space(WORK) for each in (whole, narrow)]
    assert spaces[0].constraints is None
    assert spaces[1].constraints.spatial[1].most[:2] == (8, 32)
    assert spaces[0].accelerator.hash != spaces[1].accelerator.hash


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"constraints": [{"target": "L9", "type": "temporal"}]}, "target: expected one of DRAM"),
        ({"constraints": [{"target": "L1"}]}, "constraints[0]: missing type"),
        ({"constraints": STATIONARY, "model": "maestro"}, "constraints: for model loopnest only"),
        ({"constraints": [{"target": "L1", "type": "temporal", "factors": "M=7"}]}, "factors of M"),
    ],
)
def test_bad_constraints_of_an_experiment_are_one_line(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "narrow.yaml"
    file.write_text(yaml.safe_dump(experiment(**changes)))
    assert call("benchmark", file, "--output", tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
