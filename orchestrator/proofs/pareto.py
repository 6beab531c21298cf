"""The proven energy-latency front of a workload, as a table and a plot."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from costmodel.costs import Objective
from mapspace.arguments import checked
from mapspace.errors import ConfigError, DataError, together
from mapspace.storage import Place, place
from orchestrator.records.found_mapping import FoundMapping, MappingCosts, save_records
from orchestrator.report.figure_style import BLUE, MUTED, RED, plain_figure, save, styled
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import energy_text, latency_text, millijoules, percent
from orchestrator.runs.live import Live
from orchestrator.schemas.proofs import FrontPoint, ParetoAnswer
from orchestrator.store.fronts import keep_front, read_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from costmodel.machines.accelerators import Accelerator, AcceleratorSource
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.affine import Workload
    from costmodel.problems.workloads import WorkloadSource
    from costmodel.space import Codes
    from orchestrator.store.folder import Store


FIRST_OBJECTIVES: tuple[Objective, ...] = ("energy", "latency", "edp")
FIRST_ITERATIONS = 20_000
"""Mappings that structured search scores for each of these before the proof begins."""

MOST_LOST = 100
"""It ends where its walks found no move so often: a space is tiny, and random mappings are slow."""

FIRST_SHARE = 0.1
"""The share of a budget of seconds that it takes for each at most."""


@dataclass(frozen=True)
class FrontMapping(FoundMapping):
    """A mapping that no other beats in energy and latency at once.

    Attributes:
        elements: multiply-accumulate units in use.
        above_least_energy: how far its energy is above the front's least, as a share.
        energy_bound: pJ that no mapping as fast undercuts.
    """

    elements: int
    above_least_energy: float
    energy_bound: float

    @property
    def to_gain(self) -> float:
        """The share of its energy that a mapping as fast could need less at most."""
        return 1 - self.energy_bound / self.costs.energy_pj if self.costs.energy_pj else 0.0

    def to_dict(self) -> FrontPoint:
        """Its row in JSON."""
        return {
            "elements": self.elements,
            **self.costs.to_dict(),
            "above_least_energy": self.above_least_energy,
            "energy_bound_pj": self.energy_bound,
            "record": self.record,
        }


@dataclass(frozen=True, repr=False)
class Front(Shown):
    """A proven front, or what is known of one.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        points: the mappings on it, the fastest first.
        bounds: cycles and energy, pJ, of the corners below which no mapping lies.
        proven: whether the points are all of the front.
        stored: where it was read, and when it was found; None: it was proven now.
    """

    workload: Workload
    accelerator: Accelerator
    points: tuple[FrontMapping, ...]
    bounds: tuple[tuple[int, float], ...]
    proven: bool
    stored: str | None = None

    @property
    def from_store(self) -> bool:
        """Whether it was read from a store, and not proven now."""
        return self.stored is not None

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per point, the fastest first."""
        return [point.record for point in self.points]

    def to_dict(self) -> ParetoAnswer:
        """What `mapspace pareto --json` prints."""
        return {
            "workload": self.workload.name,
            "accelerator": self.accelerator.name,
            "proven": self.proven,
            "from_store": self.from_store,
            "front": [point.to_dict() for point in self.points],
            "bounds": [{"latency_cycles": at, "energy_pj": least} for at, least in self.bounds],
        }

    @checked
    def save(self, path: str | Path | Place) -> None:
        """Writes a mapping record per point as JSON lines, into a file or to a URI."""
        save_records(self.records, place(path))

    def figure(self) -> Figure:
        """The front as a figure of Matplotlib."""
        return front_figure(self)

    def heading(self) -> str:
        """What the front is of."""
        where = f"{self.workload.name} on {self.accelerator.name}"
        if self.proven:
            return f"proven energy-latency front of {where}"
        return f"energy-latency front of {where}, as far as it is known: not proven"

    def facts(self) -> Iterable[Fact]:
        """Both ends."""
        yield "points", f"{len(self.points)}"
        if self.stored is not None:
            yield "from the store", self.stored
        for label, point in (("fastest", self.points[0]), ("least energy", self.points[-1])):
            energy = energy_text(point.costs.energy_pj)
            latency = latency_text(point.costs.latency_cycles, self.accelerator.clock_ghz)
            yield label, f"{latency}, {energy}"

    def rows(self) -> Sequence[FrontPoint]:
        """A row per point."""
        return [point.to_dict() for point in self.points]

    def picture(self) -> str:
        """The table of points."""
        return "\n".join(_table(self))


def front(
    workload: WorkloadSource,
    accelerator: AcceleratorSource = "mm256",
    stream: TextIO | None = None,
    *,
    seconds: float | None = None,
    store: Store | None = None,
) -> Front:
    """Proves the energy-latency front of a workload, or gets as far as the time allows.

    Args:
        workload: what `costmodel.workload` takes: a preset's name, a YAML file, inline text.
        accelerator: what `costmodel.accelerator` takes: a preset's name or a YAML file.
        stream: takes the progress; standard error if None.
        seconds: the most that it may take; None: however long.
        store: where proven fronts are kept and looked for; None: nowhere.

    Raises:
        ConfigError: an unknown name, or a machine whose front cannot be proven, or `seconds` that
            are not positive.
        DataError: no mapping was found in time.
    """
    from costmodel.exact_any.choice import FUNCTIONS, load_prover, why_not_proven
    from costmodel.exact_any.front import Front as Known
    from costmodel.exact_any.front import search_front
    from costmodel.loop_nest.records import mapping_record
    from costmodel.machines.accelerators import accelerator as load_accelerator
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.workloads import workload as load_workload
    from searchers import check_budget

    work, device, _ = together(
        lambda: load_workload(workload),
        lambda: load_accelerator(accelerator),
        lambda: check_budget(None, seconds),
    )
    space = MapSpace(work, device)
    live = Live(stream or sys.stderr)
    stored = None if store is None else read_front(space, store)
    if stored is not None:
        live.line(f"answered from the store: {stored.where}")
        points = stored.points
        known = Known(points, [(one.latency_cycles, one.energy_pj) for one in points], True)
    else:
        # Before any work is spent on it.
        if (reason := why_not_proven(space)) is not None:
            raise ConfigError(reason)
        live.line(f"proving the front of {space.workload.name} on {space.accelerator.name}")
        with live.preparing("loading the exact search", functions=FUNCTIONS):
            load_prover(space)
        started = time.monotonic()
        first = _first_mappings(space, seconds)
        left = None if seconds is None else max(0.0, seconds - (time.monotonic() - started))
        known = search_front(
            space, known=first, seconds=left, say=lambda text: live.update(lambda: f"  {text}")
        )
        live.end()
        if store is not None and known.proven:
            keep_front(space, known.points, time.monotonic() - started, store)
    if not known.points:
        raise DataError(f"No mapping of {space.workload.name} was found in {seconds:g} s.")
    least = min(point.energy_pj for point in known.points)
    clock = space.accelerator.clock_ghz
    found = tuple(
        FrontMapping(
            space.describe(point.code),
            mapping_record(space, point.code),
            MappingCosts(point.energy_pj, point.latency_cycles, clock),
            point.elements,
            point.energy_pj / least - 1 if least else 0.0,
            min(point.energy_pj, known.least_energy(point.latency_cycles)),
        )
        for point in known.points
    )
    where = None if stored is None else stored.where
    bounds = tuple(known.bounds)
    return Front(space.workload, space.accelerator, found, bounds, known.proven, where)


def _first_mappings(space: MapSpace, seconds: float | None) -> list[Codes]:
    """What structured search finds soon for one objective after another: a proof rules out more."""
    from costmodel.loop_nest.model import LoopNestModel
    from searchers import Evaluator
    from searchers.structured import Structured, StructuredOptions

    found: list[Codes] = []
    for objective in FIRST_OBJECTIVES:
        limit = None if seconds is None else seconds * FIRST_SHARE
        evaluator = Evaluator(
            LoopNestModel(), space, objective=objective, iterations=FIRST_ITERATIONS, seconds=limit
        )
        searcher = Structured(space, StructuredOptions(), seed=0)
        while evaluator.remaining > 0 and searcher.lost < MOST_LOST:
            evaluator.walk(searcher.walk)
        if evaluator.best_code is not None:
            found.append(evaluator.best_code)
    return found


def front_text(result: Front) -> str:
    """A front for people."""
    where = [] if result.stored is None else [f"from the store  {result.stored}"]
    return "\n".join([result.heading(), *_table(result), *where])


def _table(result: Front) -> Iterator[str]:
    to_gain = "" if result.proven else f"{'to gain':>11}"
    yield (
        f"{'elements':>9}{'cycles':>16}{'time, ms':>14}{'energy, mJ':>14}{'above least':>13}"
        f"{'power, W':>11}{'EDP, J s':>14}{to_gain}"
    )
    for point in result.points:
        costs = point.costs
        to_gain = "" if result.proven else f"{percent(point.to_gain):>11}"
        yield (
            f"{point.elements:>9,}{costs.latency_cycles:>16,}{1e3 * costs.latency_s:>14.6g}"
            f"{millijoules(costs.energy_pj):>14.6g}{percent(point.above_least_energy):>13}"
            f"{costs.power_w:>11.4g}{costs.edp_js:>14.6g}{to_gain}"
        )
    if not result.proven:
        yield from _left(result)


def _left(result: Front) -> Iterator[str]:
    """What the columns leave out of a front that is not proven."""
    yield "to gain: a mapping as fast needs so much less energy at most"
    fewest, fastest = result.bounds[0][0], result.points[0].costs.latency_cycles
    if fewest < fastest:
        yield f"no mapping takes fewer than {fewest:,} cycles"
    slower, least = result.points[-1], result.bounds[-1][1]
    if least < slower.energy_bound:
        yield f"no mapping, however slow, needs less than {millijoules(least):.6g} mJ"


def draw_front(result: Front, path: Path) -> None:
    """Draws a front into a PNG file."""
    save(front_figure(result), path)


@styled
def front_figure(result: Front) -> Figure:
    """A front as steps: what lies below and left of them cannot be had.

    The energies of a front are often within a fraction of a per cent, so they are drawn above the
    least one.
    """
    time = [1e3 * point.costs.latency_s for point in result.points]
    above = [100 * point.above_least_energy for point in result.points]
    least = millijoules(min(point.costs.energy_pj for point in result.points))
    figure = plain_figure(6.4, 4.2)
    panel = figure.subplots()
    if not result.proven:
        _draw_bounds(result, panel)
    panel.step(time, above, where="post", color=BLUE)
    panel.plot(time, above, "o", color=BLUE, markersize=4)
    best = min(range(len(time)), key=lambda i: result.points[i].costs.edp)
    panel.plot(time[best], above[best], "*", color=RED, markersize=12, label="least EDP")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    # Within a decade there are few powers of ten; beyond it the places between them have no room.
    near = max(time) < 10 * min(time)
    panel.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if near else "")
    panel.ticklabel_format(axis="y", useOffset=False, style="plain")
    panel.set_xlabel("latency, ms")
    panel.set_ylabel(f"energy, % above the least of {least:.6g} mJ")
    known = "Proven front" if result.proven else "What is known of the front"
    title = f"{known} of {result.workload.name} on {result.accelerator.name}"
    panel.set_title(title, parse_math=False)
    panel.legend()
    return figure


def _draw_bounds(result: Front, panel: Axes) -> None:
    """What no mapping is below, from the fewest cycles to the slowest mapping known."""
    least = min(point.costs.energy_pj for point in result.points)
    first, last = (result.points[i].costs for i in (0, -1))
    scale = 1e3 * first.latency_s / first.latency_cycles
    corners = [corner for corner in result.bounds if corner[0] <= last.latency_cycles]
    corners.append((int(last.latency_cycles), corners[-1][1]))
    time = [scale * max(1, at) for at, _ in corners]
    above = [100 * (energy / least - 1) for _, energy in corners]
    panel.step(time, above, "--", where="post", color=MUTED, label="no mapping is below")
