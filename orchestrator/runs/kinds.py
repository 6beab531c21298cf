"""The kinds of run: what an experiment file's `kind` names, and which of them a folder is of."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from mapspace import plugins
from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError
from mapspace.storage import Place
from orchestrator.runs.experiments import shipped_experiments
from orchestrator.runs.folder_kind import FolderKind

KINDS = plugins.Registry(
    "kind",
    plugins.KINDS,
    {
        "benchmark": "orchestrator.benchmark.run:BenchmarkExperiment",
        "sweep": "orchestrator.sweep.run:SweepExperiment",
        "design": "orchestrator.design.run:DesignExperiment",
        "marvel": "orchestrator.marvel.run:MarvelExperiment",
        "generate": "orchestrator.training.generate:GenerateExperiment",
        "train": "orchestrator.training.train:TrainExperiment",
        "train-machines": "orchestrator.training.machines:MachinesExperiment",
        "training-study": "orchestrator.training.study:StudyExperiment",
    },
)
"""Where the class of each kind is. It is imported when it is needed."""

TASKS = ("pandas", "pyarrow", "ray")
LEARNING = (*TASKS, "safetensors", "torch")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "train": LEARNING,
    "train-machines": LEARNING,
    "training-study": LEARNING,
}
"""Libraries that a kind's runs import; of the others `TASKS`."""


def kind_names() -> list[str]:
    """The names of all kinds."""
    return list(KINDS)


def kind(name: str) -> type[FolderKind]:
    """The class of a kind, as far as a folder shows it.

    Raises:
        ConfigError: there is none of that name, or its plug-in cannot be imported.
    """
    found: type[FolderKind] = KINDS.load(name, FolderKind, subclass=True)
    return found


def kind_in(folder: Place) -> str | None:
    """The name of the kind of which a run has begun in a folder; None where none has."""
    return next((name for name in kind_names() if (folder / kind(name).file).exists()), None)


def require_own(folder: Place, own: type[FolderKind]) -> None:
    """Refuses a folder in which another kind of run has begun.

    Raises:
        ConfigError: one line that says what the folder holds.
    """
    if not folder.exists():
        return  # before a second of imports: all kinds
    for found in map(kind, kind_names()):
        if found is not own and (folder / found.file).exists():
            raise ConfigError(
                f"{folder}: holds {found.words} ({found.file}), expected an empty folder or "
                f"{own.words}; choose another --output."
            )


def why_no_report(folder: Place) -> str:
    """Why there is no report of a folder without a finished benchmark, and what to do."""
    if not folder.is_dir():
        return f"{folder}: there is no such folder."
    name = kind_in(folder)
    if name is None:
        return f"{folder}: holds no finished benchmark (no summary.json), nor a folder that does."
    found = kind(name)
    if not found.page:
        return f"{folder}: holds {found.words}, of which there is no report."
    if (folder / found.page).exists():
        return f"{folder}: holds {found.words}, whose page is {folder / found.page}."
    return (
        f"{folder}: holds {found.words} that is not finished; continue it with: mapspace "
        f"{found.command} {_experiment(folder / found.file)} --output {shlex.quote(str(folder))}"
    )


def _experiment(identity: Place) -> str:
    """The shipped experiment that a folder's run has the name of."""
    try:
        there = read_json(identity)
        name = there.get("experiment", there)["name"]
    except (ValueError, LookupError, TypeError, AttributeError):
        return "EXPERIMENT"
    return str(name) if name in shipped_experiments() else "EXPERIMENT"
