"""Networks that come with the package have the layers and words that they had."""

from __future__ import annotations

import pytest
from pinned import network, networks, read

PINNED = dict(read("networks"))


def test_all_networks_are_pinned() -> None:
    assert list(PINNED) == list(networks())


@pytest.mark.parametrize("name", PINNED)
def test_a_network_is_what_it_was(name: str) -> None:
    assert network(name) == PINNED[name]
