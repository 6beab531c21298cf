"""Which values of a key of a machine are better, and a level that has the best of several.

More capacity, fan-out and bandwidth never make the best mapping worse, nor do less energy, leakage
and latency (docs/guide/design.md has the reason for each key).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from costmodel.machines.accelerators import Accelerator, Level
from costmodel.machines.component_entries import LevelSources
from costmodel.machines.levels import CAPACITIES, ActionEnergies
from mapspace.errors import ConfigError

# Of a level, and whether more is better; each is a sum's factor or a divisor in the cost model.
_LESS = frozenset(
    {
        "energy_pj", "address_pj", "leakage_pj", "hop_energy_pj", "router_pj", "ingress_pj",
        "fill_latency", "drain_latency",
    }
)  # fmt: skip
_MORE = frozenset({"read_bandwidth", "write_bandwidth", "bandwidth"})
_LESS_OF_MACHINE = frozenset({"mac_energy_pj", "cycles_per_mac"})
# Keys of a level on which its component's figures depend, or which stand for one of these.
_FELT = CAPACITIES | {
    "component", "block_words", "word_bits", "energy_pj", "leakage_pj", "area_mm2", "technology",
}  # fmt: skip
_OF_COMPONENTS = frozenset({"component", "mac_component", "mac_leakage_pj"})


def figures_of(machine: Accelerator, name: str) -> list[float]:
    """What of a machine, or of one of its levels, a mapping's cost depends on; more is better."""
    if not name:
        return [-machine.mac_energy_pj, -machine.cycles_per_mac]
    level = machine.levels[machine.level_names.index(name)]
    return [
        math.inf if level.capacity_words is None else level.capacity_words,
        level.fanout,
        *(
            math.inf if value is None else value
            for value in (getattr(level, k) for k in sorted(_MORE))
        ),
        *(-energy for energy in level.energies),
        *(-getattr(level, key) for key in sorted(_LESS - {"energy_pj"})),
    ]


def has_an_order(key: str, base: Accelerator, grid: Mapping[str, Any]) -> bool:
    """Whether it is known which values of a key are better, whatever the other axes say."""
    name, _, field = key.rpartition(".")
    if not name:
        return field in _LESS_OF_MACHINE
    if field in _LESS or field in _MORE:
        return True
    position = base.level_names.index(name)
    levels = base.levels[position:]
    swept = {other.rpartition(".")[2] for other in grid}
    # Rules on the share of elements or words in use make less of them better.
    if base.constraints or base.overflow != "invalid" or swept & {"constraints", "overflow"}:
        return False
    if field in CAPACITIES:
        fixed = not swept & {"word_bits", "banks", "min_utilisation", "multiple_buffering"}
        return fixed and levels[0].banks is None and levels[0].min_utilisation == 0
    if field != "fanout":
        return False
    network = {
        "mesh",
        "spatial",
        "hop_energy_pj",
        "router_pj",
        "ingress_pj",
        "cluster_size",
        "array",
    }
    return (
        not swept & network
        and _silent(levels[0])
        and all(inner.cluster_size == 1 for inner in levels)
    )


def takes_no_area(field: str) -> bool:
    """Whether no area hangs on a key: rates, and what a mapping costs."""
    return field in _LESS | _MORE | _LESS_OF_MACHINE


def felt_with(key: str, base: Accelerator, grid: Mapping[str, Any]) -> list[str]:
    """The other keys of a grid on which a component's figures depend beside this one.

    Without components none: every figure then depends on one key alone.
    """
    made = base.mac_component is not None or base.mac_leakage_pj > 0
    made |= any(level.component is not None for level in base.levels)
    made |= any(other.rpartition(".")[2] in _OF_COMPONENTS for other in grid)
    name = key.rpartition(".")[0]
    if not made or not name:
        return []
    if key.rpartition(".")[2] not in _FELT:
        return []
    return [
        other
        for other in grid
        if other not in {key, *_LESS_OF_MACHINE}
        and (not (level := other.rpartition(".")[0]) or level == name)
        and (not level or other.rpartition(".")[2] in _FELT)
    ]


def _silent(level: Level) -> bool:
    """Whether a level's network has neither form nor price."""
    free = level.hop_energy_pj == level.router_pj == level.ingress_pj == 0
    return level.mesh is None and level.spatial is None and level.array is None and free


def extreme_of(levels: list[Level], *, best: bool) -> Level:
    """A level with the best or the worst of every figure of several; none of them may have all.

    Args:
        levels: of one name.
        best: the best; else the worst.
    """
    if any(level.capacity_words is None for level in levels):
        raise ConfigError("a capacity without limit is no value of a grid with energies that grow.")
    most, least = (max, min) if best else (min, max)
    read, fill, update = (
        least(column) for column in zip(*(level.energies for level in levels), strict=True)
    )
    one = read == fill == update and not isinstance(levels[0].energy_pj, ActionEnergies)
    figures: dict[str, Any] = {
        key: least(getattr(level, key) for level in levels) for key in _LESS - {"energy_pj"}
    }
    for key in _MORE:
        # Without a limit is the most of all.
        rate = most(math.inf if (x := getattr(level, key)) is None else x for level in levels)
        figures[key] = None if rate == math.inf else rate
    sized = most(levels, key=lambda level: level.capacity_words or 0)
    return sized.model_copy(
        update={
            **figures,
            "energy_pj": read if one else ActionEnergies(read=read, fill=fill, update=update),
            "fanout": most(level.fanout for level in levels),
            # It is no component that there is.
            "component": None,
            "area_mm2": None,
            "sources": LevelSources(),
        }
    )
