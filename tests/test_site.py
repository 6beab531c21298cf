"""The site is built without a broken link, and asks nobody for anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

import mapspace as ms

# What a browser would fetch, from another host.
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//")


def build(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder), *words]
    # What notebooks show is for `make site`; they are run by tests of their own.
    quiet = {"SITE_NOTEBOOKS": "off", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **quiet}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_the_site_is_whole_and_of_its_own(tmp_path: Path) -> None:
    built = build(tmp_path / "site", "--strict")
    assert built.returncode == 0, built.stderr[-3000:]
    pages = sorted((tmp_path / "site").rglob("*.html"))
    for page in (ROOT / "docs").rglob("*.[mi]*"):
        there = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert page.suffix not in (".md", ".ipynb") or (tmp_path / "site" / there) in pages
    for page in pages:
        assert not FETCHED.search(page.read_text()), page
    found = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text())
    assert any("MapSpace" in entry["text"] for entry in found["docs"])
    reference = (tmp_path / "site" / "reference.html").read_text()
    for name in set(ms.__all__) - {"SEARCHERS", "__version__"}:
        assert f'id="{name.lower()}"' in reference
