"""One dataflow serves operations of several kinds; machines that extend files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.machines.accelerators import constrained
from costmodel.machines.constraint_entries import Constraint
from costmodel.map_space.meant_entries import meant, serving
from mapspace.errors import ConfigError

CONV = workload("cnn:N=1,K=8,C=4,P=6,Q=6,R=3,S=3")
GEMM = workload("gemm:M=8,N=8,K=16")
ENTRIES = [
    {"target": "L2", "type": "temporal", "stationary": "weight"},
    {"target": "L2", "type": "spatial", "factors": "M<=8 K<=8 C<=4", "permutation": "KC_M"},
    {"target": "L1", "type": "bypass", "keep": ["weight"]},
]


def texts(machine: Any, layer: Any) -> list[dict[str, Any]]:
    return [entry.model_dump(exclude={"target", "type"}) for entry in meant(machine, layer)]


def test_each_layer_takes_what_it_has() -> None:
    machine = serving(constrained(accelerator("mm256"), ENTRIES), [CONV, GEMM])
    assert texts(machine.constraints, CONV) == [
        {"permutation": "N P Q _"},
        {"factors": ("K<=8", "C<=4"), "permutation": "K C _"},
        {"keep": ("weight",)},
    ]
    assert texts(machine.constraints, GEMM) == [
        {"permutation": "M _"},
        {"factors": ("M<=8", "K<=8"), "permutation": "K _ M"},
        {"keep": ("weight",)},
    ]
    for layer, across in ((CONV, {"K": 8, "C": 4}), (GEMM, {"M": 8, "K": 8})):
        space = MapSpace(layer, machine)
        for code in space.sample(np.random.default_rng(0), 20, feasible=True):
            spatial = space.describe(code).levels[1].spatial
            assert all(spatial[name] <= most for name, most in across.items())


def test_stationary_is_the_order_that_it_stands_for() -> None:
    sizes = []
    for said in ({"stationary": "weight"}, {"stationary": "Weights"}, {"permutation": "NPQ_"}):
        entry = {"target": "L2", "type": "temporal", **said}
        space = MapSpace(CONV, accelerator("mm256"), [entry])
        assert space.constraints is not None
        sizes.append((space.constraints, space.size()))
    assert sizes[0] == sizes[1] == sizes[2]
    # An operation without weights is free.
    plain = workload({"dimensions": {"I": 4, "J": 4}, "tensors": {"A": ["I"], "Z": ["J"]},
                      "output": "Z"})  # fmt: skip
    assert texts([Constraint.model_validate(ENTRIES[0])], plain) == [{}]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"stationary": "wieght"}, "constraints.0..stationary: expected one of input, weight, "),
        ({"stationary": "weight", "permutation": "N_"}, "stationary: permutation says the order"),
        ({"factors": "X=2", "others": ["C"]}, "constraints.0..factors: .*the operation has no X"),
    ],
)
def test_names_that_nothing_has_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MapSpace(GEMM, accelerator("mm256"), [{"target": "L2", "type": "temporal", **entry}])


def test_what_no_layer_has_is_refused_in_a_network() -> None:
    machine = constrained(
        accelerator("mm256"), [ENTRIES[1] | {"factors": "X<=2", "permutation": "_"}]
    )
    with pytest.raises(ConfigError, match="the operation has no X"):
        MapSpace(GEMM, serving(machine, [CONV, GEMM]))
    assert serving(machine, [GEMM]) is machine


def test_a_machine_extends_a_file(tmp_path: Path) -> None:
    (tmp_path / "chip.yaml").write_text("extends: mm256\nclock_ghz: 2\n")
    (tmp_path / "own.yaml").write_text(
        "extends: chip.yaml\nlevels: [{name: L2, capacity_words: 1024}]\n"
    )
    machine = accelerator(tmp_path / "own.yaml")
    assert (machine.name, machine.clock_ghz, machine.levels[1].capacity_words) == ("own", 2, 1024)
    (tmp_path / "chip.yaml").write_text("extends: own.yaml\n")
    with pytest.raises(ConfigError, match="extends itself"):
        accelerator(tmp_path / "own.yaml")
    (tmp_path / "chip.yaml").write_text("levels: [{name: L2}]\n")
    with pytest.raises(ConfigError, match=r"chip\.yaml: "):
        accelerator(tmp_path / "own.yaml")
    with pytest.raises(ConfigError, match=r"got 'eyeris'\. Did you mean eyeriss"):
        accelerator({"extends": "eyeris"})
