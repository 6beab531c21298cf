"""What a benchmark is measured against: per workload the optimum, proven beside its searches.

A proof is kept as a certificate in the run folder, `certificates/WORKLOAD.json`, which
`mapspace verify` proves again; a run that continues reads it. What is proven within a moment is
proven before anything searches; no search needs an optimum, so the others are tasks of Ray.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from costmodel.machines.bounds import algorithmic_minimum, floor, known_optimum
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import Place
from orchestrator.benchmark.config import Plan
from orchestrator.benchmark.optimum_task import (
    Proof,
    Proven,
    kept_certificate,
    prove_optimum,
    write_certificate,
)
from orchestrator.comparison.results import Bounds, Run
from orchestrator.comparison.results_files import CERTIFICATES_FOLDER
from orchestrator.runs.ray_runtime import Tasks
from orchestrator.runs.run_folder import Say
from orchestrator.store.folder import Store
from orchestrator.store.proofs import keep_proof, read_proofs

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.face import AnyProof

# Seconds between two lines about a proof that takes long.
LINE_SECONDS = 5.0
# What proofs may take of the time before the searches, s: each of them, and all together. Nearly
# all proofs end within; the others go on from there as tasks.
FIRST_SECONDS, ALL_FIRST_SECONDS = 1.0, 5.0


def best_measured(runs: Sequence[Run], workload: str) -> Bounds:
    """What measurements of a workload are held against: the best of them.

    Raises:
        MapspaceError: no search found a mapping that could be measured.
    """
    losses = [run.best_loss for run in runs if run.workload == workload]
    best = min(losses)
    if not math.isfinite(best):
        raise MapspaceError(
            f"{workload}: expected a mapping that could be measured, but none of {len(losses)} "
            "searches found one within its budget."
        )
    return Bounds(best, best, None, best, measured=True)


def _enumerated(plan: Plan, name: str, progress: Say) -> Bounds:
    """The bounds of a workload whose space can be enumerated; the optimum is the only one."""
    started = time.monotonic()
    assert plan.cost_model.optimum is not None
    least, how = plan.cost_model.optimum(plan.space(name), plan.model(), plan.benchmark.objective)
    seconds = time.monotonic() - started
    progress(f"  {name}: optimum {plan.shown(least)}, {how} in {seconds:.2f} s")
    return Bounds(least, least, least, least, seconds)


class Optima:
    """The bounds of a benchmark's workloads, as far as they are known, and the proofs to be made.

    `begin`, `look` and `wait` have the proofs made by tasks while searches run; `bounds` makes what
    is left.

    Attributes:
        seconds: what the tasks took in all, s.
    """

    def __init__(
        self, plan: Plan, folder: Place, progress: Say, store: Store | None = None
    ) -> None:
        """Takes what is known or proven at once.

        Args:
            plan: the benchmark.
            folder: its run folder; certificates are read from and written to it.
            progress: takes a line per workload.
            store: where proofs that were made before are read, and new ones kept; None: nowhere.

        Raises:
            ConfigError: a workload has no feasible mapping.
        """
        self.plan = plan
        self.store = store
        self.folder = folder
        self.progress = progress
        self.objective = plan.benchmark.objective
        self.limit = plan.benchmark.proof_seconds
        self.seconds = 0.0
        self._known: dict[str, Bounds] = {}
        self._left: list[str] = []
        self._tasks: Tasks[Proof, Proven] | None = None
        if plan.cost_model.optimum is not None:
            self._known = {name: _enumerated(plan, name, progress) for name in plan.workloads}
        elif plan.cost_model.branch_and_bound:
            if self.limit > 0:
                progress(
                    f"{plan.benchmark.name}: proving the best {self.objective} of each workload"
                )
            for name in plan.workloads:
                self._look_up(name)
            self._read_stored()
            self._prove_first()

    @property
    def known(self) -> Mapping[str, Bounds]:
        """The bounds by workload, as far as they are known by now."""
        return MappingProxyType(self._known)

    @property
    def left(self) -> Sequence[str]:
        """The workloads whose proofs are to be made."""
        return tuple(self._left)

    def begin(self) -> None:
        """Gives the proofs to tasks; Ray runs."""
        if self._left:
            names = ", ".join(self._left)
            self.progress(f"  {names}: proven beside the searches, for {self.limit:g} s at most")
            self._tasks = Tasks(prove_optimum, [self._proof(name) for name in self._left])
            self.look()

    def look(self) -> None:
        """Takes the proofs that have come to an end."""
        if self._tasks is not None:
            self._take(self._tasks.ready(0.0))

    def wait(self) -> None:
        """Waits for all proofs that are out.

        Raises:
            ConfigError: a workload has no feasible mapping.
            MapspaceError: workers died again and again.
        """
        if self._tasks is not None and self._left:
            self.look()
            if self._left:
                names = ", ".join(self._left)
                self.progress(f"{self.plan.benchmark.name}: waiting for proofs: {names}")
            while self._left:
                self._take(self._tasks.ready())
        self._tasks = None

    def bounds(self) -> dict[str, Bounds]:
        """The bounds by workload; what is left to be proven is proven here.

        Of a model that nothing bounds there are none.

        Raises:
            ConfigError: a workload has no feasible mapping.
        """
        for name in list(self._left):
            self._finish(name, self._prove(name, self.limit))
        return {name: self._known[name] for name in self.plan.workloads if name in self._known}

    def _take(self, answers: Iterable[tuple[Proof, Proven | None]]) -> None:
        for proof, proven in answers:
            if proven is None:
                raise MapspaceError(
                    f"{proof.name}: the worker of its proof died again and again (out of memory?). "
                    "With proof_seconds: 0 the same command goes on without proofs."
                )
            self.seconds += proven.took
            self._finish(proof.name, proven)

    def _look_up(self, name: str) -> None:
        """Takes what is known of a workload; else its proof is left."""
        if self.limit == 0:
            known = self._without_proof(name)
            note = "" if known.optimum is not None else "proof_seconds is 0"
            self._known[name] = replace(known, note=note)
            return
        space = MapSpace(self.plan.workloads[name], self.plan.accelerator)
        reason = _why_not_proven(space)
        if reason is not None:
            self._not_proven(name, reason)
            return
        kept = kept_certificate(self._proof(name))
        if kept is not None and (kept.proven or kept.seconds >= self.limit):
            self._proven(name, kept, "proven before")
            return
        self._left.append(name)

    def _read_stored(self) -> None:
        """Takes the proofs that the store has of what is left: its files are read once for all."""
        if self.store is None or not self._left:
            return
        left, plan = list(self._left), self.plan
        asked = [(plan.workloads[name], plan.accelerator, self.objective) for name in left]
        for name, found in zip(left, read_proofs(asked, self.limit, self.store), strict=True):
            if found is not None:
                write_certificate(self._file(name), found)
                self._left.remove(name)
                self._proven(name, found, "read from the store")

    def _prove_first(self) -> None:
        """Proves what is proven within a moment; the others go on from there."""
        if self.limit <= FIRST_SECONDS:
            return
        ends = time.monotonic() + ALL_FIRST_SECONDS
        for name in list(self._left):
            if time.monotonic() < ends:
                proven = self._prove(name, FIRST_SECONDS)
                if proven.infeasible or (proven.text and proven.read().proven):
                    self._finish(name, proven)
                elif proven.text:
                    write_certificate(self._file(name), proven.read())

    def _proof(self, name: str) -> Proof:
        return Proof(
            name,
            self.plan.workloads[name],
            self.plan.accelerator,
            self.objective,
            self.limit,
            self._file(name),
        )

    def _prove(self, name: str, seconds: float) -> Proven:
        """Proves in this process, on all of its processors."""
        self._compile(name)
        started = last = time.monotonic()

        def after_step(prover: AnyProof) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS:
                last = time.monotonic()
                so_far = "no mapping yet"
                if math.isfinite(prover.gap):
                    so_far = f"a mapping at most {100 * prover.gap:.3g} % above the optimum"
                self.progress(f"  {name}: {so_far} ({last - started:.0f} of {seconds:g} s)")

        return prove_optimum(replace(self._proof(name), seconds=seconds), after_step=after_step)

    def _compile(self, name: str) -> None:
        """Loads compiled code, and says so where it had to be compiled."""
        from costmodel.exact_any.choice import load_prover

        started = time.monotonic()
        load_prover(MapSpace(self.plan.workloads[name], self.plan.accelerator))
        seconds = time.monotonic() - started
        if seconds > LINE_SECONDS:
            self.progress(f"  compiled the exact search in {seconds:.0f} s, once for all")

    def _finish(self, name: str, proven: Proven) -> None:
        """Takes what a proof has come to."""
        self._left.remove(name)
        if proven.reason:
            if proven.infeasible:
                raise ConfigError(f"{name}: {proven.reason}")
            self._not_proven(name, proven.reason)
            return
        certificate = proven.read()
        write_certificate(self._file(name), certificate)
        if self.store is not None:
            space = MapSpace(self.plan.workloads[name], self.plan.accelerator)
            keep_proof(space, certificate, self.limit, self.store)
        self._proven(name, certificate, f"proven in {certificate.seconds:.2f} s")

    def _not_proven(self, name: str, reason: str) -> None:
        self.progress(f"  {name}: not proven: {reason}")
        self._known[name] = replace(self._without_proof(name), note=reason)

    def _proven(self, name: str, certificate: Certificate, how: str) -> None:
        """Notes what a certificate says, and says how it came about."""
        known = self._without_proof(name)
        note = f"the proof was not finished in {certificate.seconds:.3g} s"
        bounds = replace(
            known,
            optimum=certificate.value if certificate.proven else known.optimum,
            lower_bound=certificate.lower_bound,
            proof_seconds=certificate.seconds,
            certificate=f"{CERTIFICATES_FOLDER}/{self._file(name).name}",
            note="" if certificate.proven else note,
        )
        claim = "optimum" if bounds.proven else "optimum at least"
        self.progress(
            f"  {name}: {claim} {self.plan.shown(bounds.reference)}, {bounds.note or how}"
        )
        self._known[name] = bounds

    def _without_proof(self, name: str) -> Bounds:
        """What bounds a workload without any proof."""
        found, accelerator = self.plan.workloads[name], self.plan.accelerator
        minimum = algorithmic_minimum(found, accelerator).objective(self.objective)
        least = floor(found, accelerator).objective(self.objective)
        known = known_optimum(found, accelerator) if self.objective == "edp" else None
        return Bounds(minimum, least, known)

    def _file(self, name: str) -> Place:
        file = certificate_file(name, self.plan.workloads[name].hash)
        return self.folder.resolve() / CERTIFICATES_FOLDER / file


def _why_not_proven(space: MapSpace) -> str | None:
    """Why no proof is possible that finds the optimum by itself, in one line; None if one is."""
    # An import of 0.15 s, which where the store has all proofs nothing else needs.
    from costmodel.exact_any.choice import why_not_proven

    return why_not_proven(space)


def certificate_file(name: str, workload_hash: str) -> str:
    """The file of a workload's certificate: its name where that is fit for a file."""
    if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII):
        return f"{name}.json"
    # What is left of two names may be the same; their content is not, or one proof serves both.
    words = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:100]
    return f"{words}-{workload_hash}.json"
