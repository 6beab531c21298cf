"""`ray up` on three machines of this host, where they are permitted."""

from __future__ import annotations

import subprocess
import sys

import pytest
from paths import ROOT


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ray_up_brings_three_machines_up_and_takes_them_down() -> None:
    trial = ROOT / "tests" / "cluster" / "ray_up_trial.py"
    done = subprocess.run([sys.executable, trial], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"machines are not permitted here: {done.stdout}{done.stderr}")
    assert done.returncode == 0, done.stdout
