"""The proven energy-latency front of a workload, as a table and a plot."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mapspace.storage import Place, place
from orchestrator.records.found_mapping import FoundMapping, MappingCosts, save_records
from orchestrator.report.figure_style import BLUE, RED, plain_figure, save, styled
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import energy_text, latency_text, millijoules, percent
from orchestrator.runs.live import Live
from orchestrator.schemas.proofs import FrontPoint, ParetoAnswer
from orchestrator.store.fronts import keep_front, read_front

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from costmodel.accelerators import Accelerator, AcceleratorSource
    from costmodel.affine import Workload
    from costmodel.workloads import WorkloadSource
    from orchestrator.store.folder import Store


@dataclass(frozen=True)
class FrontMapping(FoundMapping):
    """A mapping that no other beats in energy and latency at once.

    Attributes:
        elements: multiply-accumulate units in use.
        above_least_energy: how far its energy is above the front's least, as a share.
    """

    elements: int
    above_least_energy: float

    def to_dict(self) -> FrontPoint:
        """Its row in JSON."""
        return {
            "elements": self.elements,
            **self.costs.to_dict(),
            "above_least_energy": self.above_least_energy,
            "record": self.record,
        }


@dataclass(frozen=True, repr=False)
class Front(Shown):
    """A proven front.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        points: the mappings on it, the fastest first.
        stored: where it was read, and when it was found; None: it was proven now.
    """

    workload: Workload
    accelerator: Accelerator
    points: tuple[FrontMapping, ...]
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
            "proven": True,
            "from_store": self.from_store,
            "front": [point.to_dict() for point in self.points],
        }

    def save(self, path: str | Path | Place) -> None:
        """Writes a mapping record per point as JSON lines, into a file or to a URI."""
        save_records(self.records, place(path))

    def figure(self) -> Figure:
        """The front as a figure of Matplotlib."""
        return front_figure(self)

    def heading(self) -> str:
        """What the front is of."""
        where = f"{self.workload.name} on {self.accelerator.name}"
        return f"proven energy-latency front of {where}"

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
    store: Store | None = None,
) -> Front:
    """Proves the energy-latency front of a workload.

    Args:
        workload: what `costmodel.workload` takes: a preset's name, a YAML file, inline text.
        accelerator: what `costmodel.accelerator` takes: a preset's name or a YAML file.
        stream: takes the progress; standard error if None.
        store: where fronts are kept and looked for; None: nowhere.

    Raises:
        ConfigError: an unknown name, or a machine whose front cannot be proven.
    """
    from costmodel.accelerators import accelerator as load_accelerator
    from costmodel.exact_any.front import prove_front
    from costmodel.loop_nest.records import mapping_record
    from costmodel.map_space.map_space import MapSpace
    from costmodel.workloads import workload as load_workload

    space = MapSpace(load_workload(workload), load_accelerator(accelerator))
    live = Live(stream or sys.stderr)
    stored = None if store is None else read_front(space, store)
    if stored is not None:
        live.line(f"answered from the store: {stored.where}")
        points = stored.points
    else:
        live.line(f"proving the front of {space.workload.name} on {space.accelerator.name}")
        started = time.monotonic()
        points = prove_front(space, say=lambda text: live.update(lambda: f"  {text}"))
        live.end()
        if store is not None:
            keep_front(space, points, time.monotonic() - started, store)
    least = min(point.energy_pj for point in points)
    clock = space.accelerator.clock_ghz
    found = tuple(
        FrontMapping(
            space.describe(point.code),
            mapping_record(space, point.code),
            MappingCosts(point.energy_pj, point.latency_cycles, clock),
            point.elements,
            point.energy_pj / least - 1,
        )
        for point in points
    )
    where = None if stored is None else stored.where
    return Front(space.workload, space.accelerator, found, where)


def front_text(result: Front) -> str:
    """A front for people."""
    where = [] if result.stored is None else [f"from the store  {result.stored}"]
    return "\n".join([result.heading(), *_table(result), *where])


def _table(result: Front) -> Iterator[str]:
    yield (
        f"{'elements':>9}{'cycles':>16}{'time, ms':>14}{'energy, mJ':>14}{'above least':>13}"
        f"{'power, W':>11}{'EDP, J s':>14}"
    )
    for point in result.points:
        costs = point.costs
        yield (
            f"{point.elements:>9,}{costs.latency_cycles:>16,}{1e3 * costs.latency_s:>14.6g}"
            f"{millijoules(costs.energy_pj):>14.6g}{percent(point.above_least_energy):>13}"
            f"{costs.power_w:>11.4g}{costs.edp_js:>14.6g}"
        )


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
    title = f"Proven front of {result.workload.name} on {result.accelerator.name}"
    panel.set_title(title, parse_math=False)
    panel.legend()
    return figure
