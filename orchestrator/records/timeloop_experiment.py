"""Experiments of Timeloop's files: their machine and problem in place of those that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.storage import Place, write_atomically
from mapspace.strict_yaml import load_yaml
from orchestrator.records.timeloop_files import read_files
from orchestrator.runs.experiments import find_experiment
from orchestrator.runs.locations import RUNS


def experiment_of(
    source: str, files: Sequence[str], output: Place | None, *, lenient: bool
) -> tuple[str, Place]:
    """Writes an experiment, and the files that it names, beside its run folder.

    Args:
        source: the experiment, a YAML file or a shipped one's name.
        files: Timeloop's.
        output: the run folder; None: runs/NAME.
        lenient: whether to leave out what is not modelled.

    Returns:
        The experiment that was written, and its run folder.

    Raises:
        ConfigError: files that cannot be read, or a run folder that is no path.
    """
    content = load_yaml(find_experiment(source))
    work, machine = read_files(files, lenient=lenient).problem()
    name = str(content.get("name") or Path(source).stem)
    folder = RUNS / name if output is None else output
    if not isinstance(folder, Path):
        raise ConfigError(f"--output: of Timeloop's files a run lies in a folder, got {folder}.")
    beside = folder.parent / f"{folder.name}.timeloop"
    beside.mkdir(parents=True, exist_ok=True)
    device, layer = (beside / f"{what}.yaml" for what in ("machine", "workload"))
    _write(device, machine_content(machine))
    _write(layer, workload_content(work))
    machines: dict[str, Any] = {
        key: str(device) for key in ("base", "accelerator") if key in content
    }
    if "accelerators" in content or not machines:
        machines["accelerators"] = [str(device)]
    written = beside / f"{name}.yaml"
    _write(written, {**content, **machines, "workloads": [str(layer)]})
    return str(written), folder


def machine_content(machine: Accelerator) -> dict[str, Any]:
    """What a machine's file holds."""
    content: dict[str, Any] = machine.model_dump(mode="json", exclude_defaults=True)
    return content


def workload_content(work: Workload) -> dict[str, Any]:
    """What a workload's file holds, as dimensions and tensors."""
    return {
        "name": work.name,
        "dimensions": dict(work.dimensions),
        "tensors": {tensor.name: [str(axis) for axis in tensor.axes] for tensor in work.tensors},
        "output": work.tensor_names[-1],
        "roles": {name: role for name, role in work.roles.items() if role == "weight"},
    }


def _write(file: Path, content: dict[str, Any]) -> None:
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
    write_atomically(file, text.encode())
