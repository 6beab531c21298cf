"""What a benchmark is measured against: per workload the optimum, proven before anything searches.

A proof is kept as a certificate in the run folder, `certificates/WORKLOAD.json`, which
`mapspace verify` proves again; a run that continues reads it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.bounds import algorithmic_minimum, floor, known_optimum
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.storage import Place, write_atomically
from orchestrator.benchmark.config import Plan
from orchestrator.comparison.results import Bounds, Run
from orchestrator.comparison.results_files import CERTIFICATES_FOLDER
from orchestrator.runs.locations import local_file
from orchestrator.runs.run_folder import Say
from orchestrator.store.folder import Store
from orchestrator.store.proofs import read_or_prove

if TYPE_CHECKING:
    from costmodel.accelerators import Accelerator
    from costmodel.costs import Objective
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.face import AnyProof
    from costmodel.workloads import Workload


# Seconds between two lines about a proof that takes long.
LINE_SECONDS = 5.0


def bound_workloads(
    plan: Plan, folder: Place, progress: Say, store: Store | None = None
) -> dict[str, Bounds]:
    """Proves the optimum of every workload of a benchmark, as far as it can and its time allows.

    Args:
        plan: the benchmark.
        folder: its run folder; certificates are read from and written to it.
        progress: takes a line per workload.
        store: where proofs that were made before are read, and new ones kept; None: nowhere.

    Returns:
        The bounds by workload, for the benchmark's objective; none where nothing bounds the model.

    Raises:
        ConfigError: a workload has no feasible mapping.
    """
    if plan.cost_model.optimum is not None:
        return {name: _enumerated(plan, name, progress) for name in plan.workloads}
    if not plan.cost_model.branch_and_bound:
        return {}
    proofs = _Proofs(plan, folder, progress, store)
    return {name: proofs.bounds(name) for name in plan.workloads}


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


class _Proofs:
    """The proofs of one benchmark."""

    def __init__(self, plan: Plan, folder: Place, progress: Say, store: Store | None) -> None:
        self.plan = plan
        self.store = store
        self.folder = folder
        self.progress = progress
        self.objective = plan.benchmark.objective
        self.seconds = plan.benchmark.proof_seconds
        if self.seconds > 0:
            progress(f"{plan.benchmark.name}: proving the best {self.objective} of each workload")

    def bounds(self, name: str) -> Bounds:
        """The bounds of a workload, proven, read or looked up."""
        found, accelerator = self.plan.workloads[name], self.plan.accelerator
        minimum = algorithmic_minimum(found, accelerator).objective(self.objective)
        least = floor(found, accelerator).objective(self.objective)
        known = known_optimum(found, accelerator) if self.objective == "edp" else None
        if self.seconds == 0:
            note = "" if known is not None else "proof_seconds is 0"
            return Bounds(minimum, least, known, note=note)
        certificate, how = self._certificate(name)
        if certificate is None:
            self.progress(f"  {name}: not proven: {how}")
            return Bounds(minimum, least, known, note=how)
        bounds = Bounds(
            minimum,
            least,
            certificate.value if certificate.proven else known,
            certificate.lower_bound,
            certificate.seconds,
            f"{CERTIFICATES_FOLDER}/{certificate_file(name, found.hash)}",
            ""
            if certificate.proven
            else f"the proof was not finished in {certificate.seconds:.3g} s",
        )
        claim = "optimum" if bounds.proven else "optimum at least"
        self.progress(
            f"  {name}: {claim} {self.plan.shown(bounds.reference)}, {bounds.note or how}"
        )
        return bounds

    def _certificate(self, name: str) -> tuple[Certificate | None, str]:
        """The certificate of a workload and how it came about; else None and why."""
        from costmodel.exact_any.choice import why_not_proven

        space = MapSpace(self.plan.workloads[name], self.plan.accelerator)
        reason = why_not_proven(space)
        if reason is not None:
            return None, reason
        file = certificate_file(name, space.workload.hash)
        with local_file(self.folder / CERTIFICATES_FOLDER / file) as path:
            return self._kept_certificate(name, space, path)

    def _kept_certificate(
        self, name: str, space: MapSpace, path: Path
    ) -> tuple[Certificate | None, str]:
        """The certificate in a file, or a new one, which then lies there."""
        certificate = matching_certificate(path, space.workload, space.accelerator, self.objective)
        if certificate is not None and (certificate.proven or certificate.seconds >= self.seconds):
            return certificate, "proven before"
        try:
            certificate, stored = read_or_prove(
                space, self.objective, self.seconds, self.store, lambda: self._prove(space)
            )
        except DataError as error:
            return None, str(error).rstrip(".")
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, certificate.text().encode())
        how = "read from the store" if stored else f"proven in {certificate.seconds:.2f} s"
        return certificate, how

    def _prove(self, space: MapSpace) -> Certificate:
        from costmodel.exact_any.choice import prove

        self._compile(space)
        started = last = time.monotonic()

        def after_step(prover: AnyProof) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS:
                last = time.monotonic()
                so_far = "no mapping yet"
                if math.isfinite(prover.gap):
                    so_far = f"a mapping at most {100 * prover.gap:.3g} % above the optimum"
                self.progress(
                    f"  {space.workload.name}: {so_far} "
                    f"({last - started:.0f} of {self.seconds:g} s)"
                )

        return prove(space, objective=self.objective, seconds=self.seconds, after_step=after_step)

    def _compile(self, space: MapSpace) -> None:
        """Loads compiled code, so that compilation takes no proof's time."""
        from costmodel.exact_any.choice import load_prover

        started = time.monotonic()
        load_prover(space)
        seconds = time.monotonic() - started
        if seconds > LINE_SECONDS:
            self.progress(f"  compiled the exact search in {seconds:.0f} s, once for all")


def matching_certificate(
    path: Path, workload: Workload, accelerator: Accelerator, objective: Objective
) -> Certificate | None:
    """The certificate in a file, if it is one for this problem and this cost model."""
    from costmodel.exact.certificate import read_certificate

    try:
        found = read_certificate(path)
    except ConfigError:
        return None  # There is none yet, or what is there is damaged: it is proven anew.
    model = LoopNestModel()
    claims = (found.model, found.model_version, found.objective, found.keep)
    same = (
        claims == (model.name, model.version, objective, None)
        and found.workload_hash == found.workload.hash == workload.hash
        and found.accelerator_hash == found.accelerator.hash == accelerator.hash
    )
    return found if same else None


def certificate_file(name: str, workload_hash: str) -> str:
    """The file of a workload's certificate: its name where that is fit for a file."""
    if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII):
        return f"{name}.json"
    # What is left of two names may be the same; their content is not, or one proof serves both.
    words = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:100]
    return f"{words}-{workload_hash}.json"
