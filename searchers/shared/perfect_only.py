"""What searchers say that know exact factorisations only."""

from __future__ import annotations

from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError


def refuse_remainders(space: object, name: str) -> None:
    """Refuses a map space with imperfect factors.

    Raises:
        ConfigError: it is one.
    """
    if isinstance(space, MapSpace) and space.remainders is not None:
        raise ConfigError(f"{name} places prime factors: expected factors: perfect, got imperfect.")
