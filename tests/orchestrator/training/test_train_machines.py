"""A surrogate for machines is trained by a command, for one's own among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import call

from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from orchestrator.training.machines import MachinesConfig, MachinesExperiment
from surrogate.for_space import predictor
from surrogate.machines import HELD_OUT, case


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "experiment.yaml"
    path.write_text(json.dumps({**MachinesExperiment.quick, **changes}))
    return path


@pytest.mark.slow
def test_it_is_trained_by_a_command_and_searches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, experiment = tmp_path / "run", written(tmp_path)
    assert call("train", str(experiment), "--output", str(run)) == 0
    assert "your machines      2" in capsys.readouterr().out
    card = MachinesExperiment(MachinesConfig(**MachinesExperiment.quick)).load(run)
    assert card.cases == 12
    assert card.given is not None
    weights = (run / "machines.safetensors").read_bytes()
    # Finished: read, not trained again; of another seed: refused.
    assert call("train", str(experiment), "--output", str(run)) == 0
    assert (run / "machines.safetensors").read_bytes() == weights
    assert call("train", str(written(tmp_path, seed=1)), "--output", str(run)) == 2
    assert "holds another training run" in capsys.readouterr().err
    space = MapSpace(workload("gemm-512"), accelerator("mm256-bw"))
    assert predictor(space, str(run)).card.sha256 == card.sha256
    with pytest.raises(ConfigError, match="2 to 4 memory levels"):
        predictor(MapSpace(workload("gemm-512"), accelerator("simba")), str(run))


def test_a_machine_out_of_range_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = written(tmp_path, accelerators=["simba"])
    assert call("train", str(experiment), "--output", str(tmp_path / "run")) == 2
    assert "accelerators: no surrogate for simba: it knows 2 to 4" in capsys.readouterr().err


def test_given_machines_take_turns_with_the_same_layers() -> None:
    given = [accelerator("mm256"), accelerator("eyeriss")]
    for index in HELD_OUT[:4]:
        assert case(index, given).accelerator.hash == given[index % 2].hash
        assert case(index, given).workload == case(index).workload
