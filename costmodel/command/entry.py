"""The entries of users' own simulators in the table of cost models: command lines and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.cost_model_entry import CostModelEntry, RecordScorer
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml, validate

if TYPE_CHECKING:
    from costmodel.command.model import CommandModel
    from costmodel.command.own_model import OwnModel
    from costmodel.command.python_model import PythonModel
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.workloads import Workload
    from costmodel.space import Codes

# Mappings at once under a budget of time: a simulator may take seconds for each.
_LARGEST_BATCH = 16


def read_settings(measurement: Mapping[str, Any], objective: str | None = None) -> dict[str, Any]:
    """A simulator's settings in full: `simulator: FILE` is replaced by what the file says.

    Args:
        measurement: the settings, or the name of their file.
        objective: what is to be minimised; None: nothing yet.

    Raises:
        ConfigError: the file cannot be read, a setting is wrong (its key is named), or the
            objective needs a cost that is not read.
    """
    from costmodel.command.settings import Simulator
    from costmodel.command.templates import Templates

    where, content, folder = _given(measurement)
    simulator = validate(Simulator, content, where)
    Templates(simulator)
    if objective is not None and objective not in simulator.objectives:
        raise ConfigError(
            f"{where}: costs: {objective} needs energy_pj and latency_cycles, got "
            f"{' and '.join(simulator.costs)}; objectives: {', '.join(simulator.objectives)}."
        )
    run = tuple(_found(word, folder, simulator.files) for word in simulator.run)
    simulator = simulator.model_copy(update={"run": run})
    return simulator.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _given(measurement: Mapping[str, Any]) -> tuple[str, dict[str, Any], Path]:
    """What messages start with, the settings, and the folder that paths in them are of."""
    content = dict(measurement)
    if "simulator" not in content:
        return "measurement", content, Path()
    where = str(content.pop("simulator"))
    if content:
        raise ConfigError(f"measurement: {min(content)} stands beside simulator: {where}.")
    return where, load_yaml(where), Path(where).parent


def _found(word: str, folder: Path, written: Mapping[str, str]) -> str:
    """A word of the command; a file beside the settings by its path, as runs are elsewhere."""
    file = folder / word
    return str(file.resolve()) if word not in written and file.is_file() else word


def _space(workload: Workload, accelerator: Accelerator) -> MapSpace:
    from costmodel.map_space.map_space import MapSpace

    return MapSpace(workload, accelerator)


def _model(_: Accelerator, measurement: Mapping[str, Any]) -> CommandModel:
    return _made(measurement)


def _made(measurement: Mapping[str, Any]) -> CommandModel:
    from costmodel.command.model import CommandModel
    from costmodel.command.settings import Simulator

    return CommandModel(validate(Simulator, read_settings(measurement), "measurement"))


def read_python(measurement: Mapping[str, Any], objective: str | None = None) -> dict[str, Any]:
    """The settings of a Python callable in full; a file's path is made whole.

    Args:
        measurement: the settings, or `simulator: FILE` with them.
        objective: as in `read_settings`.

    Raises:
        ConfigError: as `read_settings`.
    """
    from costmodel.command.python_model import PythonSimulator, split

    where, content, folder = _given(measurement)
    simulator = validate(PythonSimulator, content, where)
    module, attribute = split(simulator.call)
    if module.endswith(".py"):
        file = folder / module
        if not file.is_file():
            raise ConfigError(f"{where}: call: there is no file {file}.")
        simulator = simulator.model_copy(update={"call": f"{file.resolve()}:{attribute}"})
    if (objective in ("edp", "ed2p") and len(simulator.costs) < 2) or (
        len(simulator.costs) == 1
        and objective in ("energy", "latency")
        and not simulator.costs[0].startswith(objective)
    ):
        raise ConfigError(f"{where}: costs: {objective} needs more than {simulator.costs[0]}.")
    return simulator.model_dump(mode="json", exclude_defaults=True)


def _python_model(_: Accelerator, measurement: Mapping[str, Any]) -> PythonModel:
    return _python(measurement)


def _python(measurement: Mapping[str, Any]) -> PythonModel:
    from costmodel.command.python_model import PythonModel, PythonSimulator

    return PythonModel(validate(PythonSimulator, read_python(measurement), "measurement"))


def named_simulator(simulator: str | Path) -> tuple[str, dict[str, Any]]:
    """The cost model and its settings of what `--simulator` says.

    Args:
        simulator: a YAML file with `run` or with `call`, `module:attribute`, or
            `FILE.py:attribute`.

    Raises:
        ConfigError: it is none of these.
    """
    simulator = str(simulator)
    if not simulator.endswith((".yaml", ".yml", ".json")) and ":" in simulator:
        return "python", read_python({"call": simulator})
    content = load_yaml(simulator)
    if isinstance(content, Mapping) and "call" in content:
        return "python", read_python({"simulator": simulator})
    return "command", read_settings({"simulator": simulator})


def _model_for_records(simulator: str = "") -> OwnModel:
    if not simulator:
        raise ConfigError(
            "Model command needs --simulator FILE.yaml, which says how it is called, or "
            "module:attribute."
        )
    name, settings = named_simulator(simulator)
    return _made(settings) if name == "command" else _python(settings)


def _score(records: Sequence[dict[str, Any]], model: OwnModel) -> list[dict[str, Any]]:
    from costmodel.loop_nest.record_forms import as_nest, whole_records

    found = []
    for index, (record, whole) in enumerate(zip(records, whole_records(records), strict=True)):
        try:
            answer = model.score(as_nest(whole))
        except ConfigError as error:
            raise ConfigError(f"record {index}: {error}") from None
        if answer.values is None:
            result: dict[str, Any] = {"valid": False, "why": answer.why or "infeasible"}
        else:
            named = zip(("energy_pj", "latency_cycles"), answer.values, strict=True)
            read = {key: value for key, value in named if key in model.reads}
            result = {("cycles" if k == "latency_cycles" else k): v for k, v in read.items()}
        found.append(record | {"result": result})
    return found


def _record(space: MapSpace, code: Codes, _: Accelerator) -> dict[str, Any]:
    from costmodel.command.own_model import record_of

    return record_of(space, code)


COMMAND = CostModelEntry(
    description="Your own simulator: a command that is run for every mapping (docs/own-model.md).",
    accelerator="mm256",
    space=_space,
    model=_model,
    settings=read_settings,
    measured=True,
    largest_batch=_LARGEST_BATCH,
    records=RecordScorer(_model_for_records, _score, ("simulator",)),
    record=_record,
)

PYTHON = replace(
    COMMAND,
    description="Your own simulator in Python: a function or a class (docs/own-model.md).",
    model=_python_model,
    settings=read_python,
)
