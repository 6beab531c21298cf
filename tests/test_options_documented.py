"""Every option stands on a page, and every option on a page is there."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import click
import pytest
from paths import ROOT

import mapspace as ms
from orchestrator.catalogue import tables
from orchestrator.cli import cli
from searchers import searcher_class

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Options of other programs that pages name.
OTHERS = re.compile(
    r"\b(pip|ray|docker|kubectl|aws|mlflow|ssh|pytest|make|curl|python3?|createdb|uv)\b"
)


@pytest.fixture(scope="module")
def lookup() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import site_lookup
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return site_lookup


def commands() -> dict[str, click.Command]:
    found = dict(cli.commands)
    for name, command in cli.commands.items():
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


def options(command: click.Command) -> set[str]:
    return {name for one in command.params for name in one.opts + one.secondary_opts}


def test_every_command_and_option_is_on_the_page(lookup: ModuleType) -> None:
    page = lookup.commands()
    for name, command in commands().items():
        section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert section, name
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(written in section[1] for written in option.opts), (name, option.opts)
                assert option.help or option.show_default, (name, option.opts)


def test_every_name_and_hyperparameter_is_on_the_page(lookup: ModuleType) -> None:
    page = lookup.presets()
    for kind, named in tables(None).items():
        assert f"## {kind.capitalize()}\n" in page
        assert all(f"| <code>{name}</code> |" in page for name in named)
    for name in tables("searchers")["searchers"]:
        assert all(
            f"| <code>{one.name}</code> |" in page
            for one in searcher_class(name).OPTIONS.explained()
        )


def test_every_public_name_is_in_the_reference(lookup: ModuleType) -> None:
    page = lookup.reference()
    assert all(f"## {name}\n" in page for name in set(ms.__all__) - {"SEARCHERS", "__version__"})


def test_what_only_the_site_has_is_made(lookup: ModuleType) -> None:
    only = re.compile(r"<!-- site: .*?\]\((.*?)\).*? -->")
    linked = {link for page in PAGES for link in only.findall(page.read_text())}
    assert linked
    assert linked <= set(lookup.PAGES)


def test_every_extra_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"dev", "docs"}
    page = (ROOT / "docs" / "faq.md").read_text()
    assert all(f"`{extra}`" in page for extra in extras)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_an_option_on_a_page_exists(page: Path) -> None:
    known = {name for command in commands().values() for name in options(command)}
    known |= options(cli) | {"--help", "--version"}
    for line in page.read_text().replace("\\\n", "").splitlines():
        for command, words in re.findall(r"\bmapspace ([a-z]+)((?: [^`|#;]*)?)", line):
            if command in cli.commands and not OTHERS.search(words):
                named = set(re.findall(r"(?<=\s)--[a-z][\w-]*", words))
                inner = {one for name, one in commands().items() if name.startswith(command)}
                assert named <= {name for one in inner for name in options(one)}, line
        # Pages for developers have options of scripts, too.
        if page.parent.name not in ("inside", "results") and not OTHERS.search(line):
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)) <= known, line
