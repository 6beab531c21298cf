"""What the search of a network that keeps tensors on the chip returns, and what that is worth."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from costmodel.accelerators import Accelerator
from costmodel.chains import Step, load_chain
from costmodel.exact.objective import KINDS
from costmodel.exact_any.weighted import Point
from costmodel.loop_nest.records import mapping_record
from costmodel.resident import shared_buffer
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, place
from orchestrator.answers.request import Request
from orchestrator.networks.jointly import Optimum
from orchestrator.networks.resident import LEAST_SECONDS, Resident, Way, Ways, begin
from orchestrator.networks.search_jointly import SECONDS
from orchestrator.records.found_mapping import MappingCosts, save_records
from orchestrator.report.document import LEFT, Table
from orchestrator.report.shown import Fact, Shown, aligned
from orchestrator.report.text_table import table_lines
from orchestrator.report.units import energy_text, latency_text, millijoules, percent, value_text
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.schemas.search import ResidentAnswer, ResidentLayer

HEADER = ("layer", "count", "reads from", "output", "words on chip", "energy, mJ", "cycles")
FORMATS = (LEFT, "{:,}", LEFT, LEFT, "{:,}", "{:.5g}", "{:,.0f}")


@dataclass(frozen=True, repr=False)
class ResidentOptimum(Shown):
    """Mappings of a network's layers and the tensors that stay on the chip, chosen together.

    Attributes:
        network: its name.
        accelerator: the machine.
        steps: the layers in their order.
        path: how each runs.
        found: the choice, a mapping per step, and what bounds it.
        alone: the same where nothing stays.
        interrupted: whether an interruption ended it.
    """

    network: str
    accelerator: Accelerator
    steps: tuple[Step, ...]
    path: tuple[Way, ...]
    found: Optimum
    alone: Optimum
    interrupted: bool

    @property
    def seconds(self) -> float:
        """How long the search took, with and without tensors that stay."""
        return self.found.seconds + self.alone.seconds

    @property
    def worth(self) -> float:
        """By which share the objective falls where tensors stay."""
        return float(1 - self.found.value / self.alone.value)

    @property
    def costs(self) -> MappingCosts:
        """Of the whole network."""
        found = self.found
        return MappingCosts(float(found.energy), found.cycles, self.accelerator.clock_ghz)

    def _each(self) -> Iterator[tuple[Step, Way, Point, int]]:
        for step, way, point in zip(self.steps, self.path, self.found.choice, strict=True):
            lying = set(way.before)
            words = sum(self.steps[one].words for one in lying) + way.stays * step.words
            yield step, way, point, words

    def rows(self) -> list[ResidentLayer]:
        """A row per layer in the network's order; costs are those of one occurrence."""
        clock = self.accelerator.clock_ghz
        return [
            {
                "workload": step.workload.name,
                "count": step.count,
                "input_stays": step.source in way.before,
                "output_stays": way.stays,
                "resident_words": words,
                **MappingCosts(float(point.energy), point.cycles, clock).to_dict(),
            }
            for step, way, point, words in self._each()
        ]

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per layer, on the machine as the layer finds it."""
        return [
            {
                "layer": step.workload.name,
                "count": step.count,
                **mapping_record(way.lines.space, point.code),
            }
            for step, way, point, _ in self._each()
        ]

    def save(self, path: str | Path | Place) -> None:
        """Writes the mapping records as JSON lines."""
        save_records(self.records, place(path))

    def to_dict(self) -> ResidentAnswer:
        """What `mapspace search --network --jointly --resident --json` prints."""
        found = self.found
        return {
            "network": self.network,
            "accelerator": self.accelerator.name,
            "objective": found.objective,
            "resident": True,
            "buffer": shared_buffer(self.accelerator).name,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "layers": self.rows(),
            "totals": {
                **self.costs.to_dict(),
                "proven": found.gap == 0,
                "lower_bound": float(found.bound),
                "gap": found.gap,
                "lines": len(found.cuts),
                "alone": float(self.alone.value),
                "alone_proven": self.alone.gap == 0,
                "worth": self.worth,
            },
        }

    def facts(self) -> Iterable[Fact]:
        """The totals, what staying is worth, and what is certain."""
        found, clock, costs = self.found, self.accelerator.clock_ghz, self.costs
        yield "energy", energy_text(costs.energy_pj)
        yield "latency", f"{latency_text(costs.latency_cycles, clock)}, one layer after another"
        yield "EDP", f"{value_text('edp', costs.edp, clock)} (total energy x total time)"
        stays = sum(way.stays for way in self.path)
        could = sum(step.until > place for place, step in enumerate(self.steps))
        name = shared_buffer(self.accelerator).name
        yield "stay in " + name, f"{stays} of {could} tensors that another layer reads"
        objective = found.objective
        before = value_text(objective, float(self.alone.value), clock)
        least = "" if self.alone.gap == 0 else f" at most ({percent(self.alone.gap, up=True)} open)"
        yield "worth", f"{percent(self.worth)} of {objective}{least}: {before} where nothing stays"
        if found.gap == 0:
            yield "proven optimal", f"no mappings and tensors that stay have a lower {objective}"
        else:
            bound = value_text(objective, float(found.bound), clock)
            gap = percent(found.gap, up=True)
            yield "certified", f"within {gap} of the optimum: none is below {bound}"
        yield (
            "search",
            f"{len(found.layers)} proofs a line, {len(found.cuts)} lines, {self.seconds:.2f} s",
        )

    def picture(self) -> str:
        """The table and the totals, as text."""
        rows = [
            (
                row["workload"], row["count"],
                "chip" if row["input_stays"] else "DRAM",
                "stays" if row["output_stays"] else "to DRAM",
                row["resident_words"], millijoules(row["energy_pj"]), row["latency_cycles"],
            )
            for row in self.rows()
        ]  # fmt: skip
        lines = [
            f"{self.network} on {self.accelerator.name}, all layers for the network's "
            f"{self.found.objective}; tensors may stay on the chip",
            "",
            *table_lines(Table("layers", "", HEADER, FORMATS, rows, [])),
            "",
            *aligned(self.facts()),
        ]
        return "\n".join([*lines, *(["interrupted: the best so far."] * self.interrupted)])


def search_resident(request: Request, stream: TextIO | None = None) -> ResidentOptimum:
    """Finds what stays on the chip and all mappings for the least objective of a network.

    Args:
        request: its workload is the network; `seconds` and `gap` are those of the network.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an option that does not fit, a network without order, a machine without a
            shared buffer, a layer that cannot be proven.
        DataError: nothing is certain in the time.
    """
    for name, given in (
        ("searcher", request.searcher not in (None, "exact")),
        ("iterations", request.iterations is not None),
        ("keep", bool(request.keep)),
        ("explain", request.explain),
        ("max_cycles", request.max_cycles is not None),
        ("max_energy_pj", request.max_energy_pj is not None),
    ):
        if given:
            raise ConfigError(f"{name}: what stays on the chip is chosen by proofs, without it.")
    if request.objective not in KINDS:
        raise ConfigError(f"objective: expected {', '.join(KINDS)}, got {request.objective}.")
    seconds = SECONDS if request.seconds is None else request.seconds
    if not seconds > 0:
        raise ConfigError(f"seconds: expected more than 0, got {seconds}.")
    name, steps = load_chain(request.network)
    device, live = request.device, Live(stream or sys.stderr)
    buffer = shared_buffer(device)
    ways = Ways(steps, device)
    bare = [replace(step, source=None, until=place) for place, step in enumerate(steps)]
    alone = Ways(bare, device, known=ways)
    live.line(
        f"choosing what stays in {buffer.name} and mappings of {len(steps)} layers of {name} on "
        f"{device.name}: {len(ways.layers)} distinct"
    )
    started = time.monotonic()
    with interruptible() as interrupted:

        def run(some: Ways, ends: float) -> tuple[Optimum, list[Way]]:
            begin(some, max(LEAST_SECONDS, ends - time.monotonic()))
            left = max(LEAST_SECONDS, ends - time.monotonic())
            proof = Resident(
                some, request.objective, seconds=left, gap=request.gap,
                say=lambda text: live.update(lambda: f"  {text}"), stop=interrupted.is_set,
            )  # fmt: skip
            return proof.run(), proof.path

        # What is proven where nothing stays is a part of the whole proof.
        before, _ = run(alone, started + seconds / 2)
        found, path = run(ways, started + seconds)
        stopped = interrupted.is_set()
    live.end()
    if found.bound <= 0 or before.bound <= 0:
        raise DataError(f"{name} on {device.name}: nothing is certain; expected more seconds.")
    return ResidentOptimum(name, device, tuple(steps), tuple(path), found, before, stopped)
