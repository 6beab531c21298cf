"""Small parts of compiled code that allocates nothing: random numbers, copies.

Random numbers are splitmix64's, a stream whose whole state is one number (Steele, Lea & Flood,
"Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.compiled import part

Stream = npt.NDArray[np.uint64]


@part
def draw(stream: Stream) -> np.uint64:
    """Next 64 random bits of a stream `[1]`, which moves on."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    z = stream[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits: np.uint64 = z ^ (z >> np.uint64(31))
    return bits


@part
def uniform(stream: Stream) -> float:
    """Uniform in [0, 1)."""
    return np.float64(draw(stream) >> np.uint64(11)) * 2.0**-53


@part
def below(stream: Stream, count: int) -> int:
    """Uniform integer in 0..count-1, for counts below 2^32."""
    number: Any = np.int64(((draw(stream) >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
    return number


@part
def copy(values: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    """Overwrites a target `[m]`; an assignment of slices would allocate."""
    for i in range(target.size):
        target[i] = values[i]
