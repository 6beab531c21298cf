"""Tables of pages, filled from results that are kept beside them.

A page marks a place, and what stands there is made:

```
<!-- table: means kept/table1-iso-iteration kept/table1-iso-time -->
<!-- end -->
```

Folders are relative to the page's. A single figure within a sentence is marked alike:
`<!-- value: gradient kept/table1-iso-iteration -->0.21<!-- end -->`, where a method ends over the
workloads, or, `"after=1000"`, is after so many queries. What another has published stands between
`<!-- published: Smith (2020), Table 1 -->` and `<!-- end -->`, and is left as it is.
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
from orchestrator.comparison.results_files import load
from orchestrator.kept.results import origins
from orchestrator.kept.tables import OPTIONS, TABLES, after, card, rows
from orchestrator.report.markdown import markdown_lines

# What is quoted as code is no mark.
_CODE = r"^```.*?^```|`[^`\n]*`"
MARK = re.compile(
    rf"{_CODE}|<!-- (table|value|published): (.*?) -->(.*?)<!-- end -->", re.DOTALL | re.MULTILINE
)
_BEGUN = re.compile(rf"{_CODE}|<!-- (table|value|published):", re.DOTALL | re.MULTILINE)
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

    said: set[str] = set()

    def made(match: re.Match[str]) -> str:
        kind, words, _ = match.groups()
        if kind in {None, "published"}:
            return match[0]
        try:
            inside = _table(words, page, said) if kind == "table" else _value(words, page)
        except MapspaceError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise type(error)(f"{page}: line {line}: {error}") from error
        return f"<!-- {kind}: {words} -->{inside}<!-- end -->"

    return MARK.sub(made, text)


def _table(words: str, page: Path, said: set[str]) -> str:
    """A table and what made it: said once on a page, of further tables it is named."""
    view, folders, options = _asked(words, page)
    if view not in OPTIONS:
        raise ConfigError(f"table: expected one of {', '.join(OPTIONS)}, got {view!r}.")
    unknown = [name for name in options if name not in OPTIONS[view]]
    if unknown:
        expected = ", ".join(OPTIONS[view])
        raise ConfigError(f"table {view}: expected {expected}, got {unknown[0]!r}.")
    if view in TABLES:
        found = [_read(folder) for folder in folders]
        labels = options["methods"].split("|") if "methods" in options else None
        table = TABLES[view](found, options)
        shown = labels and [*labels, *([options["over"]] if "over" in options else [])]
        made = origins(found, shown, by_row=view != "means")
    else:
        table, made = (rows if view == "rows" else card)(folders, options)
    if made in said:
        named = dict.fromkeys(re.findall(r"`[^`]+`", made))
        made = f"{', '.join(named)}, as above."
    said.add(made)
    return "\n\n" + "\n".join(markdown_lines(table)) + f"\n\n{made}\n"


def _value(words: str, page: Path) -> str:
    label, folders, options = _asked(words, page)
    found = [_read(folder) for folder in folders]
    if len(found) != 1 or label not in found[0].searchers or {*options} - {"after"}:
        raise ConfigError("value: expected a method, a folder that has it, and at most after=N.")
    if "after" in options:
        (share,) = after(found[0], label, options)
        return percent_text(share)
    return percent_text(found[0].overall_above(label))


def _asked(words: str, page: Path) -> tuple[str, list[Path], dict[str, str]]:
    """The first word of a mark, its folders, and its options."""
    first, *others = shlex.split(words) or [""]
    options = dict(word.split("=", 1) for word in others if "=" in word)
    folders = [page.parent / word for word in others if "=" not in word]
    if not folders:
        raise ConfigError("expected a folder of results.")
    return first, [folder.resolve() for folder in folders], options
