"""`mapspace design`: branch and bound over a grid of machines, its proofs on Ray tasks.

The run folder holds `design.json` (what is sought), `proofs/` (each proof from the moment that it
is finished), then `certificate.json` (why every machine of the grid was proven, or need not be),
and of the machines that were proven what a sweep holds of its machines. The same command again
proves what is missing only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mapspace.errors import ConfigError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.design.branching import Branching, Settled, Wish
from orchestrator.design.certificate import DesignCertificate, certify_design, how_good
from orchestrator.design.config import Design
from orchestrator.design.further import Step, ends_of_grid, places_further, step_lines, step_to
from orchestrator.design.machine_grid import machines_in
from orchestrator.design.plan import DesignPlan, prepare_design
from orchestrator.report.shown import Fact, Shown
from orchestrator.runs.limits import LimitReachedError
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record, digest
from orchestrator.runs.progress import progress_bar
from orchestrator.runs.progress_file import Chart
from orchestrator.runs.progress_writer import curve
from orchestrator.runs.ray_runtime import fan_out, ray_runtime
from orchestrator.runs.run_folder import Experiment
from orchestrator.sweep.proofs import (
    PROOFS_FOLDER,
    Problem,
    Proof,
    prove_chunk,
    read_proof_files,
    stored_proofs,
)
from orchestrator.sweep.report import FIGURE_FILE, RECORDS_FILE, text_summary, write_sweep_report
from orchestrator.sweep.results import ARCHITECTURES_FILE, RESULTS_FILE, SweepResults
from orchestrator.sweep.run import proof_files

CERTIFICATE_FILE = "certificate.json"
PAGE_FILE = "sweep.html"
# Proofs that are under way at once, whatever the number of cores: the run is the same on any.
PROOFS_AT_ONCE = 16


@dataclass(frozen=True, repr=False)
class DesignResults(Shown):
    """The best machines of a grid.

    Attributes:
        machines: of those that were proven, as of a sweep's.
        settled: why each machine of the grid needs no more work; boxes that are the grid together.
        certificate: what `verify` proves again.
        problems: how many there are of the whole grid.
        steps: what the next value of each key would bring the best machine; empty for fronts.
        ends: the keys of which it has the grid's best value; empty for fronts.
    """

    machines: SweepResults
    settled: Sequence[Settled]
    certificate: DesignCertificate
    problems: int
    steps: Sequence[Step] = ()
    ends: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether no machine of the grid is better than those of the front."""
        return self.certificate.proven

    @property
    def gap(self) -> float | None:
        """How far the front is above the best at most, as a share; None: not known."""
        return self.certificate.gap

    @property
    def proofs(self) -> int:
        """Proofs of a layer on a machine that were needed."""
        return len(self.certificate.proofs)

    def heading(self) -> str:
        """The design's name and size."""
        return f"{self.machines.plan.sweep.name}: {self.share()}"

    def facts(self) -> Iterable[Fact]:
        """As of the sweep of the machines that were proven."""
        return self.machines.facts()

    def share(self) -> str:
        """How much of the grid was proven."""
        return (
            f"{self.proofs:,} proofs for a grid of {self.problems:,} "
            f"({self.proofs / self.problems:.2%})"
        )


class DesignExperiment(Experiment[DesignPlan, DesignResults]):
    """A design in its run folder."""

    command = "design"
    words = "a design"
    unit = "machines"
    config = Design
    file = "design.json"
    page = PAGE_FILE
    needed = (RESULTS_FILE, ARCHITECTURES_FILE, CERTIFICATE_FILE)
    tracked = True
    quick: ClassVar = {
        "kind": "design",
        "name": "quick",
        "grid": {"L2.fanout": [4, 8]},
        "workloads": ["gemm:M=4,N=4,K=4"],
    }

    @classmethod
    def prepare(cls, config: Design, where: str) -> DesignPlan:
        """Looks up every name of a design."""
        return prepare_design(config, where)

    @property
    def settings(self) -> Design:
        """As the file has it."""
        return self.plan.design

    def work(self, folder: Place, claim: Claim) -> DesignResults:
        """Proves what is needed."""
        make_folder(folder / PROOFS_FOLDER)
        proofs = read_proof_files(proof_files(folder / PROOFS_FOLDER))
        plan = self.plan
        branching = Branching(plan.design, plan.grid, plan.layers, plan.evaluate)
        used: dict[Wish, Proof] = {}
        best: list[tuple[float, float]] = []
        steps: tuple[Step, ...] = ()
        stopped = ""
        with progress_bar(self.unit, drawn=self.bars) as progress, ExitStack() as ray:
            bar = progress.add_task(self.name, total=self.plan.grid.size, note="")
            while wishes := branching.wishes(PROOFS_AT_ONCE):
                problems = {wish: self._problem(wish) for wish in wishes}
                proven_now = self._prove(folder / PROOFS_FOLDER, claim, proofs, problems, ray)
                told = {wish: proofs[problem.key] for wish, problem in problems.items()}
                branching.tell(told)
                used |= told
                note = f"{len(used):,} proofs, {len(branching.front):,} on the front"
                progress.update(bar, completed=branching.machines_settled, note=note)
                if proven_now:
                    self._tell(branching, len(used), best)
                    if stopped := self.limits.reached(self.progress.processors):
                        branching.stop()
            progress.update(bar, completed=branching.machines_settled)
            if best:
                self._tell(branching, len(used), best)
            if not stopped:
                steps = self._steps(folder / PROOFS_FOLDER, claim, proofs, branching, ray)
        claim.check()
        if stopped and not branching.front:
            raise LimitReachedError(
                f"{self.name}: stopped after {stopped} and {len(used):,} proofs, with no machine "
                "within the limits yet; the same command goes on."
            )
        if stopped:
            self.say(f"{self.name}: stopped after {stopped}; the same command goes on.")
        if not branching.front:
            within = f" within the limits ({plan.design.limits})" if branching.found else ""
            raise ConfigError(
                f"{self.name}: grid: expected a machine that has a mapping for every workload"
                f"{within}; there is none."
            )
        results = replace(self._results(branching, used), steps=steps)
        if plan.design.find == "best" and not stopped:
            ends = tuple(ends_of_grid(plan.grid, branching.front[0]))
            results = replace(results, ends=ends)
        results.machines.save(folder)
        text = results.certificate.model_dump_json(exclude_unset=True)
        write_atomically(folder / CERTIFICATE_FILE, text.encode())
        return results

    def text(self, result: DesignResults, folder: Path) -> str:
        """The front, and how much of the grid it took to prove it."""
        counts = [f"{self.plan.grid.size:,} machines: {result.share()}, {_reasons(result)}"]
        if not result.proven:
            words = how_good(math.inf if result.gap is None else result.gap)
            counts.append(f"Of this grid: {words}.")
        elif self.plan.design.find == "best":
            counts.append("No machine of the grid is better; the front is of those proven alone.")
        else:
            counts.append("No other machine of the grid is on the front.")
        binds = step_lines(result.steps, result.ends)
        return "\n".join([text_summary(result.machines), "", *counts, *binds])

    def draw(self, result: DesignResults, folder: Path) -> None:
        """Writes the page, the figure and the front's mappings of the machines proven."""
        write_sweep_report(result.machines, folder)

    def record(self, result: DesignResults, folder: Path) -> Record:
        """Counts and the best."""
        files = (RESULTS_FILE, ARCHITECTURES_FILE, FIGURE_FILE, PAGE_FILE, RECORDS_FILE)
        best, column = result.machines.best, result.machines.objective_column
        metrics = {
            "machines": float(self.plan.grid.size),
            "proofs": float(result.proofs),
            "share_of_proofs": result.proofs / result.problems,
            "gap": math.inf if result.gap is None else result.gap,
            "front_size": float(len(result.machines.front)),
            f"best_{column}": math.nan if best is None else float(best[column]),
        }
        return Record(
            content=digest(folder / CERTIFICATE_FILE),
            metrics=[(name, value, 0) for name, value in metrics.items()],
            files=tuple(folder / name for name in (CERTIFICATE_FILE, *files)),
        )

    def _tell(self, branching: Branching, proofs: int, best: list[tuple[float, float]]) -> None:
        """Tells who looks on how many machines are settled, and the best after so many proofs."""
        if not best:
            self.progress.stage("the best machines", unit=self.unit, total=self.plan.grid.size)
        best.append((proofs, min((one.value for one in branching.front), default=math.inf)))
        self.progress.reach(branching.machines_settled)
        objective = self.plan.design.objective
        chart = Chart(
            title="Best machine so far",
            across="proofs",
            up=f"{objective}, pJ and cycles at 1 GHz",
            curves=(curve("best", best),),
        )
        self.progress.show(lambda: ([chart], []), now=True)

    def _problem(self, wish: Wish) -> Problem:
        machine = self.plan.grid.ideal(wish.corner)
        return Problem(self.plan.layers[wish.layer].workload, machine, self.plan.design.objective)

    def _prove(
        self,
        folder: Place,
        claim: Claim,
        proofs: dict[str, Proof],
        problems: Mapping[Wish, Problem],
        ray: ExitStack,
    ) -> bool:
        """Adds the proofs of problems to those that are there; starts Ray at the first one.

        Returns:
            Whether any was missing.
        """
        limit = self.plan.design.seconds_per_point
        missing = {
            problem.key: problem
            for problem in problems.values()
            if problem.key not in proofs or not proofs[problem.key].answers(limit)
        }
        if missing and self.store is not None:
            known = {
                proof.key: proof
                for proof in stored_proofs(list(missing.values()), limit, self.store)
            }
            self.taken += len(known)
            proofs |= known
        chunks = [
            (problem,)
            for key, problem in missing.items()
            if key not in proofs or not proofs[key].answers(limit)
        ]
        workers = self.progress.workers
        cores = self.limits.cores
        execute = self.execute or functools.partial(
            fan_out, what="proofs", watch=workers, cores=cores
        )
        self.made += len(chunks)
        if chunks:
            from costmodel.exact.loading import load_compiled

            # Workers then find everything compiled, instead of each compiling it.
            load_compiled()
            if self.execute is None:
                ray.enter_context(ray_runtime(cpus=cores))
            prove = functools.partial(prove_chunk, folder, limit, self.store)
            for answers in execute(prove, chunks):
                claim.check()
                proofs |= {proof.key: proof for proof in answers}
        return bool(missing)

    def _steps(
        self,
        folder: Place,
        claim: Claim,
        proofs: dict[str, Proof],
        branching: Branching,
        ray: ExitStack,
    ) -> tuple[Step, ...]:
        """Proves the machines one step further from the best one; none where a front is sought."""
        if self.plan.design.find != "best" or not branching.front:
            return ()
        grid, best, steps = self.plan.grid, branching.front[0], []
        problems: dict[tuple[int, ...], dict[Wish, Problem]] = {}
        for places in places_further(grid, best.places):
            corner = grid.corner(tuple((place, place + 1) for place in places))
            wishes = (Wish(layer, corner) for layer in range(len(self.plan.layers)))
            problems[places] = {wish: self._problem(wish) for wish in wishes}
        wanted = {wish: problem for each in problems.values() for wish, problem in each.items()}
        self._prove(folder, claim, proofs, wanted, ray)
        for places, each in problems.items():
            told = [proofs[problem.key] for problem in each.values()]
            proven = all(proof.status == "proven" for proof in told)
            found = self.plan.evaluate(places, told)
            steps.append(step_to(grid, best, found, proven=proven))
        return tuple(steps)

    def _results(self, branching: Branching, proofs: Mapping[Wish, Proof]) -> DesignResults:
        layers, grid = range(len(self.plan.layers)), self.plan.grid
        machines = {}
        for found in branching.found.values():
            corner = grid.corner(tuple((place, place + 1) for place in found.places))
            machines[found.places] = [proofs[Wish(layer, corner)] for layer in layers]
        return DesignResults(
            self.plan.collected(machines),
            branching.settled,
            certify_design(self.plan, branching, proofs),
            grid.size * len(layers),
        )


def design(plan: DesignPlan, folder: Place, **options: Any) -> DesignResults:
    """Proves what is missing in a run folder, as `Experiment.run` does."""
    return DesignExperiment(plan, **options).run(folder)


def _reasons(result: DesignResults) -> str:
    """How many machines were settled for which reason."""
    words = {
        "proven": "proven themselves",
        "bound": "no better than one found",
        "area": "larger than the limit",
        "infeasible": "without a mapping",
        "open": "left open",
    }
    counts = {
        word: sum(machines_in(box.box) for box in result.settled if box.why == why)
        for why, word in words.items()
    }
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
