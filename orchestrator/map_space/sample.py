"""Random mappings of map spaces: drawn uniformly among the feasible ones, and what they cost.

Letter: S samples.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from costmodel.costs import STATUS_OK, explain_status
from costmodel.exact.infeasible import why_infeasible
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.runs.live import Live
from orchestrator.schemas.spaces import SampleAnswer, Statistics

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator

FloatArray = npt.NDArray[np.float64]

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# Mappings drawn at a time: a moment's work.
BATCH = 1 << 16
# A space of which less than so much is feasible is described by fewer samples than were asked for.
DRAWS_PER_SAMPLE = 200
# As the data of the paper has them (10 million samples of 20,000 problems).
MAPPINGS_PER_PROBLEM = 500
PROBLEMS_AT_A_TIME = 20


@dataclass(frozen=True)
class Sample:
    """What feasible mappings, drawn uniformly, cost, over the algorithmic minimum.

    Attributes:
        energy: `[S]`.
        cycles: `[S]`.
        drawn: mappings drawn for them, infeasible ones included; None where that is not counted.
        rejected: of those, how many for which reason.
        best: `[D]` the code of the least EDP; None where there are several spaces.
    """

    energy: FloatArray
    cycles: FloatArray
    drawn: int | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    best: Codes | None = None

    @property
    def edp(self) -> FloatArray:
        """`[S]` normalised energy-delay product."""
        return self.energy * self.cycles

    def summary(self) -> SampleAnswer:
        """Statistics of energy, cycles and EDP; with the feasible share where it is known."""
        share = len(self.energy) / self.drawn if self.drawn else None
        return {
            "samples": len(self.energy),
            "drawn": self.drawn,
            "feasible_share": share,
            "rejected": self.rejected,
            "energy": statistics(self.energy),
            "cycles": statistics(self.cycles),
            "edp": statistics(self.edp),
        }


def statistics(values: FloatArray) -> Statistics:
    """Mean, standard deviation, extremes and quantiles of values `[S]`, S at least 1."""
    found = {
        "mean": float(values.mean()),
        "standard_deviation": float(values.std()),
        "minimum": float(values.min()),
        "maximum": float(values.max()),
    }
    for share, value in zip(QUANTILES, np.quantile(values, QUANTILES), strict=True):
        found["median" if share == 0.5 else f"quantile_{share:g}"] = float(value)
    return cast(Statistics, found)


def sample_space(
    space: MapSpace, samples: int, seed: int, live: Live, stop: threading.Event
) -> Sample:
    """Draws mappings uniformly until so many are feasible, and evaluates those.

    Fewer are returned after an interruption, or where hardly any mapping is feasible.

    Raises:
        ConfigError: none is feasible, or none needs energy.
    """
    problem = why_infeasible(space)
    if problem is not None:
        raise ConfigError(problem)
    rng = np.random.default_rng(seed)
    model = LoopNestModel()
    minimum = algorithmic_minimum(space.workload, space.accelerator)
    if not minimum.energy_pj:
        raise ConfigError(
            f"{space.accelerator.name} needs no energy for {space.workload.name}: mappings are "
            "described by how much more they need than the least."
        )
    energy, cycles = np.empty(samples), np.empty(samples)
    rejected: dict[int, int] = {}
    found = drawn = 0
    least, best = math.inf, None

    def progress() -> str:
        return f"  {space.workload.name}: {found:,} of {samples:,} feasible mappings"

    while found < samples and drawn < DRAWS_PER_SAMPLE * max(samples, BATCH):
        if stop.is_set() and found > 0:
            break
        codes = space.sample(rng, min(BATCH, 1024 + 8 * samples))
        status, _ = space.status(codes)
        ok = np.flatnonzero(status == STATUS_OK)
        if found + ok.size >= samples:
            # What was drawn after the last sample does not count.
            ok = ok[: samples - found]
            status = status[: ok[-1] + 1]
        costs = model.evaluate(space, codes[ok])
        energy[found : found + ok.size] = costs.energy_pj / minimum.energy_pj
        cycles[found : found + ok.size] = costs.latency_cycles / minimum.latency_cycles
        if ok.size and costs.edp.min() < least:
            least, best = float(costs.edp.min()), codes[ok[costs.edp.argmin()]]
        found += ok.size
        drawn += status.size
        for value, count in zip(*np.unique(status, return_counts=True), strict=True):
            rejected[int(value)] = rejected.get(int(value), 0) + int(count)
        live.update(progress)
    if found == 0:
        raise ConfigError(
            f"None of {drawn:,} random mappings of {space.workload.name} on "
            f"{space.accelerator.name} is feasible."
        )
    names = space.accelerator.level_names
    reasons = {
        explain_status(status, 0, names).partition(" exceeded")[0]: count
        for status, count in sorted(rejected.items())
        if status != STATUS_OK
    }
    return Sample(energy[:found], cycles[:found], drawn, reasons, best)


def check_family(family: str) -> None:
    """Refuses a family of problems that is none, or without ranges to draw from.

    Raises:
        ArgumentError: those that there are.
    """
    from surrogate.problems import PAPER_RANGES

    if family not in PAPER_RANGES:
        raise ArgumentError(
            "family",
            f": expected one of {', '.join(PAPER_RANGES)}, got {family!r}: only these have ranges "
            "of sizes to draw problems from.",
        )


def sample_family(
    family: str, device: Accelerator, samples: int, seed: int, live: Live, stop: threading.Event
) -> tuple[Sample, int]:
    """Draws problems of a family as `mapspace generate` does, and mappings of each.

    Returns:
        The sample, 500 mappings per problem, and how many problems it has.

    Raises:
        ConfigError: problems of which hardly any mapping is feasible, or what `check_family` does.
    """
    from surrogate.problems import ProblemRanges
    from surrogate.samples import draw

    check_family(family)
    ranges = ProblemRanges.model_validate({"family": family})
    rng = np.random.default_rng(seed)
    per_problem = min(MAPPINGS_PER_PROBLEM, samples)
    problems = math.ceil(samples / per_problem)
    parts: list[npt.NDArray[np.float32]] = []
    done = 0

    def progress() -> str:
        return f"  {family}: {done:,} of {problems:,} problems"

    while done < problems and not (stop.is_set() and done > 0):
        count = min(PROBLEMS_AT_A_TIME, problems - done)
        drawn = draw(ranges, device, rng, problems=count, mappings_per_problem=per_problem)
        parts.append(drawn.costs[:, -2:])
        done += count
        live.update(progress)
    costs = np.concatenate(parts).astype(np.float64)[:samples]
    return Sample(costs[:, 0].copy(), costs[:, 1].copy()), done
