"""What mappings that are known reach on machines for which they were not proven.

A mapping that fits a machine has its energy and its time there, so that the best of it is no worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from costmodel import LoopNestModel, MapSpace
from costmodel.loop_nest.records import record_code
from costmodel.machines.accelerators import Accelerator
from mapspace.errors import ConfigError
from orchestrator.design.aims import Aim
from orchestrator.sweep.plan import Layer


class Point(NamedTuple):
    """What a mapping takes."""

    value: float
    """Of the aim, pJ and ns."""
    energy: float
    """pJ."""
    time: float
    """ns."""


NOWHERE = Point(math.inf, math.inf, math.inf)


class Reached:
    """The mappings that are known of each layer."""

    def __init__(self, layers: Sequence[Layer], aims: Sequence[Aim]) -> None:
        """None yet.

        Args:
            layers: of what.
            aims: what makes a mapping the better one.
        """
        self._layers, self._aims = layers, aims
        self._codes: list[dict[tuple[int, ...], None]] = [{} for _ in layers]
        self._shapes: list[tuple[Any, ...]] = [()] * len(layers)
        # By layer and machine: how many mappings were tried, and the best for each aim.
        self._best: dict[tuple[int, str], tuple[int, list[Point]]] = {}

    def add(self, layer: int, machine: Accelerator, record: dict[str, Any] | None) -> None:
        """Takes a mapping, if a proof has one.

        Args:
            layer: which.
            machine: for which it was proven.
            record: the mapping, as a mapping record.
        """
        space = self._space(layer, machine)
        if record is None or space is None:
            return
        self._shapes[layer] = self._shapes[layer] or _shape(space)
        if _shape(space) == self._shapes[layer]:
            self._codes[layer][tuple(record_code(space, record).ravel().tolist())] = None

    def least(self, layer: int, machine: Accelerator, aim: int = 0) -> Point:
        """The best of the known mappings of a layer on a machine, for one of the aims."""
        codes, key = self._codes[layer], (layer, machine.hash)
        tried, best = self._best.get(key, (0, [NOWHERE] * len(self._aims)))
        if tried < len(codes):
            found = self._evaluated(layer, machine, list(codes)[tried:])
            best = [min(pair) for pair in zip(best, found, strict=True)]
            self._best[key] = len(codes), best
        return best[aim]

    def _evaluated(
        self, layer: int, machine: Accelerator, mappings: Sequence[tuple[int, ...]]
    ) -> list[Point]:
        """The best of some mappings for each aim."""
        space = self._space(layer, machine)
        if space is None or _shape(space) != self._shapes[layer]:
            return [NOWHERE] * len(self._aims)
        costs = LoopNestModel().evaluate(space, np.array(mappings, np.int32))
        energies, times = costs.energy_pj, costs.latency_cycles / machine.clock_ghz
        found = []
        for aim in self._aims:
            values = aim.value(energies, times, 1.0)
            one = int(np.argmin(values))
            found.append(Point(float(values[one]), float(energies[one]), float(times[one])))
        return found

    def _space(self, layer: int, machine: Accelerator) -> MapSpace | None:
        """Where a layer's mappings are; None where codes of one machine are not another's."""
        try:
            space = MapSpace(self._layers[layer].workload, machine)
        except ConfigError:
            return None
        return space if space.orders is None and space.constraints is None else None


def _shape(space: MapSpace) -> tuple[Any, ...]:
    """What spaces have in common whose codes mean the same."""
    return space.attribute_names, tuple(space.cardinality.tolist())
