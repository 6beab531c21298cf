"""Tables of pages, filled from results that are kept beside them.

A page marks a place, and what stands there is made:

```
<!-- table: means kept/table1-iso-iteration kept/table1-iso-time -->
<!-- end -->
```

Folders are relative to the page's. A single figure within a sentence is marked alike:
`<!-- value: gradient kept/table1-iso-iteration -->0.21<!-- end -->`, where a method ends over the
workloads, or, `"after=1000"`, is after so many queries.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import write_atomically
from orchestrator.comparison.cells import percent_text
from orchestrator.comparison.results import Results
from orchestrator.comparison.results_files import load
from orchestrator.kept.results import origins
from orchestrator.kept.tables import OPTIONS, TABLES, after
from orchestrator.report.markdown import markdown_lines

# What is quoted as code is no mark.
_CODE = r"^```.*?^```|`[^`\n]*`"
MARK = re.compile(
    rf"{_CODE}|<!-- (table|value): (.*?) -->(.*?)<!-- end -->", re.DOTALL | re.MULTILINE
)
_BEGUN = re.compile(rf"{_CODE}|<!-- (table|value):", re.DOTALL | re.MULTILINE)
_read = cache(load)


def fill(paths: Sequence[Path]) -> list[Path]:
    """Makes the tables of pages anew.

    Args:
        paths: pages, and folders of pages.

    Returns:
        Those that have marked places.

    Raises:
        ConfigError: a mark asks for what there is not; the message names page and line.
        DataError: kept results are damaged.
    """
    found = []
    for page in pages_in(paths):
        before = page.read_text(encoding="utf-8")
        made = filled(before, page)
        if any(_BEGUN.findall(before)):
            found.append(page)
            if made != before:
                write_atomically(page, made.encode())
    return found


def pages_in(paths: Sequence[Path]) -> list[Path]:
    """Pages and those of folders, at any depth.

    Raises:
        ConfigError: there is no such file or folder.
    """
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file or folder.")
    return [
        page for path in paths for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])
    ]


def filled(text: str, page: Path) -> str:
    """A page's text with its tables as its results are now."""
    if any(_BEGUN.findall(MARK.sub("", text))):
        raise ConfigError(f"{page}: expected an `end` after every marked place.")

    def made(match: re.Match[str]) -> str:
        kind, words, _ = match.groups()
        if kind is None:
            return match[0]
        try:
            inside = _table(words, page) if kind == "table" else _value(words, page)
        except MapspaceError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise type(error)(f"{page}: line {line}: {error}") from error
        return f"<!-- {kind}: {words} -->{inside}<!-- end -->"

    return MARK.sub(made, text)


def _table(words: str, page: Path) -> str:
    view, found, options = _asked(words, page)
    if view not in TABLES:
        raise ConfigError(f"table: expected one of {', '.join(TABLES)}, got {view!r}.")
    unknown = [name for name in options if name not in OPTIONS[view]]
    if unknown:
        expected = ", ".join(OPTIONS[view])
        raise ConfigError(f"table {view}: expected {expected}, got {unknown[0]!r}.")
    lines = markdown_lines(TABLES[view](found, options))
    return "\n\n" + "\n".join(lines) + f"\n\n{origins(found)}\n"


def _value(words: str, page: Path) -> str:
    label, found, options = _asked(words, page)
    if len(found) != 1 or label not in found[0].searchers or {*options} - {"after"}:
        raise ConfigError("value: expected a method, a folder that has it, and at most after=N.")
    if "after" in options:
        (share,) = after(found[0], label, options)
        return percent_text(share)
    return percent_text(found[0].overall_above(label))


def _asked(words: str, page: Path) -> tuple[str, list[Results], dict[str, str]]:
    """The first word of a mark, its folders of results, and its options."""
    first, *others = shlex.split(words) or [""]
    options = dict(word.split("=", 1) for word in others if "=" in word)
    folders = [page.parent / word for word in others if "=" not in word]
    if not folders:
        raise ConfigError("expected a folder of results.")
    return first, [_read(folder.resolve()) for folder in folders], options
