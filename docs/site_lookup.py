"""The pages that are made of what the code declares: commands, presets, public names.

See mkdocs.yml. Whatever exists is on them, and nothing else.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import click
from mkdocs.structure.files import File, Files

import mapspace as ms
from orchestrator.catalogue import searcher_answer, tables
from orchestrator.cli import cli


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages."""
    for page, made in PAGES.items():
        files.append(File.generated(config, page, content=made()))
    return files


def commands() -> str:
    """A section per command: what it does, and a table of its options."""
    parts = [
        "# Commands",
        "Every command with every option, as `mapspace COMMAND --help` prints them.",
    ]
    for name, command in sorted(cli.commands.items()):
        parts += list(_sections(name, command))
    return "\n\n".join(parts) + "\n"


def _sections(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"mapspace {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {name}"
    yield f"```text\nmapspace {name} {usage}\n```"
    yield re.sub(r"\s*\n\s*(?!\n)", " ", (command.help or "").replace("\b", "")).strip()
    options = (one for one in command.params if isinstance(one, click.Option))
    records = (option.get_help_record(context) for option in options)
    rows = [record for record in records if record is not None]
    if rows:
        yield _table(("option", ""), rows)
    if isinstance(command, click.Group):
        for inner, within in sorted(command.commands.items()):
            yield from _sections(f"{name} {inner}", within)


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    return "\n".join(
        lines + [f"| <code>{_cell(name)}</code> | {_cell(said)} |" for name, said in rows]
    )


def _cell(text: str) -> str:
    return html.escape(re.sub(r"\s+", " ", text), quote=False).replace("|", "&#124;")


def presets() -> str:
    """A table per kind of thing that has names, and one per searcher of its hyperparameters."""
    parts = [
        "# Presets",
        "What has a name, as `mapspace list` prints it. `mapspace describe NAME` has every number"
        " of a machine.",
    ]
    for kind, named in tables(None).items():
        parts += [f"## {kind.capitalize()}", _table(("name", ""), named.items())]
    parts.append("## Hyperparameters")
    for name in tables("searchers")["searchers"]:
        rows = [
            (one["name"], f"{one['meaning']} {one['allowed']}; default {one['default']}")
            for one in searcher_answer(name)["hyperparameters"]
        ]
        if rows:
            parts += [f"### {name}", _table(("`--set`", ""), rows)]
    return "\n\n".join(parts) + "\n"


def reference() -> str:
    """A section per public name, of its docstring."""
    parts = [
        "# Reference",
        "Every public name of `import mapspace as ms`, in the order of the alphabet.",
    ]
    for name in sorted(ms.__all__, key=str.lower):
        value = getattr(ms, name)
        if hasattr(value, "__qualname__"):
            parts.append(f"## {name}\n\n::: {value.__module__}.{value.__qualname__}")
        elif isinstance(value, ModuleType):
            inner = (getattr(value, part) for part in value.__all__)
            parts.append(f"## {name}\n\n{value.__doc__}")
            parts += [f"::: {found.__module__}.{found.__qualname__}" for found in inner]
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "presets.md": presets,
    "reference.md": reference,
}
