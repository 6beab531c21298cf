"""`mapspace design`: branch and bound over a grid of machines, its proofs on Ray tasks.

The run folder holds `design.json` (what is sought), `proofs/` (each proof from the moment that it
is finished), then `certificate.json` (why every machine of the grid was proven, or need not be),
and of the machines that were proven what a sweep holds of its machines. The same command again
proves what is missing only.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from mapspace.errors import ConfigError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.design.aimed import AimedBranching
from orchestrator.design.aims import aims_of
from orchestrator.design.answer import answer_of
from orchestrator.design.certificate import certify_design
from orchestrator.design.config import Design
from orchestrator.design.further import Step, ends_of_grid, places_further, step_to
from orchestrator.design.plan import DesignPlan, prepare_design
from orchestrator.design.results import DesignResults
from orchestrator.design.trade_front import TradeFront, trade_front
from orchestrator.design.trade_report import write_trade_report
from orchestrator.design.wishes import Wish
from orchestrator.runs.limits import LimitReachedError
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record, digest
from orchestrator.runs.progress import progress_bar
from orchestrator.runs.progress_file import Chart
from orchestrator.runs.progress_writer import curve
from orchestrator.runs.ray_runtime import fan_out, ray_runtime
from orchestrator.runs.run_folder import Experiment, Say
from orchestrator.schemas.runs import DesignAnswer
from orchestrator.sweep.proofs import (
    PROOFS_FOLDER,
    Problem,
    Proof,
    prove_chunk,
    read_proof_files,
    stored_proofs,
)
from orchestrator.sweep.report import FIGURE_FILE, RECORDS_FILE, write_sweep_report
from orchestrator.sweep.results import ARCHITECTURES_FILE, RESULTS_FILE
from orchestrator.sweep.run import proof_files

CERTIFICATE_FILE = "certificate.json"
PAGE_FILE = "sweep.html"
# Proofs that are under way at once, whatever the number of cores: the run is the same on any.
PROOFS_AT_ONCE = 16
# What a proof is given where the time of the call is about to end, s.
LEAST_PROOF_SECONDS = 0.5


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
        branching = AimedBranching(plan)
        used: dict[Wish, Proof] = {}
        best: list[tuple[float, float]] = []
        steps: tuple[Step, ...] = ()
        stopped = ""
        with progress_bar(self.unit, drawn=self.bars) as progress, ExitStack() as ray:
            bar = progress.add_task(self.name, total=self.plan.grid.size, note="")
            while wishes := branching.wishes(PROOFS_AT_ONCE):
                problems = {wish: self.plan.problem(wish) for wish in wishes}
                proven_now = self._prove(folder / PROOFS_FOLDER, claim, proofs, problems, ray)
                told = {wish: proofs[problem.key] for wish, problem in problems.items()}
                branching.tell(told)
                used |= told
                note = f"{len(used):,} proofs, {branching.found:,} on the front"
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
        if stopped and not branching.found:
            raise LimitReachedError(
                f"{self.name}: stopped after {stopped} and {len(used):,} proofs, with no machine "
                "within the limits yet; the same command goes on."
            )
        if stopped:
            self.say(f"{self.name}: stopped after {stopped}; the same command goes on.")
        if not branching.found:
            raise ConfigError(f"{self.name}: {branching.why_none()}")
        results = replace(self._results(branching, used), steps=steps)
        if plan.design.find == "best" and not stopped:
            ends = tuple(ends_of_grid(plan.grid, branching.parts[0].front[0]))
            results = replace(results, ends=ends)
        results.machines.save(folder)
        text = results.certificate.model_dump_json(exclude_unset=True)
        write_atomically(folder / CERTIFICATE_FILE, text.encode())
        return results

    def text(self, result: DesignResults, folder: Path) -> str:
        """The front, and how much of the grid it took to prove it."""
        return result.summary()

    def close(
        self, result: DesignResults, folder: Place, tracking_uri: str | None, echo: Say
    ) -> DesignAnswer:
        """As of any run, and what was found."""
        return {**super().close(result, folder, tracking_uri, echo), **answer_of(result)}

    def draw(self, result: DesignResults, folder: Path) -> None:
        """Writes the page, the figure and the front's mappings of the machines proven."""
        if isinstance(result.machines, TradeFront):
            write_trade_report(result.machines, folder, result.proof())
        else:
            write_sweep_report(result.machines, folder, result.proof())

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
            files=tuple(
                folder / name for name in (CERTIFICATE_FILE, *files) if (folder / name).exists()
            ),
        )

    def _tell(
        self, branching: AimedBranching, proofs: int, best: list[tuple[float, float]]
    ) -> None:
        """Tells who looks on how many machines are settled, and the best after so many proofs."""
        several = len(branching.parts) > 1
        if not best:
            self.progress.stage("the best machines", unit=self.unit, total=self.plan.grid.size)
        found = branching.parts[0].front
        least = min((one.value for one in found), default=math.inf)
        best.append((proofs, branching.found if several else least))
        self.progress.reach(branching.machines_settled)
        name = "Points of the front so far" if several else "Best machine so far"
        up = "points" if several else f"{self.plan.design.objective}, pJ and ns"
        chart = Chart(title=name, across="proofs", up=up, curves=(curve("best", best),))
        self.progress.show(lambda: ([chart], []), now=True)

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
        limit = self._seconds(len(problems))
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
            from costmodel.exact_any.choice import load_compiled

            # Workers then find everything compiled, instead of each compiling it.
            load_compiled()
            if self.execute is None:
                ray.enter_context(ray_runtime(cpus=cores))
            prove = functools.partial(prove_chunk, folder, limit, self.store)
            for answers in execute(prove, chunks):
                claim.check()
                proofs |= {proof.key: proof for proof in answers}
        return bool(missing)

    def _seconds(self, proofs: int) -> float:
        """What each of so many proofs may take: less where a limit of the call is near."""
        each = self.plan.design.seconds_per_point
        processors = max(self.progress.processors, self.limits.of(os.cpu_count() or 1))
        left = self.limits.seconds_left(processors) * processors / proofs if proofs else each
        return min(each, max(LEAST_PROOF_SECONDS, left))

    def _steps(
        self,
        folder: Place,
        claim: Claim,
        proofs: dict[str, Proof],
        branching: AimedBranching,
        ray: ExitStack,
    ) -> tuple[Step, ...]:
        """Proves the machines one step further from the best one; none where a front is sought."""
        if self.plan.design.find != "best" or not branching.found:
            return ()
        grid, best, steps = self.plan.grid, branching.parts[0].front[0], []
        problems: dict[tuple[int, ...], dict[Wish, Problem]] = {}
        for places in places_further(grid, best.places):
            corner = grid.corner(tuple((place, place + 1) for place in places))
            wishes = (Wish(layer, corner) for layer in range(len(self.plan.layers)))
            problems[places] = {wish: self.plan.problem(wish) for wish in wishes}
        wanted = {wish: problem for each in problems.values() for wish, problem in each.items()}
        self._prove(folder, claim, proofs, wanted, ray)
        for places, each in problems.items():
            told = [proofs[problem.key] for problem in each.values()]
            proven = all(proof.status == "proven" for proof in told)
            found = self.plan.evaluate(places, told, aims_of(self.plan.design)[0])
            steps.append(step_to(grid, best, found, proven=proven))
        return tuple(steps)

    def _results(self, branching: AimedBranching, proofs: Mapping[Wish, Proof]) -> DesignResults:
        plan, layers = self.plan, range(len(self.plan.layers))
        by_aim = []
        for aim, part in enumerate(branching.parts):
            machines = {}
            for found in part.found.values():
                corner = plan.grid.corner(tuple((place, place + 1) for place in found.places))
                machines[found.places] = [proofs[Wish(layer, corner, aim)] for layer in layers]
            by_aim.append(plan.collected(machines))
        results = by_aim[0]
        if len(by_aim) > 1:
            fronts = [
                [plan.grid.parameters(found.places) for found in part.front]
                for part in branching.parts
            ]
            results = trade_front(aims_of(plan.design), by_aim, fronts)
        return DesignResults(
            results,
            [settled for part in branching.parts for settled in part.settled],
            certify_design(plan, branching, proofs),
            plan.grid.size * len(layers) * len(by_aim),
        )


def design(plan: DesignPlan, folder: Place, **options: Any) -> DesignResults:
    """Proves what is missing in a run folder, as `Experiment.run` does."""
    return DesignExperiment(plan, **options).run(folder)
