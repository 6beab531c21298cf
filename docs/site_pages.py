"""What the site has beyond the pages of this folder: see mkdocs.yml.

The README, the change log and the rules for contributors lie above this folder, notebooks are run
and become pages. Links between them are written as they hold in the repository, and are turned
here; what only the site has is written `<!-- site: ... -->`.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
ABOVE = {
    "README.md": "start.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
# What terminals read as colours.
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# Where pages come that the navigation does not name.
LAST = "Look up"
ONLY_HERE = re.compile(r"<!-- site: (.*?) -->", re.DOTALL)
FOLDERS = {"INSIDE": "inside", "RESULTS": "results", "NOTEBOOKS": "notebooks"}


def on_config(config: Any) -> Any:
    """Fills in the pages of each folder."""
    for section in config.nav:
        fill(section)
    named = set(pages_of(config.nav))
    others = {page.name for page in (ROOT / "docs").glob("*.md")}
    others |= {f"guide/{page.name}" for page in (ROOT / "docs" / "guide").glob("*.md")}
    (last,) = (pages for section in config.nav for title, pages in section.items() if title == LAST)
    last += sorted(others - named)
    return config


def fill(section: Any) -> None:
    """Puts the pages of a folder in the place of its name, at any depth."""
    if isinstance(section, str):
        return
    for title, pages in section.items():
        if isinstance(pages, list):
            for page in pages:
                fill(page)
        elif pages in FOLDERS:
            names = sorted((ROOT / "docs" / FOLDERS[pages]).glob("*.[mi]*"))
            section[title] = [f"{FOLDERS[pages]}/{name.stem}.md" for name in names]


def pages_of(section: Any) -> Iterator[str]:
    """The pages below a part of the navigation."""
    if isinstance(section, str):
        yield section
    else:
        below = section.values() if isinstance(section, dict) else section
        yield from (page for part in below for page in pages_of(part))


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that lie elsewhere or are made."""
    for name, page in ABOVE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content=notebook_page(notebook)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turns links that hold in the repository into those of the site."""
    here = page.file.src_uri
    names = {there: name for name, there in ABOVE.items()}
    source = names.get(here, f"docs/{here}")

    def turned(match: re.Match[str]) -> str:
        target, mark, anchor = match[1].partition("#")
        if "://" in target or not target:
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = ABOVE.get(there, there.removeprefix("docs/"))
        if there.endswith(".ipynb"):
            there = there.removesuffix(".ipynb") + ".md"
        return f"]({posixpath.relpath(there, posixpath.dirname(here) or '.')}{mark}{anchor})"

    return ONLY_HERE.sub(r"\1", LINK.sub(turned, markdown))


def notebook_page(path: Path) -> str:
    """A notebook, run, as Markdown."""
    notebook = nbformat.read(path, as_version=4)
    if os.environ.get("SITE_NOTEBOOKS") != "off":
        # `!mapspace` is the command of this installation; nobody's store is read.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.environ["MAPSPACE_STORE"] = "off"
        with tempfile.TemporaryDirectory() as folder:
            where = {"metadata": {"path": folder}}
            # Else every kernel warns that it is reached in plain text, on this machine.
            quiet = ["--log-level=ERROR"]
            NotebookClient(notebook, timeout=300, resources=where, extra_arguments=quiet).execute()
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += filter(None, map(output, cell.outputs))
    return "\n\n".join(parts) + f"\n\n[This notebook]({path.name}){{ download }}\n"


def output(shown: Any) -> str:
    """What a cell has shown; lines of progress and warnings are left out."""
    if shown.output_type == "stream":
        text = "" if shown.name == "stderr" else shown.text
    elif "text/html" in shown.data:
        # A line without blank ones stays one block of HTML.
        one_line = re.sub(r"\n\s*", " ", shown.data["text/html"])
        return f"<div>{one_line}</div>"
    elif "image/png" in shown.data:
        data = "".join(shown.data["image/png"].split())
        return f'<img alt="figure" src="data:image/png;base64,{data}">'
    else:
        text = shown.data.get("text/plain", "")
    text = COLOURS.sub("", text).strip("\n")
    return f"<pre><code>{html.escape(text).replace(chr(10), '&#10;')}</code></pre>" if text else ""
