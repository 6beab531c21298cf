"""One layer on one accelerator: Marvel's two steps and what they are held to, as plain data.

`on_chip` is found under all of the paper's pruning, the bound on the utilisation included; its
`families` and the reference `dataflows` without that bound, so that a dataflow that leaves most of
the array idle still has a figure, as in the paper's Figure 8.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from costmodel.maestro import DATAFLOWS, OnChipOptimum, Pruning, on_chip_search
from costmodel.maestro.distinct_blocks import DIMENSIONS
from costmodel.maestro.off_chip import OffChipOptimum, least_costs, loop_order, search
from costmodel.maestro.roofline import roofline
from mapspace.errors import ConfigError
from orchestrator.marvel.baselines import brute_force, random_search
from orchestrator.marvel.joint import joint_search
from orchestrator.marvel.plan import Task
from orchestrator.marvel.remainders import remainder_search
from orchestrator.marvel.rows import Result, bests, memory_of, tile_records, tiles_of, whole_layer
from orchestrator.marvel.space_sizes import space_sizes


def study_task(task: Task) -> Result:
    """Everything about a layer on an accelerator; `failure` says why there is nothing.

    Runtimes are in cycles, energies in the accelerator's picojoules, of which a multiply-accumulate
    takes one on the paper's platforms. What `on_chip` and `remainders` hold is of one level-3 tile;
    `whole`, `roofline` and `baselines` are of the whole layer.
    """
    try:
        return {"failure": None, **_studied(task)}
    except ConfigError as error:
        return {"failure": str(error)}


def row_head(task: Task, name: str, kind: str, networks: Mapping[str, int]) -> Result:
    """What a row says of its layer before any result."""
    layer = task.layer
    return {
        "layer": name,
        "kind": kind,
        "accelerator": task.accelerator.name,
        "networks": dict(networks),
        "bounds": dict(zip(DIMENSIONS, layer.bounds, strict=True)),
        "stride": layer.stride,
        "depthwise": layer.depthwise,
        "groups": task.groups,
        "macs": task.groups * layer.macs,
    }


def _studied(task: Task) -> Result:
    layer, machine, study = task.layer, task.accelerator, task.study
    memory = memory_of(machine)
    started = time.perf_counter()
    off_chip = search(
        layer,
        memory.capacity_bytes,
        element_bytes=memory.element_bytes,
        block_elements=memory.block_elements,
    )
    off_chip_seconds = time.perf_counter() - started
    tiles = task.groups * tiles_of(layer, off_chip.tile)
    pruning = Pruning(utilisation_bound=study.utilisation_bound)
    on_chip = on_chip_search(layer, off_chip.tile, machine, pruning=pruning)
    bound = roofline(layer, machine, off_chip.tile)
    remainders = None
    if study.remainder_seconds:
        seconds = study.remainder_seconds
        remainders = remainder_search(layer, off_chip.tile, machine, seconds=seconds)
    return {
        "off_chip": _off_chip(task, off_chip, off_chip_seconds),
        "tiles_per_layer": tiles,
        "on_chip": {
            "best": bests(on_chip.best),
            "families": _families(task, off_chip, on_chip),
            "dataflows": {name: _dataflow(task, off_chip, name) for name in DATAFLOWS},
            "mappings": on_chip.mappings,
            "evaluated": on_chip.evaluated,
            "tilings": on_chip.tilings,
            "fitting": on_chip.fitting,
            "proven": on_chip.proven,
            "seconds": on_chip.seconds,
        },
        "whole": whole_layer(on_chip.best, tiles),
        "records": tile_records(on_chip.best),
        "remainders": remainders,
        "roofline": {
            "cycles": bound.cycles * task.groups,
            "binding": bound.binding,
            "macs_per_cycle": bound.macs_per_cycle,
        },
        "space": space_sizes(layer, machine, off_chip, on_chip, pruning),
        "baselines": _baselines(task, off_chip, on_chip),
    }


def _off_chip(task: Task, found: OffChipOptimum, seconds: float) -> Result:
    memory = memory_of(task.accelerator)
    least = least_costs(
        task.layer,
        memory.capacity_bytes,
        element_bytes=memory.element_bytes,
        block_elements=memory.block_elements,
    )
    order = loop_order(task.layer, found.tile, block_elements=memory.block_elements)
    return {
        "tile": list(found.tile),
        "layout": list(found.layout),
        "cost": found.cost,
        "total_blocks": found.total_blocks * task.groups,
        "blocks": list(found.blocks),
        "order": list(order),
        "tiles": found.tiles,
        "fitting": found.fitting,
        "tied": len(found.tied_tiles),
        "seconds": seconds,
        "least_costs": least.tolist(),
    }


def _families(task: Task, off_chip: OffChipOptimum, on_chip: OnChipOptimum) -> Result:
    if task.study.utilisation_bound:
        on_chip = on_chip_search(task.layer, off_chip.tile, task.accelerator)
    return {name: bests(family) for name, family in sorted(on_chip.families.items())}


def _dataflow(task: Task, off_chip: OffChipOptimum, name: str) -> Result | None:
    """The best of a reference dataflow; None where it has no mapping."""
    try:
        found = on_chip_search(task.layer, off_chip.tile, task.accelerator, dataflow=name)
    except ConfigError:
        return None
    return bests(found.best)


def _baselines(task: Task, off_chip: OffChipOptimum, on_chip: OnChipOptimum) -> list[Result]:
    study, which = task.study, (task.layer, task.accelerator, task.groups)
    found = []
    if study.joint_seconds:
        first = off_chip.tile, on_chip
        found.append(joint_search(*which, first, seconds=study.joint_seconds))
    if study.baseline_seconds:
        found += [
            random_search(*which, seconds=study.baseline_seconds, seed=seed)
            for seed in range(study.baseline_seeds)
        ]
        found.append(brute_force(*which, seconds=study.baseline_seconds))
    return found
