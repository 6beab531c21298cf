"""The table of known optima: every entry is proven again, exactly."""

from __future__ import annotations

from typing import Any

import pytest
from paths import ROOT

from costmodel import MapSpace, accelerator, known_optimum, workload
from costmodel.exact_any.choice import prove
from mapspace.strict_yaml import load_yaml

ENTRIES = load_yaml(ROOT / "costmodel" / "presets" / "optima.yaml")["optima"]
# Where bandwidths count and tensors may bypass levels, the largest problems take up to a minute.
LARGE = ("vgg-conv2", "inception-conv2", "inception-conv2-c64")


def cases() -> list[Any]:
    found = []
    for entry in ENTRIES:
        name, machine = entry["workload"], entry["accelerator"]
        slow = machine == "mm256-bw-bypass" and name in LARGE
        marks = [pytest.mark.slow] if slow else []
        found.append(pytest.param(entry, id=f"{name}-{machine}", marks=marks))
    return found


@pytest.mark.parametrize("entry", cases())
def test_an_entry_is_the_optimum(entry: dict[str, Any]) -> None:
    space = MapSpace(workload(entry["workload"]), accelerator(entry["accelerator"]))
    assert entry["workload_hash"] == space.workload.hash
    assert entry["accelerator_hash"] == space.accelerator.hash
    certificate = prove(space)
    assert certificate.proven
    # Entries are the nearest float to a fraction; energies of proofs are sums of floats.
    assert certificate.value == pytest.approx(entry["edp"], rel=1e-12)
    assert known_optimum(space.workload, space.accelerator) == entry["edp"]


def test_every_problem_is_there_once() -> None:
    problems = [(entry["workload"], entry["accelerator"]) for entry in ENTRIES]
    names, machines = ({problem[part] for problem in problems} for part in (0, 1))
    assert len(problems) == len(set(problems)) == len(names) * len(machines) == 50
