"""How the run in a folder stands, for a page and for scripts: read from its files alone."""

from __future__ import annotations

from typing import Any

from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import Place, folders
from orchestrator.runs.kinds import kind, kind_in
from orchestrator.runs.progress_file import read_progress

# Runs that a folder of several shows at most.
MOST_RUNS = 32


def check_folder(folder: Place) -> None:
    """Refuses what is no folder.

    Raises:
        ConfigError: there is none.
    """
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "there is no such folder"
        raise ConfigError(f"{folder}: {what}; expected a run folder, such as runs/NAME.")


def folder_state(folder: Place) -> dict[str, Any]:
    """How the runs of a folder stand: its own, and those in the folders directly in it.

    Returns:
        JSON types: `folder` and `runs`, each as `run_state` has it.
    """
    runs = []
    own = run_state(folder, "")
    if own is not None:
        runs.append(own)
    for name in _folders(folder)[: MOST_RUNS if own is None else 0]:
        found = run_state(folder / name, name)
        if found is not None:
            runs.append(found)
    return {"folder": str(folder), "runs": runs}


def run_state(folder: Place, path: str) -> dict[str, Any] | None:
    """How the run in a folder stands; None where there is none.

    Returns:
        What `runs.progress_file.Progress` has, and `path` (from the folder that is watched),
        `words` (what the kind is), `page` (what it ends with, once it is there), `silent` (for how
        many seconds a run that should be running has said nothing, or null), and `problem` (why
        nothing is known, or empty; then all but these and `status: unknown` is left out).
    """
    there = {"path": path, "words": "a run", "page": None, "silent": None, "problem": ""}
    name, damaged, progress = None, None, None
    try:
        progress = read_progress(folder)
    except MapspaceError as error:
        damaged = error
    try:
        if progress is not None and progress.status == "running":
            # Nothing of its kind is imported: that takes seconds beside other work.
            there["words"] = f"a run, {progress.kind}"
        else:
            name = kind_in(folder)
        if name is not None:
            found = kind(name)
            there["words"] = found.words
            if found.page and (folder / found.page).exists():
                there["page"] = str(folder / found.page)
        if damaged is not None:
            raise damaged
    except MapspaceError as error:
        return {**there, "status": "unknown", "problem": str(error)}
    if progress is not None:
        shown = progress.model_dump(mode="json")
        silent = progress.silent()
        return {**shown, **there, "silent": None if silent is None else round(silent)}
    if name is None:
        return None
    problem = "The run was made by a version that did not note how it stands."
    return {**there, "status": "unknown", "problem": problem}


def _folders(folder: Place) -> list[str]:
    try:
        return [name for name in folders(folder) if not name.startswith(".")]
    except (MapspaceError, OSError):
        return []
