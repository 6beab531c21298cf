"""Draws training samples: random problems, random feasible mappings, their normalised costs.

Letters: `B` mappings, `D` attributes, `F` raw values per point, `O` costs, `L` levels, `T` tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.costs import Costs
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, ContractError
from surrogate.problems import ProblemRanges

Float32Array = npt.NDArray[np.float32]

SMALLEST_COST = 1e-6
"""Below every positive normalised cost; stands for a cost of zero in logarithms."""
MOST_DRAWS_PER_MAPPING = 2000
"""A problem with fewer than one feasible mapping in this many is replaced by another one."""
MOST_PROBLEMS_REPLACED = 50
"""In a row; after so many the ranges do not fit the accelerator."""


@dataclass(frozen=True)
class Samples:
    """Encoded points and their costs, rows of one problem next to each other.

    Attributes:
        inputs: [B, F] float32 encoded points.
        costs: [B, O] float32 costs over the algorithmic minimum, in the order of `cost_names`.
    """

    inputs: Float32Array
    costs: Float32Array


def cost_names(space: MapSpace) -> tuple[str, ...]:
    """Names of the costs, [O], O = L T + 3: 12 for a CNN layer on three levels, 15 for MTTKRP."""
    energies = [
        f"energy.{level.name}.{tensor}"
        for level in space.accelerator.levels
        for tensor in space.workload.tensor_names
    ]
    return (*energies, "utilisation", "energy", "cycles")


def normalised_costs(space: MapSpace, costs: Costs) -> Float32Array:
    """Costs [B, O] over the algorithmic minimum, from an evaluation with detail.

    The energy of a tensor at a level is divided by the least energy of that tensor at that level,
    total energy and cycles by their minima; utilisation is a share already (Hegde et al., Mind
    Mappings, ASPLOS 2021, section 4.1.3).

    Raises:
        ContractError: If the evaluation has no detail or an infeasible row.
    """
    if costs.detail is None or not costs.ok.all():
        raise ContractError("normalised_costs needs feasible mappings, evaluated with detail=True.")
    least = algorithmic_minimum(space.workload, space.accelerator)
    # A level without energy cost stays at zero.
    unit = np.where(least.level_energy_pj > 0, least.level_energy_pj, 1.0)
    batch = len(costs.energy_pj)
    columns = [
        (costs.detail.energy_pj / unit).reshape(batch, -1),
        costs.detail.utilisation[:, None],
        costs.energy_pj[:, None] / least.energy_pj,
        costs.latency_cycles[:, None] / least.latency_cycles,
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def draw(
    ranges: ProblemRanges,
    accelerator: Accelerator,
    rng: np.random.Generator,
    *,
    problems: int,
    mappings_per_problem: int,
) -> Samples:
    """Draws problems and, for each, mappings uniform among its feasible ones.

    Args:
        ranges: What problems to draw.
        accelerator: What they run on.
        rng: The only source of randomness.
        problems: How many problems.
        mappings_per_problem: Mappings of each, repeats possible.

    Raises:
        ConfigError: If problem after problem has hardly any feasible mapping.
    """
    model = LoopNestModel()
    inputs: list[Float32Array] = []
    costs: list[Float32Array] = []
    replaced = 0
    while len(inputs) < problems:
        space = MapSpace(ranges.draw(rng), accelerator)
        codes = _feasible(space, rng, mappings_per_problem)
        if codes is None:
            replaced += 1
            if replaced > MOST_PROBLEMS_REPLACED:
                raise ConfigError(
                    f"{replaced} {ranges.family} problems in a row have hardly any feasible "
                    f"mapping on {accelerator.name} (the last: {space.workload.name}); draw "
                    "smaller sizes."
                )
            continue
        replaced = 0
        inputs.append(space.encode(codes))
        costs.append(normalised_costs(space, model.evaluate(space, codes, detail=True)))
    return Samples(np.concatenate(inputs), np.concatenate(costs))


def _feasible(
    space: MapSpace, rng: np.random.Generator, count: int
) -> npt.NDArray[np.int32] | None:
    """Codes [count, D], uniform among the feasible ones, or None after too many draws."""
    if len(space.accelerator.levels) != 3:
        # Hardly anything drawn fits small buffers. Shards of three levels stay what they are.
        try:
            return space.sample(rng, count, feasible=True)
        except ConfigError:
            return None
    kept = []
    found = drawn = 0
    share = 0.1
    while found < count:
        if drawn >= MOST_DRAWS_PER_MAPPING * count:
            return None
        batch = min(math.ceil(1.1 * (count - found) / share), 100 * count)
        codes = space.sample(rng, batch)
        codes = codes[space.feasible(codes)]
        kept.append(codes)
        found += len(codes)
        drawn += batch
        share = max(found / drawn, 1 / MOST_DRAWS_PER_MAPPING)
    return np.concatenate(kept)[:count]
