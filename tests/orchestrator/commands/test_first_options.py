"""What could be typed before the tree was rearranged can still be typed: nothing was renamed.

The golden file has every argument, option and choice of every command, and every hyperparameter of
every searcher, as they were then. A name that changes keeps the old one as an alias with a notice,
and its row here.
"""

from __future__ import annotations

import json

import click
import pytest
from paths import ROOT

import searchers
from orchestrator.cli import cli

FIRST = json.loads((ROOT / "tests/golden/first-options.json").read_text())
ENTRIES = [
    (command, name, choices)
    for command, options in FIRST["commands"].items()
    for name, choices in options.items()
]


@pytest.mark.parametrize(("command", "name", "choices"), ENTRIES)
def test_an_option_is_still_there(command: str, name: str, choices: list[str] | None) -> None:
    here = {
        spelled: parameter
        for parameter in cli.commands[command].params
        for spelled in (*parameter.opts, *parameter.secondary_opts)
    }
    assert name in here
    if choices is not None and isinstance(here[name].type, click.Choice):
        assert set(choices) <= set(here[name].type.choices)


@pytest.mark.parametrize("name", FIRST["searchers"])
def test_a_searcher_has_its_hyperparameters(name: str) -> None:
    """What a host knows of its run is told as a context, and may still be told by its name."""
    told = searchers.hyperparameters(name).keys() | searchers.searcher_class(name).USES
    assert set(FIRST["searchers"][name]) <= told
