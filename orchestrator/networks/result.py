"""What a search of a network returns: a result per layer, and totals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.machines.machine_units import mean_idle_w
from mapspace.arguments import checked
from mapspace.storage import Place, place
from orchestrator.answers.explained import explained_text
from orchestrator.answers.results import SearchResult
from orchestrator.answers.standing import Standing
from orchestrator.networks.operators import Operators
from orchestrator.networks.text import RESTRICTED, network_text
from orchestrator.records.found_mapping import MappingCosts, save_records
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.text_table import wrapped
from orchestrator.report.units import energy_text, latency_text, percent, value_text
from orchestrator.schemas.search import (
    FoundLayer,
    LayerWithout,
    NetworkAnswer,
    NetworkTotalsAnswer,
    OfLayer,
)

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.exact.restriction import Restriction
    from costmodel.machines.accelerators import Accelerator
    from costmodel.networks.moves import Moved
    from costmodel.problems.affine import Workload

# An objective is energy^a x cycles^b; the exponents' sum.
DEGREES = {"energy": 1, "latency": 1, "edp": 2, "ed2p": 3}


@dataclass(frozen=True)
class LayerResult:
    """What became of one layer.

    Attributes:
        workload: the layer.
        count: how often the network has it.
        result: its best mapping; None where there is none.
        obstacle: why no proof is possible; None where one is.
        failure: why there is no mapping, or why the searcher stopped before its budget.
    """

    workload: Workload
    count: int
    result: SearchResult | None = None
    obstacle: str | None = None
    failure: str | None = None

    @property
    def standing(self) -> str:
        """What is certain about the mapping, in a word or two."""
        result = self.result
        if result is None:
            return "no mapping"
        if result.proven:
            return "proven"
        if result.certificate is None:
            return "best known"
        gap = percent(result.searched.gap)
        if result.restricted is not None:
            found = "proven" if result.restricted.proven else f"within {gap}"
            return f"{found}{RESTRICTED}"
        return f"{gap} above" if result.gap_to_optimum is not None else f"within {gap}"

    def to_dict(self, accelerator: str) -> FoundLayer | LayerWithout:
        """Its row in JSON."""
        layer: OfLayer = {
            "count": self.count,
            "standing": self.standing,
            "failure": self.failure,
        }
        if self.result is not None:
            return {**self.result.to_dict(), **layer}
        return {
            "workload": self.workload.name,
            "accelerator": accelerator,
            "from_store": False,
            **layer,
        }


@dataclass(frozen=True)
class TotalStanding:
    """What is certain about a network's totals, in the network's objective.

    Attributes:
        proven_layers: distinct layers whose mapping is proven the best.
        proven: whether no other mappings have less in all.
        lower_bound: what no mappings are below in all, in pJ and cycles.
        gap: how far the totals can be above the least, as a share.
    """

    proven_layers: int
    proven: bool
    lower_bound: float
    gap: float


@dataclass(frozen=True)
class NetworkTotals:
    """Sums over the layers that have a mapping, each as often as it occurs.

    Attributes:
        complete: whether every layer has one, and none was left out.
        distinct_layers: how many layers those are.
        layers: how many with all their repetitions.
        costs: the sums; the EDP is that of the sums.
        chip_power_w: mean power with what leaks of idle instances, W.
        utilisation: share of the processing elements that work, on average over the cycles.
        overall: what is certain among all mappings of the machine.
        restricted: among those of the restriction; None without one.
        left_out: how many parts of the network were left out when it was read.
    """

    complete: bool
    distinct_layers: int
    layers: int
    costs: MappingCosts
    chip_power_w: float
    utilisation: float
    overall: TotalStanding
    restricted: TotalStanding | None
    left_out: int = 0

    def to_dict(self) -> NetworkTotalsAnswer:
        """What JSON has of it."""
        overall, other = self.overall, self.restricted
        return {
            "complete": self.complete,
            "left_out": self.left_out,
            "distinct_layers": self.distinct_layers,
            "layers": self.layers,
            **self.costs.to_dict(),
            "chip_power_w": self.chip_power_w,
            "utilisation": self.utilisation,
            "proven_layers": overall.proven_layers,
            "proven": overall.proven,
            "lower_bound": overall.lower_bound,
            "gap": overall.gap,
            "proven_layers_under_restriction": None if other is None else other.proven_layers,
            "proven_under_restriction": None if other is None else other.proven,
            "lower_bound_under_restriction": None if other is None else other.lower_bound,
            "gap_under_restriction": None if other is None else other.gap,
        }


@dataclass(frozen=True, repr=False)
class NetworkResult(Shown):
    """The layers of a network with their best mappings.

    Attributes:
        network: its name.
        accelerator: the machine.
        objective: what each layer's mapping minimises.
        layers: the distinct layers that were searched.
        unfinished: names of those that an interruption, or the end of the time, left out.
        interrupted: whether there was an interruption.
        seconds: how long the search took.
        operators: what only moves words, where the network says.
        left_out: what was read and is in no total, a line each.
    """

    network: str
    accelerator: Accelerator
    objective: Objective
    layers: tuple[LayerResult, ...]
    unfinished: tuple[str, ...]
    interrupted: bool
    seconds: float
    operators: Operators
    left_out: tuple[str, ...] = ()

    @property
    def from_store(self) -> bool:
        """Whether every layer's mapping was read from a store."""
        results = [layer.result for layer in self.layers]
        return bool(results) and all(result and result.from_store for result in results)

    @property
    def keep(self) -> Restriction | None:
        """The restriction of the layers that have one; None without."""
        kept = (layer.result.keep for layer in self.layers if layer.result is not None)
        return next((keep for keep in kept if keep is not None), None)

    @property
    def totals(self) -> NetworkTotals | None:
        """Sums over the layers; None where no layer has a mapping."""
        found = [(layer.count, layer.result) for layer in self.layers if layer.result is not None]
        whole = not self.unfinished and len(found) == len(self.layers) and not self.left_out
        moves = self.operators.in_totals
        if not found:
            return None
        totals = _totals(self.objective, found, moves, complete=whole)
        return replace(totals, left_out=len(self.left_out))

    @property
    def failure(self) -> str | None:
        """What is missing, in one line; None where nothing is."""
        if self.unfinished:
            every = len(self.layers) + len(self.unfinished)
            missing = f"{len(self.unfinished)} of {every} layers are missing from the totals."
            return f"{'interrupted' if self.interrupted else 'the time is over'}: {missing}"
        if self.interrupted:
            # It came during the last layer, which has its best so far.
            return "interrupted: a layer has the best found so far."
        failed = sum(layer.failure is not None for layer in self.layers)
        if failed:
            return f"{failed} of {len(self.layers)} layers failed; the table says why."
        return None

    @property
    def records(self) -> list[dict[str, Any]]:
        """A mapping record per layer, with `layer` and `count`."""
        return [
            {"layer": layer.workload.name, "count": layer.count, **layer.result.record}
            for layer in self.layers
            if layer.result is not None
        ]

    def to_dict(self) -> NetworkAnswer:
        """What `mapspace search --network --json` prints."""
        totals = self.totals
        return {
            "network": self.network,
            "accelerator": self.accelerator.name,
            "objective": self.objective,
            "keep": self.keep,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "unfinished": list(self.unfinished),
            "from_store": self.from_store,
            "left_out": list(self.left_out),
            "uncounted_words": self.operators.uncounted,
            "moves": self.operators.rows(),
            "layers": self.rows(),
            "totals": None if totals is None else totals.to_dict(),
        }

    @checked
    def save(self, path: str | Path | Place) -> None:
        """Writes the mapping records as JSON lines, into a file or to a URI."""
        save_records(self.records, place(path))

    def heading(self) -> str:
        """Network, machine and goal."""
        goal = f"each layer for its {self.objective}"
        return f"{self.network} on {self.accelerator.name}, {goal}"

    def facts(self) -> Iterable[Fact]:
        """The totals."""
        totals, clock = self.totals, self.accelerator.clock_ghz
        yield "layers", f"{len(self.layers)} distinct ones in {self.seconds:.2f} s"
        if totals is not None:
            certain = totals.restricted or totals.overall
            yield "proven", f"{certain.proven_layers} of {totals.distinct_layers}"
            yield "energy", energy_text(totals.costs.energy_pj)
            yield "latency", latency_text(totals.costs.latency_cycles, clock)
            yield "EDP", value_text("edp", totals.costs.edp, clock)
            gap = percent(certain.gap, up=True)
            yield "in all", "proven optimal" if certain.proven else f"within {gap} of the optimum"
        if self.failure is not None:
            yield "missing", self.failure
        yield from (("left out", one) for one in self.left_out)

    def rows(self) -> list[FoundLayer | LayerWithout]:
        """A row per layer."""
        return [layer.to_dict(self.accelerator.name) for layer in self.layers]

    def picture(self) -> str:
        """The table of layers, and all that is known of the totals."""
        obstacles = [layer.obstacle for layer in self.layers]
        interruption = self.failure if self.interrupted or self.unfinished else None
        text = network_text(self.to_dict(), obstacles, self.accelerator, interruption)
        missing = [line for one in self.left_out for line in wrapped(f"{'left out':<16}{one}")]
        return "\n\n".join(["\n".join([text, *missing]), *self._explanations()])

    def _explanations(self) -> Iterator[str]:
        """What explains the layers, where somebody asked."""
        for layer in self.layers:
            found = layer.result
            if found is not None and found.explained is not None:
                yield explained_text(found.explained)
            elif found is not None and found.unexplained is not None:
                yield f"{found.heading()}: nothing explained: {found.unexplained}"


def _totals(
    objective: Objective, found: Sequence[tuple[int, SearchResult]], moves: Moved, *, complete: bool
) -> NetworkTotals:
    """Sums over layers, and what is certain of them.

    The network's objective is that of the sums, and layers that are each the best need not have the
    best product of sums. But by Hölder's inequality no choice of mappings has less than the sum of
    the roots of the layers' bounds, raised again: (sum E) (sum T) >= (sum of sqrt(E T))^2.
    """

    def sum_of(values: Iterable[float]) -> float:
        return math.fsum(count * x for (count, _), x in zip(found, values, strict=True))

    clock = found[0][1].accelerator.clock_ghz
    moving = MappingCosts(float(moves.energy), moves.cycles, clock)
    costs = MappingCosts(
        sum_of(result.costs.energy_pj for _, result in found) + moving.energy_pj,
        sum_of(result.costs.latency_cycles for _, result in found) + moving.latency_cycles,
        clock,
    )
    runs = [(count * result.costs.latency_cycles, result.record) for count, result in found]
    idle = mean_idle_w(found[0][1].accelerator, runs, costs.latency_cycles)
    busy = sum_of(result.utilisation * result.costs.latency_cycles for _, result in found)
    value, degree = costs.objective(objective), DEGREES[objective]

    def certain(standings: Sequence[Standing]) -> TotalStanding:
        roots = sum_of(layer.lower_bound ** (1 / degree) for layer in standings)
        bound: float = (roots + moving.objective(objective) ** (1 / degree)) ** degree
        layers = sum(layer.proven for layer in standings)
        # Without a product the sum of the best is the best sum; so is one layer, however often.
        # What comes to nothing is the least that there can be.
        single = len(found) == 1 and not any(moves)
        proven = layers == len(found) and (degree == 1 or single or not value)
        gap = max(0.0, value / bound - 1) if bound > 0 else math.inf
        return TotalStanding(
            layers, proven, value if proven else min(bound, value), 0.0 if proven else gap
        )

    restricted = [result.restricted for _, result in found if result.restricted is not None]
    return NetworkTotals(
        complete=complete,
        distinct_layers=len(found),
        layers=sum(count for count, _ in found),
        costs=costs,
        chip_power_w=costs.power_w + idle,
        utilisation=busy / costs.latency_cycles,
        overall=certain([result.overall for _, result in found]),
        restricted=certain([result.searched for _, result in found]) if restricted else None,
    )
