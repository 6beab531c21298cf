"""Machines and layers at random, of which the machine-conditioned surrogate learns some.

A case is decided by its index alone, in any process. Cases of `HELD_OUT` and `HELD_OUT_DEEPER` were
fixed before the first training and are never trained on, nor is anything chosen by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import cnn, gemm, mttkrp

SEED = 20_261_123
"""Of all cases."""
TRAINING = range(4000)
"""Machines of two to four levels, three in half of the cases."""
CALIBRATION = range(10_000, 10_100)
"""As `TRAINING`: they decide how wide intervals are, and when a training is good enough."""
HELD_OUT = range(20_000, 20_100)
"""Machines of three levels."""
HELD_OUT_DEEPER = range(30_000, 30_050)
"""Machines of two and of four levels."""
HELD_OUT_GIVEN = range(40_000, 40_050)
"""Layers that judge a training for given machines."""

ROLES = ("input", "weight", "output")
FAN_OUTS = ((4, 4), (8, 8), (14, 12), (16, 16), (32, 16), (32, 32), (256, 1))
CHANNELS = (3, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 576, 768, 1024, 2048)
OUTPUT_SIZES = (1, 4, 7, 8, 13, 14, 16, 27, 28, 32, 54, 56, 64, 112)


@dataclass(frozen=True)
class Case:
    """A layer on a machine.

    Attributes:
        index: which case it is.
        workload: the layer.
        accelerator: the machine.
    """

    index: int
    workload: Workload
    accelerator: Accelerator


def case(index: int, given: Sequence[Accelerator] = ()) -> Case:
    """The case of an index: the same in any process.

    Args:
        index: which one.
        given: machines that take turns in place of random ones.
    """
    rng = np.random.default_rng([SEED, index])
    if index in HELD_OUT:
        levels = 3
    elif index in HELD_OUT_DEEPER:
        levels = int(rng.choice([2, 4]))
    else:
        levels = int(rng.choice([2, 3, 4], p=[0.2, 0.5, 0.3]))
    machine = accelerator(draw_machine(rng, levels, f"case-{index}"))
    return Case(index, draw_layer(rng), given[index % len(given)] if given else machine)


def draw_machine(rng: np.random.Generator, levels: int, name: str) -> dict[str, Any]:
    """A machine's file: sizes, energies, bandwidths, fan-outs and who keeps what, at random.

    Args:
        rng: the only source of randomness.
        levels: memories, at least 2; the outermost has no limit.
        name: what the machine is called.
    """
    inner = levels - 1
    # Outer memories are the larger ones; each takes its part of the way from 2^6 to 2^20 words.
    exponents = np.sort(rng.uniform(6, 20, size=inner))[::-1]
    # An access of an outer memory costs at least as much as one further in.
    energies = np.sort(np.exp(rng.uniform(np.log(0.3), np.log(20), size=inner)))[::-1]
    wide = int(rng.integers(inner)) if inner > 1 else 0
    entries: list[dict[str, Any]] = []
    for level in range(levels):
        entry: dict[str, Any] = {"name": "DRAM" if level == 0 else f"L{inner - level + 1}"}
        if level == 0:
            energy = float(np.exp(rng.uniform(np.log(40), np.log(400))))
        else:
            entry["capacity_words"] = int(2 ** exponents[level - 1])
            energy = float(energies[level - 1])
        entry["energy_pj"] = _energy(rng, energy)
        entry |= _bandwidths(rng, level, levels)
        if level == wide + (inner > 1):
            width, height = FAN_OUTS[int(rng.integers(len(FAN_OUTS)))]
            entry |= {"fanout": width * height, "mesh": [width, height]}
        elif level == levels - 1 and rng.random() < 0.25:
            entry["fanout"] = int(rng.choice([4, 8, 16]))
        if level > 0 and rng.random() < 0.25:
            entry["bypass"] = [str(rng.choice(ROLES))]
        entries.append(entry)
    mac = round(float(np.exp(rng.uniform(np.log(0.2), np.log(3)))), 3)
    return {"name": name, "mac_energy_pj": mac, "levels": entries}


def _energy(rng: np.random.Generator, energy: float) -> float | dict[str, float]:
    """One number for every access, or, of a fifth of the memories, one for each kind."""
    if rng.random() < 0.8:
        return round(energy, 3)
    factors = rng.uniform(0.5, 1.5, size=3)
    names = ("read", "fill", "update")
    return {name: round(energy * float(f), 3) for name, f in zip(names, factors, strict=True)}


def _bandwidths(rng: np.random.Generator, level: int, levels: int) -> dict[str, float]:
    """No limit for half of the memories, else of reads and writes apart or together."""
    if rng.random() < 0.5:
        return {}
    least, most = (2, 7) if level == 0 else (3, 9) if level < levels - 1 else (0, 4)
    words = [float(2 ** int(rng.integers(least, most))) for _ in range(2)]
    if rng.random() < 0.5:
        return {"bandwidth": words[0]}
    return {"read_bandwidth": words[0], "write_bandwidth": words[1]}


def draw_layer(rng: np.random.Generator) -> Workload:
    """A convolution in six of ten cases, one of them by groups; a matrix product, an MTTKRP."""
    kind = rng.random()
    sizes: dict[str, Any]
    if kind < 0.2:
        sizes = {name: int(2 ** rng.integers(3, 13)) for name in "MNK"}
        return gemm(**sizes)
    if kind < 0.3:
        sizes = {name: 128 * int(rng.integers(1, 32)) for name in "IJKL"}
        return mttkrp(**sizes)
    filters = int(rng.choice([1, 3, 5, 7], p=[0.35, 0.45, 0.1, 0.1]))
    outputs = int(rng.choice(OUTPUT_SIZES))
    stride = int(rng.choice([1, 2], p=[0.75, 0.25]))
    images = int(rng.choice([1, 4, 16], p=[0.6, 0.2, 0.2]))
    sizes = {"N": images, "P": outputs, "Q": outputs, "R": filters, "S": filters, "stride": stride}
    if kind < 0.4:
        sizes |= {"K": 1, "C": 1, "groups": int(rng.choice(CHANNELS))}
    else:
        sizes |= {name: int(rng.choice(CHANNELS)) for name in "KC"}
    return cnn(**sizes)
