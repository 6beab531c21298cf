"""What every searcher promises, held over the registry: a new one is covered by its line there."""

from __future__ import annotations

from typing import Any

import pytest

from mapspace.errors import ConfigError
from mapspace.testing import SearcherContract
from mapspace.testing.toy_space import ToySpace
from searchers import SEARCHERS, make, searcher_class

NAMES = sorted(SEARCHERS)


class TestSearchers(SearcherContract):
    names = NAMES


def test_unknown_searchers_are_refused() -> None:
    known = f"'anealing'; did you mean annealing. Known: {', '.join(NAMES)}"
    with pytest.raises(ConfigError, match=known):
        make("anealing", ToySpace(), seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_must_be_non_negative_integers(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        make("random", ToySpace(), seed=seed)


def test_facts_of_searchers() -> None:
    """What else is decided by them: a search that reads the machine is no black box."""
    classes = {name: searcher_class(name) for name in NAMES}
    knowing = {name for name, cls in classes.items() if not cls.BLACK_BOX}
    assert knowing == {"exact", "marvel", "model-guided", "structured"}
    assert {name for name, cls in classes.items() if cls.SLOW} == {"ddpg", "ppo"}
    assert {name for name, cls in classes.items() if cls.EXHAUSTIBLE} == {"exact", "marvel"}
    libraries = {n: cls.LIBRARY.module for n, cls in classes.items() if cls.LIBRARY is not None}
    assert libraries == {
        "cma-es": "cmaes",
        "nevergrad": "nevergrad",
        "optuna": "optuna",
        "xgboost": "xgboost",
    }
