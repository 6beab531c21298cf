"""Plug-ins: what other packages add to the tables of searchers, cost models and experiment kinds.

A package names what it offers in its `pyproject.toml`, and is imported only when that is asked for:

```toml
[project.entry-points."mapspace.searchers"]
hill-climbing = "my_package.searcher:HillClimbing"
```

Names of this project cannot be taken: such an offer is refused, and what the name means stays.
"""

from __future__ import annotations

import importlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any

from mapspace.arguments import explained
from mapspace.errors import ConfigError
from mapspace.strict_yaml import unknown_name

SEARCHERS = "mapspace.searchers"
MODELS = "mapspace.models"
KINDS = "mapspace.kinds"


@cache
def entries(group: str) -> Mapping[str, tuple[metadata.EntryPoint, ...]]:
    """What installed packages offer in a group, by name; nothing of theirs is imported.

    Args:
        group: `mapspace.searchers`, `mapspace.models` or `mapspace.kinds`.

    Returns:
        The offers of each name: more than one where several packages chose it.
    """
    found: dict[str, dict[tuple[str, str], metadata.EntryPoint]] = defaultdict(dict)
    for entry in metadata.entry_points(group=group):
        # A package that lies on the path twice offers the same thing twice.
        found[entry.name].setdefault((package_of(entry), entry.value), entry)
    return {name: tuple(offers.values()) for name, offers in sorted(found.items())}


def package_of(entry: metadata.EntryPoint) -> str:
    """The package that makes an offer, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"


@explained
class Registry(Mapping[str, str]):
    """A lazy table: a name, and `module:attribute` of what it stands for.

    Its names are this project's own, then those of plug-ins.
    """

    def __init__(self, what: str, group: str, own: Mapping[str, str]) -> None:
        """Makes the table.

        Args:
            what: what a name stands for, such as `searcher`, for messages.
            group: the entry points that add to it.
            own: this project's names.
        """
        self.what = what
        self._group = group
        self._own = dict(own)
        self._warned: set[str] = set()

    def __getitem__(self, name: str) -> str:
        if name in self._own:
            return self._own[name]
        return entries(self._group)[name][0].value

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in entries(self._group) if name not in self._own)

    def __len__(self) -> int:
        return len({*self._own, *entries(self._group)})

    def package(self, name: str) -> str | None:
        """The package whose plug-in a name is, with its version; None: it is this project's own."""
        if name in self._own or name not in self:
            return None
        return package_of(entries(self._group)[name][0])

    def refused(self) -> Mapping[str, str]:
        """Names that are taken, and why what a package offers under them is not used."""
        return {
            name: f"{self.what} {name}: offered by {self._packages(name)}, but the name is taken."
            for name, offers in entries(self._group).items()
            if name in self._own or len(offers) > 1
        }

    def load(self, name: str, kind: type[Any], *, subclass: bool = False) -> Any:
        """Imports what a name stands for.

        Args:
            name: a name of the table.
            kind: the class that it must be an object of.
            subclass: it must be a subclass of that instead.

        Raises:
            ConfigError: one line: the name is unknown, several packages offer it, its plug-in
                cannot be imported, or it is something else.
        """
        if name not in self:
            raise unknown_name(self.what, name, self)
        refusal = self.refused().get(name)
        if name in self._own:
            if refusal is not None and name not in self._warned:
                self._warned.add(name)
                logging.getLogger("mapspace").warning(refusal)
            module, _, attribute = self._own[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if refusal is not None:
            raise ConfigError(refusal)
        entry = entries(self._group)[name][0]
        where = f"{self.what} {name} of {package_of(entry)}"
        try:
            found = entry.load()
        except Exception as error:  # whatever a plug-in does when it is imported
            reason = " ".join(str(error).split())
            raise ConfigError(
                f"{where} cannot be imported: {type(error).__name__}: {reason}"
            ) from error
        fits = isinstance(found, type) and issubclass(found, kind)
        if not (fits if subclass else isinstance(found, kind)):
            wanted = f"{'subclass of ' if subclass else ''}{kind.__module__}.{kind.__name__}"
            raise ConfigError(f"{where}: expected a {wanted}, got {found!r}.")
        return found

    def _packages(self, name: str) -> str:
        return " and ".join(sorted(package_of(entry) for entry in entries(self._group)[name]))
