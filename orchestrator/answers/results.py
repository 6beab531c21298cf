"""What a search of one workload returns: a mapping, its costs, and what is certain about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.machines.machine_units import (
    area_mm2,
    chip_text,
    has_real_units,
    idle_leakage_w,
    idle_text,
    leakage_w,
)
from costmodel.map_space.space_rules import space_rules
from mapspace.arguments import checked
from mapspace.storage import Place, place, write_atomically
from orchestrator.answers.facts import cost_facts, standing_facts, tiling
from orchestrator.answers.limits import slowest
from orchestrator.records.found_mapping import FoundMapping, MappingCosts, save_records
from orchestrator.report.shown import Fact, Shown
from orchestrator.schemas.search import RankedAnswer, SearchAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from costmodel.costs import Detail, Objective
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.restriction import Restriction
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.mapping import Mapping
    from costmodel.problems.affine import Workload
    from orchestrator.answers.explained import ExplainedOptimum
    from orchestrator.answers.limits import Limit
    from orchestrator.answers.mapping_figure import DrawnMapping
    from orchestrator.answers.padding import Padding
    from orchestrator.answers.standing import Proof, Standing
    from orchestrator.store.winners import Winner
    from searchers import TrialResult


@dataclass(frozen=True)
class RankedMapping(FoundMapping):
    """One of the best tilings, with its best loop orders.

    Attributes:
        above_best: how far its objective is above the best one's, as a share.
    """

    above_best: float

    def to_dict(self) -> RankedAnswer:
        """What JSON has of it."""
        return {**self.costs.to_dict(), "above_best": self.above_best, "record": self.record}


@dataclass(frozen=True, repr=False)
class SearchResult(Shown):
    """The winner of a search.

    Attributes:
        workload: what was searched; the padded workload where padding was asked for.
        accelerator: the machine.
        objective: what was minimised.
        model: the cost model's name.
        model_version: its version.
        searcher: the method.
        preset: the named set of its hyperparameters that was asked for; None: none.
        hyperparameters: all that it ran with, by name, as JSON types.
        seed: its seed.
        mapping: the loop nest; `str()` prints it.
        record: the mapping as a mapping record, which `evaluate` scores.
        costs: what it costs.
        detail: counts and energies per level and tensor, `[1, L, T]`.
        limits: every bound of the machine with what is used of it, the units first.
        minimum_edp: the paper's algorithmic minimum, pJ x cycles.
        floor: what every mapping must pay, in the objective's unit.
        overall: what is certain among all mappings of the machine.
        restricted: what is certain among those that keep `keep`; None without a restriction.
        keep: the restriction: tensors kept per level; None where no mapping is excluded.
        problem_hash: of workload, accelerator, objective and restriction.
        proof: how far the proof came; None where nothing could be proven.
        trial: what the search spent, and how its best improved.
        conclusion: what the searcher itself is certain of; None: nothing more.
        top: the best tilings, the winner among them, where more than one was asked for.
        wall_seconds: time of all this, s, preparation included, the start of Python not.
        interrupted: whether an interruption ended the search.
        failure: why the searcher stopped before its budget; None where it did not.
        original: the workload before padding; None where padding was not asked for.
        padding: the larger sizes that were tried; None where the sizes are not to blame.
        explained: what holds the optimum up; None where nobody asked, or nothing is proven.
        unexplained: why nothing is explained though somebody asked; else None.
        stored: where it was read, and when it was found; None: it was searched now.
        begins: the stored winners that the search began from; None: a warm start was not asked for.
    """

    workload: Workload
    accelerator: Accelerator
    objective: Objective
    model: str
    model_version: str
    searcher: str
    seed: int
    mapping: Mapping
    record: dict[str, Any]
    costs: MappingCosts
    detail: Detail
    limits: tuple[Limit, ...]
    minimum_edp: float
    floor: float
    overall: Standing
    restricted: Standing | None
    keep: Restriction | None
    problem_hash: str
    proof: Proof | None
    trial: TrialResult
    conclusion: str | None = None
    top: tuple[RankedMapping, ...] = ()
    wall_seconds: float = 0.0
    interrupted: bool = False
    failure: str | None = None
    original: Workload | None = None
    padding: Padding | None = None
    explained: ExplainedOptimum | None = None
    unexplained: str | None = None
    stored: str | None = None
    begins: tuple[Winner, ...] | None = None
    preset: str | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    @property
    def from_store(self) -> bool:
        """Whether it was read from a store, and not searched now."""
        return self.stored is not None

    @property
    def method(self) -> str:
        """The searcher, with its preset or its method where it has several."""
        own = self.hyperparameters.get("method")
        which = [self.preset] if self.preset else [f"method {own}"] if own else []
        return self.searcher + "".join(f" ({one})" for one in which)

    @property
    def proven(self) -> bool:
        """Whether no mapping of the machine is better."""
        return self.overall.proven

    @property
    def proven_under_restriction(self) -> bool | None:
        """Whether no mapping that keeps `keep` is better; None without a restriction."""
        return None if self.restricted is None else self.restricted.proven

    @property
    def limit(self) -> Limit:
        """What its speed is limited by."""
        return slowest(self.limits)

    @property
    def lower_bound(self) -> float:
        """What no mapping of the machine is below, in pJ and cycles."""
        return self.overall.lower_bound

    @property
    def gap(self) -> float:
        """How far the mapping can be above the machine's best one, as a share."""
        return self.overall.gap

    @property
    def searched(self) -> Standing:
        """What is certain among the mappings that were searched."""
        return self.restricted or self.overall

    @property
    def gap_to_optimum(self) -> float | None:
        """How far the mapping is above the machine's best one; None where that is not known."""
        finished = self.proof is not None and self.proof.finished and self.keep is None
        return self.gap if finished or self.overall.tie_proven else None

    @property
    def certificate(self) -> Certificate | None:
        """What is proven of the mapping; None where nothing could be."""
        return None if self.proof is None else self.proof.certificate

    @property
    def iterations(self) -> int:
        """Cost queries that the searcher made."""
        return self.trial.iterations

    @property
    def seconds(self) -> float:
        """Time of the search, s."""
        return self.trial.seconds

    @property
    def utilisation(self) -> float:
        """Share of the processing elements that work, on average."""
        return float(self.detail.utilisation[0])

    @property
    def normalised_edp(self) -> float:
        """The EDP over the algorithmic minimum."""
        if not self.minimum_edp:  # nothing costs energy, but perhaps the way
            return math.inf if self.costs.edp else 1.0
        return self.costs.edp / self.minimum_edp

    @property
    def records(self) -> list[dict[str, Any]]:
        """The winner's mapping record, then those of the other tilings that were asked for."""
        others = (entry.record for entry in self.top)
        return [self.record, *(record for record in others if record != self.record)]

    @property
    def chip_power_w(self) -> float:
        """Mean power, W, where the instances that the mapping leaves idle leak as well."""
        return self.costs.power_w + idle_leakage_w(self.accelerator, self.record)

    def to_dict(self) -> SearchAnswer:
        """What `mapspace search --json` prints."""
        overall, restricted, trial = self.overall, self.restricted, self.trial
        costs = self.costs.to_dict()
        found: SearchAnswer = {
            "problem_hash": self.problem_hash,
            "keep": self.keep,
            "proven": overall.proven,
            "tie_proven": overall.tie_proven,
            "lower_bound": overall.lower_bound,
            "gap": overall.gap,
            "gap_to_optimum": self.gap_to_optimum,
            "proven_under_restriction": self.proven_under_restriction,
            "tie_proven_under_restriction": None if restricted is None else restricted.tie_proven,
            "lower_bound_under_restriction": None if restricted is None else restricted.lower_bound,
            "gap_under_restriction": None if restricted is None else restricted.gap,
            "workload": self.workload.name,
            "accelerator": self.accelerator.name,
            "model": self.model,
            "model_version": self.model_version,
            "space": space_rules(self.accelerator, restricted=self.keep is not None),
            "constraints": [entry.model_dump() for entry in self.accelerator.constraints] or None,
            "searcher": self.searcher,
            "preset": self.preset,
            "hyperparameters": self.hyperparameters,
            "objective": self.objective,
            "seed": self.seed,
            "iterations": trial.iterations,
            "true_queries": trial.true_queries,
            "surrogate_queries": trial.surrogate_queries,
            "seconds": trial.seconds,
            "conclusion": self.conclusion,
            "energy_pj": costs["energy_pj"],
            "latency_cycles": costs["latency_cycles"],
            "edp": costs["edp"],
            "latency_s": costs["latency_s"],
            "edp_js": costs["edp_js"],
            "power_w": costs["power_w"],
            "area_mm2": area_mm2(self.accelerator),
            "leakage_w": leakage_w(self.accelerator),
            "chip_power_w": self.chip_power_w,
            "utilisation": self.utilisation,
            "limited_by": self.limit.name,
            "limits": [limit.to_dict() for limit in self.limits],
            "normalised_edp": self.normalised_edp,
            "gap_to_floor": trial.best_loss / self.floor - 1 if self.floor > 0 else math.inf,
            "record": self.record,
            "wall_seconds": self.wall_seconds,
            "interrupted": self.interrupted,
            "from_store": self.from_store,
        }
        if self.top:
            found["top"] = [entry.to_dict() for entry in self.top]
        if self.begins is not None:
            found["warm_start"] = [
                {"workload": one.workload, "distance": one.distance, "mappings": len(one.codes)}
                for one in self.begins
            ]
        if self.original is not None:
            sizes = self.original.dimensions
            found["original"] = {"workload": self.original.name, "dimensions": dict(sizes)}
            found["padded"] = {n: s for n, s in self.workload.dimensions.items() if s != sizes[n]}
            found["wasted_macs"] = self.workload.macs - self.original.macs
        elif self.padding is not None:
            found["padding"] = self.padding.to_dict()
        if self.explained is not None:
            found["explain"] = self.explained.to_dict()
        elif self.unexplained is not None:
            found["explain"] = {"why": self.unexplained}
        return found

    @checked
    def save(self, path: str | Path | Place) -> None:
        """Writes the mapping record, and beside it the certificate if there is one.

        Args:
            path: a file or a URI for JSON lines: the winner, then the others of `top`. The
                certificate's name is the same with the suffix `.certificate.json`.
        """
        file = place(path)
        save_records(self.records, file)
        if self.certificate is not None:
            content = self.certificate.text().encode()
            write_atomically(file.with_suffix(".certificate.json"), content)

    def heading(self) -> str:
        """The problem."""
        return f"{self.workload.name} on {self.accelerator.name}"

    @checked
    def facts(self, *, every_cost: bool = False) -> Iterator[Fact]:
        """Costs, what is certain, and what it took.

        Args:
            every_cost: more than energy, latency and EDP.
        """
        costs = cost_facts(self.costs, self.limits, self.utilisation, self.normalised_edp)
        for label, text in costs:
            if every_cost or label in ("energy", "latency", "EDP"):
                yield label, text
            if every_cost and label == "mean power" and has_real_units(self.accelerator):
                yield "", idle_text(self.chip_power_w)
                yield "chip", chip_text(self.accelerator)
        yield from self._standing_facts()
        how = f"with {self.method}, seed {self.seed}"
        yield "search", f"{self.iterations:,} iterations in {self.seconds:.2f} s {how}"
        if self.searcher != "exact" and self.hyperparameters:
            named = (f"{name} {_shown(value)}" for name, value in self.hyperparameters.items())
            yield "parameters", ", ".join(named)
        if self.stored is not None:
            yield "from the store", self.stored

    def _standing_facts(self) -> Iterator[Fact]:
        rules, clock = self.accelerator.constraints, self.accelerator.clock_ghz
        which = ""
        if self.keep is not None or rules:
            from costmodel.exact.restriction import among

            which = f" among {among(self.keep, len(rules))}"
        yield from standing_facts(self.searched, self.proof, self.objective, clock, which)
        if rules:
            from costmodel.map_space.impossible import conflict_text

            yield from zip(
                ("constraints", *[""] * len(rules)), map(conflict_text, zip(rules)), strict=False
            )
        yield "space", space_rules(self.accelerator, restricted=self.keep is not None)
        if self.keep is not None:
            yield "", "other mappings of the machine may be better"
            yield "problem", f"{self.problem_hash} (the restriction included)"

    def rows(self) -> Sequence[dict[str, Any]]:
        """The best tilings; the winner alone where no more were asked for."""
        return [
            {"mapping": tiling(entry.mapping), **entry.costs.to_dict()}
            for entry in self.top or (self,)
        ]

    @property
    def drawn(self) -> DrawnMapping:
        """What is drawn of the mapping."""
        from orchestrator.answers.mapping_figure import DrawnMapping

        cycles = self.costs.latency_cycles
        return DrawnMapping(
            self.heading(), self.workload, self.accelerator, self.mapping, self.detail,
            self.limits, cycles,
        )  # fmt: skip

    def picture(self) -> str:
        """The loop nest."""
        return str(self.mapping)

    def plot(self) -> Figure:
        """The mapping as a drawing: `result.plot().savefig("mapping.svg")`."""
        from orchestrator.answers.mapping_figure import mapping_figure

        return mapping_figure(self.drawn)

    @checked
    def slice(self, first: str | None = None, second: str | None = None) -> Figure:
        """The map space around the mapping over two attributes, as a drawing.

        Args:
            first: an attribute of the map space such as `order.L2` or `keep.L1`, or a dimension
                for its tilings; upwards.
            second: another one, to the right. Neither: two most of whose points are feasible.

        Raises:
            ConfigError: they are not two different attributes of the map space.
        """
        from costmodel.map_space.map_space import MapSpace
        from orchestrator.map_space.figure import MOST_ON_PAGES, slice_figure
        from orchestrator.map_space.surface import feasible_attributes, surface_around

        space = MapSpace(self.workload, self.accelerator)
        code = space.code(self.mapping)
        pair = (first, second) if first and second else feasible_attributes(space, code)
        around = surface_around(space, code, pair, objective=self.objective, most=MOST_ON_PAGES)
        return slice_figure(around, self.objective, self.heading())

    def timeline(self) -> Figure | None:
        """When the first tiles of every level are loaded, worked on and drained, as a drawing.

        Returns:
            A figure of Matplotlib; None where loops have shorter last passes.
        """
        from orchestrator.answers.timeline_figure import timeline_figure

        return timeline_figure(self.drawn)


def _shown(value: Any) -> str:
    """A hyperparameter's value as people read it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
        return f"({inner})" if inner else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
