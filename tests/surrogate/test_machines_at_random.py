"""The cases that the machine-conditioned surrogate is held to: fixed before it was trained."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from surrogate.machines import CALIBRATION, HELD_OUT, HELD_OUT_DEEPER, TRAINING, case

# Of the workloads and machines of all held-out cases, as they were before the first training.
DIGEST = "a2bd5632c97c17c41e602173f0fbf93ae8772ae6a6f401acf12979527551bba9"


def test_the_held_out_cases_are_those_of_before_the_first_training() -> None:
    digest = hashlib.sha256()
    for index in (*HELD_OUT, *HELD_OUT_DEEPER):
        found = case(index)
        digest.update(f"{index} {found.workload.name} {found.accelerator.hash}\n".encode())
    assert digest.hexdigest() == DIGEST


def test_none_of_them_is_trained_on() -> None:
    held_out = {*HELD_OUT, *HELD_OUT_DEEPER}
    assert not held_out & {*TRAINING, *CALIBRATION}
    assert not set(TRAINING) & set(CALIBRATION)
    assert {len(case(index).accelerator.levels) for index in HELD_OUT} == {3}
    assert {len(case(index).accelerator.levels) for index in HELD_OUT_DEEPER} == {2, 4}
    machines = {case(index).accelerator.hash for index in held_out}
    assert machines.isdisjoint(case(index).accelerator.hash for index in TRAINING[:200])


@pytest.mark.parametrize("index", [0, 1, HELD_OUT[0], HELD_OUT_DEEPER[0]])
def test_a_case_has_feasible_mappings(index: int) -> None:
    found = case(index)
    space = MapSpace(found.workload, found.accelerator)
    codes = space.sample(np.random.default_rng(0), 20, feasible=True)
    assert LoopNestModel().evaluate(space, codes).ok.all()
