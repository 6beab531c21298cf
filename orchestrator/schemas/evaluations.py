"""What `mapspace evaluate --timeloop` prints."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class TensorCounts(TypedDict):
    """A tensor at a level; counts are those of an instance.

    Attributes:
        tile: words of it.
        reads: where instances differ, on average; likewise the others.
        energy_pj: of all instances, pJ.
        addr_gen_pj: of addresses, where the machine says, pJ.
    """

    tile: int
    instances: int
    reads: float
    fills: float
    updates: float
    energy_pj: float
    addr_gen_pj: NotRequired[float]


class LevelCounts(TypedDict):
    """A level with the tensors that it holds.

    Attributes:
        cycles: what its bandwidth alone would take.
        network: of tensors that are spread below the level, by how many children a word reaches.
    """

    name: str
    cycles: int
    tensors: dict[str, TensorCounts]
    network: NotRequired[dict[str, Any]]


class TimeloopAnswer(TypedDict):
    """What the mapping in Timeloop's files costs.

    Attributes:
        counting: of remainders, where they are counted element by element.
        utilization: share of the units at work, on average.
        levels: outermost first.
    """

    counting: NotRequired[Literal["true"]]
    energy_pj: float
    cycles: int
    utilization: float
    macs: int
    mac_energy_pj: float
    levels: list[LevelCounts]
    from_store: bool
