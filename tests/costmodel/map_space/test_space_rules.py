"""The line that says which rules bound a map space."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel import accelerator
from costmodel.map_space.space_rules import space_rules

TILES = "all tiles of a level at one place in the nest"
TIMELOOP = "Timeloop's counting without link transfers"
AS_IT_SAYS = "tensors kept as the machine says"


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, f"perfect factors; {TILES}; {AS_IT_SAYS}; {TIMELOOP}"),
        ({"bypass": "searched"}, f"perfect factors; {TILES}; tensors kept or not; {TIMELOOP}"),
        (
            {"overflow": "bypass"},
            f"perfect factors; {TILES}; tensors kept where they fit; {TIMELOOP}",
        ),
        (
            {"factors": "imperfect", "counting": "true"},
            f"perfect and imperfect factors; {TILES}; {AS_IT_SAYS}; every element counted by "
            "itself without link transfers",
        ),
        (
            {"levels": [{"name": "L2", "mesh": [16, 16]}]},
            f"perfect factors; a dimension along one axis of a mesh; {TILES}; {AS_IT_SAYS}; "
            f"{TIMELOOP}",
        ),
        (
            {"levels": [{"name": "L2", "mesh": [16, 16], "axes": "both"}]},
            "perfect factors; a dimension along one axis of a mesh, or both below L2; "
            f"{TILES}; {AS_IT_SAYS}; {TIMELOOP}",
        ),
        (
            {"constraints": [{"target": "L1", "type": "temporal", "factors": "K=1"}]},
            f"perfect factors; {TILES}; {AS_IT_SAYS}; 1 constraint; {TIMELOOP}",
        ),
    ],
)
def test_rules(changes: dict[str, Any], rules: str) -> None:
    machine = accelerator({"extends": "mm256", "name": "changed", **changes})
    assert space_rules(machine) == rules


def test_buffers_side_by_side_and_what_was_asked_for() -> None:
    assert "; buffers side by side in the file's order;" in space_rules(accelerator("eyeriss"))
    machine = accelerator({"extends": "eyeriss", "name": "any", "orders": "searched"})
    assert "; buffers side by side in every order;" in space_rules(machine)
    assert "; tensors kept as asked; " in space_rules(accelerator("mm256"), restricted=True)
