"""Which proof of a design is meant."""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.design.machine_grid import Corner


class Wish(NamedTuple):
    """A proof that is needed."""

    layer: int
    """Which layer."""
    corner: Corner
    """Of which machine: the ideal of a box."""
    aim: int = 0
    """What is minimised."""
