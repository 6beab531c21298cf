"""What `generate`, `train`, `benchmark`, `sweep` and `report` come to, for any kind of run."""

from __future__ import annotations

import time
from pathlib import Path

from mapspace.errors import ConfigError, noted, refuse, together
from mapspace.extras import install, is_installed, require
from mapspace.storage import Place, check_writable
from mapspace.strict_yaml import load_yaml
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.runs.kinds import NEEDS, TASKS, kind, kind_in, kind_names, require_own
from orchestrator.runs.limits import Limits
from orchestrator.runs.locations import RUNS
from orchestrator.runs.mlflow_client import OWN_STORE
from orchestrator.runs.run_folder import Say, experiment_of, say
from orchestrator.schemas.runs import RunAnswer
from orchestrator.store.folder import Store


def run_experiment(
    source: str,
    output: Place | None = None,
    *,
    command: str,
    resume: bool = True,
    tracking_uri: str | None = None,
    store: Store | None = None,
    limits: Limits | None = None,
    echo: Say = print,
) -> RunAnswer:
    """Runs or continues an experiment of any kind, draws its page and logs it to MLflow.

    Args:
        source: a YAML file, its URI or a shipped experiment's name.
        output: the run folder; None: runs/NAME.
        command: what the kind has to belong to, such as benchmark.
        resume: continue what lies in the folder; else it must not exist.
        tracking_uri: MLflow; None: the folder's own store, for kinds that keep one.
        store: where what was computed before is read, and new things are kept; None: nowhere.
        limits: what this call may take; None: whatever it needs.
        echo: takes the summary and the closing lines.

    Returns:
        Where everything is.

    Raises:
        ConfigError: the experiment is wrong or of another command, or the folder holds something
            else, or another run writes to it.
        MapspaceError: the run failed, or MLflow cannot be reached.
    """
    started = time.monotonic()
    path = find_experiment(source)
    named = load_yaml(path).get("kind")
    names = kind_names()
    needed = NEEDS.get(str(named), TASKS) + (("mlflow",) if tracking_uri else ())
    try:
        found = experiment_of(named) if named in names else None
    except ModuleNotFoundError:
        require(needed)  # all that is missing at once
        raise
    if found is None or found.command != command:
        known = " or ".join(name for name in names if kind(name).command == command)
        hint = "" if found is None else f": that is run by `mapspace {found.command}`"
        raise ConfigError(f"{path}: kind: expected {known}, got {named!r}{hint}.")
    wrong: list[ConfigError] = []
    config = noted(wrong, lambda: load_experiment(path, found.config), None)
    libraries = () if config is None else found.libraries(config)
    together(
        lambda: refuse(wrong),
        lambda: require((*needed, *libraries)),
        lambda: None if output is None else check_writable(output),
    )
    assert config is not None  # it is refused
    tracked = found.tracked and is_installed("mlflow")
    if found.tracked and not tracked:
        say(f"not tracked: MLflow is not installed ({install('tracking')})")
    folder = output or RUNS / str(config.name)  # type: ignore[attr-defined]
    check_writable(folder)
    # Before the preparation, which may take minutes.
    require_own(folder, found)
    limits = limits or Limits()
    with limits.preparing():
        plan = found.prepare(config, str(path))
    live = tracking_uri or (OWN_STORE if tracked else None)
    experiment = found(plan, say=say, bars=True, store=store, limits=limits, live=live)
    if not resume and folder.exists():
        raise ConfigError(f"{folder}: exists already; drop --no-resume to continue it.")
    answer = experiment.close(experiment.run(folder), folder, tracking_uri, echo)
    return {**answer, "seconds": time.monotonic() - started}


def report(folder: Place, *, tracking_uri: str | None = None) -> Path:
    """Draws the page of a run folder, or of a folder of several benchmarks, anew.

    Args:
        folder: what it is of, a path or a URI.
        tracking_uri: the MLflow store to add the page to; None: the folder's own.

    Returns:
        The page, the local one.

    Raises:
        ConfigError: there is nothing finished to draw, or no report of that kind.
    """
    found = experiment_of(kind_in(folder) or "benchmark")
    return found.report(folder, tracking_uri=tracking_uri)
