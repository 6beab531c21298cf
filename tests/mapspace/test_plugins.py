"""What packages offer beside this project's own names, and how they are refused."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import searchers
from costmodel.models import COST_MODELS, cost_model_entry
from mapspace import plugins
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToySpace
from orchestrator.catalogue import catalogue
from searchers import SEARCHERS
from searchers.random import Random

Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Installs a package that offers a name: `offer("package", "group", "name", "module:what")`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, group: str, name: str, value: str) -> None:
        folder = tmp_path / f"{package.replace(chr(45), chr(95))}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
        plugins.entries.cache_clear()

    yield install
    plugins.entries.cache_clear()


def test_a_searcher_of_another_package_is_made(offer: Offer) -> None:
    assert "further" not in SEARCHERS
    before = len(SEARCHERS)
    offer("extra", plugins.SEARCHERS, "further", "searchers.random:Random")
    assert "further" in SEARCHERS
    assert len(SEARCHERS) == len(list(SEARCHERS)) == before + 1
    assert SEARCHERS.package("further") == "extra 1.0"
    assert SEARCHERS.package("random") is None
    assert isinstance(searchers.make("further", ToySpace(), seed=0, patience=3), Random)
    assert "Plug-in of extra 1.0." in " ".join(catalogue("searchers").split())


def test_a_plug_in_that_fails_is_one_line_when_it_is_asked_for(
    offer: Offer, tmp_path: Path
) -> None:
    (tmp_path / "broken_plug_in.py").write_text("raise RuntimeError('no\\nlicence')\n")
    offer("broken", plugins.SEARCHERS, "broken", "broken_plug_in:It")
    searchers.make("random", ToySpace(), seed=0)
    assert "broken_plug_in" not in sys.modules
    line = "searcher broken of broken 1.0 cannot be imported: RuntimeError: no licence"
    with pytest.raises(ConfigError) as caught:
        searchers.make("broken", ToySpace(), seed=0)
    assert str(caught.value) == line
    assert line in " ".join(catalogue("searchers").split())
    assert "annealing" in catalogue("searchers", long=True)


@pytest.mark.parametrize("value", ["costmodel:MapSpace", "math:pi", "no_such_module:It"])
def test_what_is_no_searcher_or_model_is_refused(offer: Offer, value: str) -> None:
    offer("odd", plugins.SEARCHERS, "odd", value)
    offer("odd-model", plugins.MODELS, "odd", value)
    for ask in (searchers.searcher_class, cost_model_entry):
        with pytest.raises(ConfigError, match=r"odd of odd.* 1\.0") as caught:
            ask("odd")
        assert "\n" not in str(caught.value)


def test_a_name_that_is_taken_stays(offer: Offer, caplog: pytest.LogCaptureFixture) -> None:
    offer("greedy", plugins.SEARCHERS, "random", "searchers.annealing:Annealing")
    line = "searcher random: offered by greedy 1.0, but the name is taken."
    with caplog.at_level(logging.WARNING, "mapspace"):
        made = [searchers.make("random", ToySpace(), seed=0) for _ in range(2)]
    assert all(isinstance(searcher, Random) for searcher in made)
    assert caplog.messages == [line]
    assert line in " ".join(catalogue("searchers").split())


def test_a_name_of_two_packages_is_nobodys(offer: Offer) -> None:
    offer("first", plugins.MODELS, "both", "costmodel.tiling.entry:TILING")
    offer("second", plugins.MODELS, "both", "costmodel.maestro.entry:MAESTRO")
    with pytest.raises(ConfigError, match=r"^cost model both: offered by first 1\.0 and second"):
        cost_model_entry("both")
    assert "both" in COST_MODELS


def test_kinds_have_a_group_of_their_own(offer: Offer) -> None:
    assert not plugins.entries(plugins.KINDS)
    offer("extra", plugins.KINDS, "census", "extra.census:Census")
    (entry,) = plugins.entries(plugins.KINDS)["census"]
    assert entry.value == "extra.census:Census"
