"""Which store a command uses: what it was told, what the environment says, or the user's own."""

from __future__ import annotations

import os

from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import Place, check_folder, place
from orchestrator.store.folder import FORMAT, Say, Store, warn

VARIABLE = "MAPSPACE_STORE"
# What the variable says where there shall be none; empty is the same.
NONE = "off"

StoreChoice = str | Place | Store | bool | None
"""A path, URI or store; None and True: what the environment says, else the user's; False: none."""


def chosen(choice: StoreChoice = None, *, say: Say = warn) -> Store | None:
    """The store that a choice comes to; None: nothing is read or kept.

    Args:
        choice: a path or a URI, or a store; None or True: what `MAPSPACE_STORE` says, else a folder
            of the user's data; False: none.
        say: takes lines about what cannot be read or written.

    Raises:
        ConfigError: it is no store, or one of another version.
        MapspaceError: a store that was named cannot be reached.
    """
    if choice is False:
        return None
    if isinstance(choice, Store):
        return choice
    named = choice if choice not in (None, True) else os.environ.get(VARIABLE)
    if named is None:
        return _own(say)
    if str(named) in ("", NONE):
        return None
    # No shell has looked at what a file of variables or a script says.
    where = os.path.expanduser(named) if isinstance(named, str) else named
    found = Store(place(where), say)  # type: ignore[arg-type]
    check_folder(found.place)
    return found


def own_folder() -> Place:
    """Where the user's own store lies."""
    from platformdirs import user_data_path

    # A later format lies beside it, so that this one is left as it is.
    return user_data_path("mapspace") / FORMAT


def _own(say: Say) -> Store | None:
    """The user's own store; None where there can be none, which a line says."""
    try:
        found = Store(own_folder(), say)
        check_folder(found.place)
    except (ConfigError, OSError, MapspaceError) as error:
        say(f"nothing is kept: {error}")
        return None
    return found
