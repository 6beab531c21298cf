"""Where experiments lie: files, URIs, and those that are shipped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar, get_args

from mapspace.bounded_reading import check_file
from mapspace.errors import ConfigError
from mapspace.storage import RemotePath, place
from mapspace.strict_yaml import StrictModel, load_yaml, unknown_name, validate
from orchestrator.runs.locations import fetched

Config = TypeVar("Config", bound=StrictModel)
Source = TypeVar("Source")

EXPERIMENTS = Path(__file__).parents[2] / "mapspace" / "experiments"


def find_experiment(name_or_path: str) -> Path:
    """The file of an experiment: a path, or the name of one that is shipped.

    Raises:
        ConfigError: there is neither.
    """
    path = place(name_or_path)
    if isinstance(path, RemotePath):
        return fetched(path)
    # Unlike those of a path these take a name that no file can have for none.
    if os.path.isfile(path):
        return path
    shipped = EXPERIMENTS / f"{name_or_path}.yaml"
    if os.path.isfile(shipped) and path.parent == Path("."):
        return shipped
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        check_file(path)
    raise unknown_name("experiment", name_or_path, shipped_experiments())


def shipped_experiments() -> list[str]:
    """Names of the experiments in the package."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))


def beside(source: Source, where: str) -> Source | Path:
    """What an experiment names: the file of that path beside the experiment's, where one is there.

    Args:
        source: a name, a path or an inline definition.
        where: the experiment's file.
    """
    if isinstance(source, str) and os.path.isfile(path := Path(where).parent / source):
        return path
    return source


def require_unique(what: str, names: Iterable[str], where: str) -> None:
    """Refuses a list with the same name twice.

    Raises:
        ConfigError: there is one.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(
            f"{where}: {what}: the name {twice[0]!r} is given twice; expected one name each."
        )


def load_experiment(path: Path | str, config: type[Config]) -> Config:
    """Reads the YAML file of an experiment.

    Args:
        path: the file.
        config: what it holds; its field `kind` says which kind is expected.

    Raises:
        ConfigError: it is none of that kind; one line names the key.
    """
    data = load_yaml(path)
    (expected,) = get_args(config.model_fields["kind"].annotation)
    if data.get("kind") != expected:
        raise ConfigError(f"{path}: kind: expected {expected}, got {data.get('kind')!r}.")
    return validate(config, data, str(path))
