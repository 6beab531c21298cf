"""What decoupling costs: the best level-3 tile and on-chip mapping of a layer, found together.

One tile after another is searched completely, the most promising first. Tiles whose bounds exclude
a better answer are passed over, so that an answer that is `complete` is, to 1 part in 10^9, the
optimum of the space of `baselines`, in MAESTRO's runtime and energy. Letters as there.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import OnChipOptimum, on_chip_search
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.mappings import TILED_COLUMNS
from costmodel.maestro.model import MaestroModel
from costmodel.maestro.on_chip_search import OBJECTIVES, model_of
from costmodel.tile_chains.lattice import divisors_of
from orchestrator.marvel.baselines import JointSpace, placed
from orchestrator.marvel.rows import Result, scaled

FloatArray = npt.NDArray[np.float64]
_BETTER = 1 - 1e-9  # an answer less than this much better is none: of equal tiles one is searched


def joint_search(
    layer: Layer,
    machine: Accelerator,
    groups: int,
    first: tuple[tuple[int, ...], OnChipOptimum],
    *,
    seconds: float,
) -> Result:
    """The best over all level-3 tiles, proven where it is complete.

    Args:
        layer: the layer.
        machine: the accelerator.
        groups: how often the layer runs.
        first: a level-3 tile with what was found for it, such as Marvel's own.
        seconds: budget.
    """
    started = time.perf_counter()
    space, model = JointSpace(layer, machine), model_of(machine)
    best: dict[str, tuple[float, int]] = {}
    evaluated = searched = 0

    def keep(index: int, found: OnChipOptimum) -> None:
        for name, one in found.best.items():
            value = scaled(name, one.value, groups * int(space.counts[index]))
            if name not in best or value < best[name][0]:
                best[name] = value, index

    keep(int(np.flatnonzero((space.tiles == first[0]).all(axis=1))[0]), first[1])
    bounds = least_values(space, model, groups)
    promise = np.min([bounds[name] / best[name][0] for name in OBJECTIVES], axis=0)
    complete = True
    for index in np.argsort(promise, kind="stable").tolist():
        least = {name: float(values[index]) for name, values in bounds.items()}
        work = groups * int(space.counts[index]) * least_compute_cycles(space, index)
        least["runtime"] = max(least["runtime"], work)
        least["edp"] = least["runtime"] * least["energy"]
        hopeful = [name for name in OBJECTIVES if least[name] < best[name][0] * _BETTER]
        if not hopeful:
            continue
        remaining = seconds - (time.perf_counter() - started)
        if remaining <= 0:
            complete = False
            break
        tile = tuple(space.tiles[index].tolist())
        found = on_chip_search(layer, tile, machine, objectives=hopeful, seconds=remaining)
        keep(index, found)
        evaluated, searched = evaluated + found.evaluated, searched + 1
        complete &= found.complete
    return {
        "method": "joint",
        "seconds": time.perf_counter() - started,
        "complete": complete,
        "evaluated": evaluated,
        "tiles": searched,
        "fitting": len(space.tiles),
        "best": {
            name: {"value": value, **placed(space, index)} for name, (value, index) in best.items()
        },
    }


def least_values(space: JointSpace, model: MaestroModel, groups: int) -> dict[str, FloatArray]:
    """`[T]` by objective: what no mapping of a level-3 tile makes the layer cost less than.

    Every weight and every input that some output uses goes to the array at least once and every
    output comes back at least once per tile; none of a tile's work is done with more than all
    processing elements. MAESTRO, too, counts no fewer (`Walk.least_reads`).
    """
    layer, tiles = space.layer, space.tiles
    k, c, r, s, p, q = tiles.T
    step_x, step_y = min(layer.stride, int(s[0])), min(layer.stride, int(r[0]))
    x = p * step_x + max(int(s[0]) - layer.stride, 0)
    y = q * step_y + max(int(r[0]) - layer.stride, 0)
    weights, inputs = k * c * r * s, x * y * c
    outputs = p * q * (c if layer.depthwise else k)
    macs = tiles.prod(axis=1)
    repeats = groups * space.counts
    runtime = np.maximum(
        macs / space.platform.processing_elements,
        (weights + inputs) / space.platform.noc_bandwidth,
    )
    access = model.l1_access_units + model.l2_access_units
    energy = macs * (model.mac_units + 4 * model.l1_access_units)
    energy = energy + access * (weights + inputs)
    energy = energy + model.l2_access_units * (weights + inputs + 2 * outputs)
    whole = {"runtime": repeats * runtime, "energy": repeats * energy}
    return {**whole, "edp": whole["runtime"] * whole["energy"]}


def least_compute_cycles(space: JointSpace, index: int) -> float:
    """Cycles of a tile's work with the most elements that its factors can put to work."""
    limit = space.platform.processing_elements
    reached = {1}
    for column in TILED_COLUMNS:
        factors = divisors_of(int(space.tiles[index, column]))
        reached = {a * b for a in reached for b in factors if a * b <= limit}
    return float(space.tiles[index].prod()) / max(reached)
