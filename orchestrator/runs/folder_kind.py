"""What the folder of a run tells of its kind, whatever the kind does."""

from __future__ import annotations

from typing import ClassVar

from mapspace.strict_yaml import StrictModel


class FolderKind:
    """What stands on the class of every kind of run: how a folder is known, and its words."""

    command: ClassVar[str]
    """The command that runs the kind."""
    words: ClassVar[str]
    """What a person calls what lies in its folder."""
    config: ClassVar[type[StrictModel]]
    """What its file is read into; with `kind`, `name` and `description`."""
    file: ClassVar[str]
    """What every folder of it holds from its beginning: its identity."""
    page: ClassVar[str] = ""
    """What it ends with, for a person to read; empty where it has no page of its own."""
