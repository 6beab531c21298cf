"""The surrogate that a learned searcher asks for a space."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapspace.errors import ConfigError
from mapspace.storage import place

if TYPE_CHECKING:
    from costmodel.space import Space


MACHINES = "machines.json"
"""What a surrogate for machines is called in the folder of its training."""


def predictor(space: Space, folder: str | None) -> Any:
    """The surrogate that a learned searcher asks: from a folder, or the shipped one that fits.

    One of the very machine goes before the one for every machine.

    Raises:
        ConfigError: the folder holds none, it is for another workload family or accelerator, or
            none is shipped.
        DataError: its files are missing or damaged.
    """
    # Before torch is imported, which takes seconds.
    path = place(folder or "")
    of_machines = path / MACHINES
    if folder is not None and isinstance(of_machines, Path) and of_machines.is_file():
        return _for_machines(space, of_machines)
    if folder is not None and isinstance(path, Path):
        card = path / "surrogate.json" if path.is_dir() else path.with_suffix(".json")
        if not card.is_file():
            raise ConfigError(f"{folder}: holds no surrogate; expected a folder that `train` made.")
    from costmodel.map_space.map_space import MapSpace

    if not isinstance(space, MapSpace):
        raise ConfigError(f"There are surrogates of loop nests only; got a {type(space).__name__}.")
    if folder is None:
        return _shipped(space)
    found = _load_surrogate(folder)
    structure = found.card.structure
    for what, ours, its in (
        ("family", space.workload.family, structure.family),
        ("accelerator", space.accelerator.hash, structure.accelerator_hash),
    ):
        if ours != its:
            raise ConfigError(
                f"{folder}: the surrogate is for {structure.family} on {structure.accelerator}; "
                f"{space.workload.name} on {space.accelerator.name} is another {what}."
            )
    return found


def _for_machines(space: Any, path: Path) -> Any:
    from costmodel.map_space.map_space import MapSpace
    from surrogate.machine_surrogate import MachinePredictor, load_network

    if not isinstance(space, MapSpace):
        raise ConfigError(f"There are surrogates of loop nests only; got a {type(space).__name__}.")
    return MachinePredictor(*load_network(path), space)


def _shipped(space: Any) -> Any:
    import surrogate
    from surrogate.machine_surrogate import load_network, shipped_for, why_not

    try:
        return surrogate.shipped(space.workload, space.accelerator)
    except ConfigError as error:
        reason = why_not(space.workload, space.accelerator, load_network()[0].levels)
        if reason is None:
            return shipped_for(space)
        raise ConfigError(f"{error} The one for every machine does not fit: {reason}.") from None


@lru_cache(maxsize=8)
def _load_surrogate(folder: str) -> Any:
    """A surrogate never changes once it is loaded, so that all seeds of a trial share it."""
    import surrogate

    return surrogate.load(folder)
