"""Marvel without the pruning of prologues and epilogues (the variant of its Figure 8).

Level-1 tiles and factors then need not divide the level-3 tile. Only fidelity `corrected` counts
remainders, so that the variant is held to the best of the dividing mappings at that same fidelity.
Neither has a bound on the utilisation.
"""

from __future__ import annotations

import math
import time
from typing import Any

from costmodel.costs import Objective
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import OnChipSpace, Pruning, on_chip_search
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.model import MaestroModel
from costmodel.maestro.on_chip_search import OBJECTIVES, Best, model_of
from orchestrator.marvel.rows import bests
from searchers import Evaluator, make

_TILINGS_PER_SECOND = 500_000  # about the fastest that an enumeration has been
_OBJECTIVES: dict[str, Objective] = {"runtime": "latency", "energy": "energy", "edp": "edp"}


def remainder_search(
    layer: Layer, tile: tuple[int, ...], machine: Accelerator, *, seconds: float
) -> dict[str, Any]:
    """The best mappings of a level-3 tile with remainders, as far as the time allows.

    Where there are few enough combinations of tiles and factors, half of the time is for their
    enumeration. Unless it comes to its end, what is left goes to a genetic search for each
    objective. The dividing mappings are among those with remainders, so that what is found is
    never worse than the reference.

    Args:
        layer: the layer.
        tile: `[6]` level-3 tile.
        machine: the accelerator.
        seconds: budget.
    """
    model = model_of(machine, fidelity="corrected")
    reference = on_chip_search(layer, tile, machine, model=model)
    started = time.perf_counter()
    space = OnChipSpace(layer, tile, machine, remainders=True)
    candidates, proven = [reference.best], False
    if math.prod(map(len, space.pairs)) <= _TILINGS_PER_SECOND * seconds:
        found = on_chip_search(
            layer,
            tile,
            machine,
            pruning=Pruning(no_remainders=False),
            model=model,
            seconds=seconds / 2,
        )
        proven = found.complete
        candidates.append(found.best)
    if not proven:
        each = max(0.001, seconds - (time.perf_counter() - started)) / len(OBJECTIVES)
        genetic = {name: _genetic(space, model, name, each) for name in OBJECTIVES}
        candidates.append({name: one for name, one in genetic.items() if one is not None})
    best = {
        name: min((some[name] for some in candidates if name in some), key=lambda one: one.value)
        for name in OBJECTIVES
    }
    return {
        "best": bests(best),
        "seconds": time.perf_counter() - started,
        "budget_s": seconds,
        "proven": proven,
        "reference": bests(reference.best),
        "reference_seconds": reference.seconds,
    }


def _genetic(
    space: OnChipSpace, model: MaestroModel, objective: str, seconds: float
) -> Best | None:
    """What the search has found; None if it had no time to find anything that runs."""
    evaluator = Evaluator(model, space, objective=_OBJECTIVES[objective], seconds=seconds)
    make("genetic", space, seed=0).run(evaluator)
    result = evaluator.result()
    if result.best_code is None or not math.isfinite(result.best_loss):
        return None
    mapping = space.mappings(result.best_code[None])
    costs = model.cost(mapping)
    runtime, energy = int(costs.counts.runtime_cycles[0]), float(costs.energies.total[0])
    value = {"runtime": float(runtime), "energy": energy, "edp": energy * runtime}[objective]
    return Best(value, runtime, energy, mapping)
