"""Lower references for a workload on an accelerator: what costs are normalised by and held against.

`algorithmic_minimum` is the paper's, to normalise by; `floor` is a true lower bound of this cost
model; `known_optimum` is the proven least EDP, where a proof exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from costmodel.costs import objective_of
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.packing import pack
from costmodel.machines.side_by_side import all_orders, free_groups, in_order
from costmodel.problems.affine import Tensor, Workload
from mapspace.strict_yaml import load_yaml


@dataclass(frozen=True)
class Bound:
    """An energy and a latency, and what the energy is made of.

    Attributes:
        energy_pj: total energy, pJ.
        latency_cycles: cycles.
        level_energy_pj: `[L, T]` energy per level and tensor, pJ.
    """

    energy_pj: float
    latency_cycles: float
    level_energy_pj: npt.NDArray[np.float64]

    @property
    def edp(self) -> float:
        """Energy-delay product, pJ x cycles."""
        return self.energy_pj * self.latency_cycles

    def objective(self, name: str) -> float:
        """The bound on an objective of `Costs.objective`."""
        return objective_of(name, self.energy_pj, self.latency_cycles)


def algorithmic_minimum(workload: Workload, accelerator: Accelerator) -> Bound:
    """The unachievable reference of Mind Mappings, as its released code computes it.

    Every word of every tensor (an input counted without its halo: N x P x Q x C) costs one access
    at each level (of which one serves a block of words), every MAC its energy, and all processing
    elements work all the time.

    Returns:
        The bound; normalised EDP is EDP over its EDP.
    """
    words = np.array([_words_without_halo(workload, tensor) for tensor in workload.tensors])
    energies = np.array([level.word_energy_pj for level in accelerator.levels])
    packing = pack(accelerator, workload.bits_by_tensor)
    level_energy = energies[:, None] * (packing.parts / packing.block) * words[None, :]
    return Bound(
        energy_pj=float(level_energy.sum()) + workload.macs * accelerator.mac_energy_pj,
        latency_cycles=workload.macs / accelerator.processing_elements,
        level_energy_pj=level_energy,
    )


def floor(workload: Workload, accelerator: Accelerator) -> Bound:
    """What no mapping can undercut under this cost model's counting.

    Where every tensor is kept at every level: each MAC reads its inputs from the innermost level
    and updates and reads its output there, unless that level fans out, so that MACs share words;
    each tensor crosses every level once; the first read of an output word is free at every level
    and processing element. A tensor with a sliding window counts one word per position of its other
    axes only: Timeloop credits overlap between tiles such that the window's traffic can fall below
    its distinct words. Where tensors may bypass levels, only the MACs and the outermost level's
    traffic are certain.

    The latency takes every processing element working all the time, or the outermost level's
    bandwidth if that takes longer: the same in every order of buffers side by side, of which that
    counts whose energy is least.
    """
    free = free_groups(accelerator)
    if free:
        machines = (in_order(accelerator, order) for order in all_orders(accelerator, free))
        return min((floor(workload, one) for one in machines), key=lambda bound: bound.energy_pj)
    levels = accelerator.levels
    tensors = workload.tensors
    accesses = np.zeros((len(levels), len(tensors)), dtype=np.int64)
    output = len(tensors) - 1
    certain = [_certain_words(workload, tensor) for tensor in tensors]
    keeps_all = accelerator.bypass == "none" and accelerator.overflow == "invalid"
    elements = accelerator.processing_elements
    spread = math.prod(
        size
        for name, size in workload.dimensions.items()
        if name not in {term for axis in tensors[output].axes for term, _ in axis.terms}
    )
    partial_sums = min(elements, spread)  # copies of an output word that are accumulated apart
    for index in range(len(levels)):
        if index > 0 and not keeps_all:
            break
        innermost = index == len(levels) - 1 and levels[index].fanout == 1
        for t, words in enumerate(certain):
            if innermost and t == output:
                accesses[index, t] = 2 * workload.macs - words * partial_sums
            elif innermost:
                accesses[index, t] = workload.macs + (words if index > 0 else 0)
            elif t == output:
                # Written from below once, and read for the level above; what is read back to be
                # accumulated further is free the first time.
                accesses[index, t] = words
            else:
                accesses[index, t] = words if index == 0 else 2 * words
    if accelerator.further_key is not None or any(workload.bits_by_tensor):
        # Blocks, clusters, bypassed roles, bits: nothing is certain but the work itself.
        accesses[:] = 0
    # Summed in the order of the cost model, so that a mapping that reaches the floor equals it.
    energy = workload.macs * accelerator.mac_energy_pj
    for index, level in enumerate(levels):
        energy += int(accesses[index].sum()) * level.word_energy_pj
    cycles = workload.macs / elements
    outer = levels[0]
    if outer.read_bandwidth is not None and accesses.any():
        cycles = max(cycles, sum(certain[:-1]) / outer.read_bandwidth)
    if outer.write_bandwidth is not None and accesses.any():
        cycles = max(cycles, certain[-1] / outer.write_bandwidth)
    energies = np.array([level.word_energy_pj for level in levels])
    return Bound(float(energy), float(math.ceil(cycles)), accesses * energies[:, None])


def known_optimum(workload: Workload, accelerator: Accelerator) -> float | None:
    """The proven least EDP of the loop-nest model, pJ x cycles; None where no proof is at hand.

    Looked up by content, so that another name of the same problem finds it too.
    """
    return _optima().get((workload.hash, accelerator.hash))


@lru_cache(maxsize=1)
def _optima() -> dict[tuple[str, str], float]:
    table = load_yaml(Path(__file__).parents[1] / "presets" / "optima.yaml")
    return {
        (entry["workload_hash"], entry["accelerator_hash"]): float(entry["edp"])
        for entry in table["optima"]
    }


def _words_without_halo(workload: Workload, tensor: Tensor) -> int:
    return math.prod(workload.dimensions[axis.terms[0][0]] for axis in tensor.axes)


def _certain_words(workload: Workload, tensor: Tensor) -> int:
    """Words of a tensor that must enter every level at least once."""
    words = 1
    for axis in tensor.axes:
        moving = [(name, c) for name, c in axis.terms if workload.dimensions[name] > 1]
        if len(moving) == 1:
            words *= workload.dimensions[moving[0][0]]
    return words
