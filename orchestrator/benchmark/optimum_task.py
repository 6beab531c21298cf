"""The proof of one workload's optimum, in this process or as a task of Ray.

What is certain is written beside while it works, as a certificate that is not finished: whoever
tries the proof again, after a worker or a driver has died, goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.runs.locations import local_file

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.face import AnyProof
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.workloads import Workload

# Seconds between two writes of what is certain: what a death costs at most.
KEEP_SECONDS = 10.0


@dataclass(frozen=True)
class Proof:
    """A proof to be made.

    Attributes:
        name: how the benchmark calls the workload.
        workload: the operation.
        accelerator: the machine.
        objective: what is minimised.
        seconds: what the proof may take in all, s, with what it took before.
        file: its certificate in the run folder.
    """

    name: str
    workload: Workload
    accelerator: Accelerator
    objective: Objective
    seconds: float
    file: Place


@dataclass(frozen=True)
class Proven:
    """What a proof has come to.

    Attributes:
        text: the certificate, empty where there is none.
        reason: why there is none.
        infeasible: that there is none because no mapping is feasible.
        took: what it took this time, s.
    """

    text: str = ""
    reason: str = ""
    infeasible: bool = False
    took: float = 0.0

    def read(self) -> Certificate:
        """The certificate."""
        from costmodel.exact.certificate import parse_certificate

        return parse_certificate(self.text, "a proof")


def prove_optimum(
    proof: Proof,
    after_step: Callable[[AnyProof], None] | None = None,
) -> Proven:
    """Makes a proof, or gets as far as its time allows; it goes on from its file.

    Args:
        proof: the proof.
        after_step: called after every step.
    """
    from costmodel.exact.certificate import certify
    from costmodel.exact_any.choice import load_prover, prove

    space = MapSpace(proof.workload, proof.accelerator)
    load_prover(space)  # so that compilation takes no proof's time
    started = kept_at = time.monotonic()

    def keep(prover: AnyProof) -> None:
        nonlocal kept_at
        if after_step is not None:
            after_step(prover)
        now = time.monotonic()
        if now - kept_at >= KEEP_SECONDS and prover.built and prover.best_outcome is not None:
            _keep(proof, certify(prover, now - started))
            kept_at = time.monotonic()

    earlier = kept_certificate(proof)
    if earlier is not None and earlier.proven:
        return Proven(earlier.text())
    try:
        certificate = prove(
            space,
            objective=proof.objective,
            seconds=proof.seconds,
            after_step=keep,
            earlier=earlier,
        )
    except DataError as error:
        return Proven(reason=str(error).rstrip("."), took=time.monotonic() - started)
    except ConfigError as error:
        return Proven(reason=str(error), infeasible=True, took=time.monotonic() - started)
    return Proven(certificate.text(), took=time.monotonic() - started)


def _keep(proof: Proof, certificate: Certificate) -> None:
    """Writes what is certain so far."""
    if isinstance(proof.file, Path) and not proof.file.parent.parent.is_dir():
        return  # a node that does not see the run folder: its answer is written by the driver
    # One that was given up for lost may still work when another one has finished.
    other = kept_certificate(proof)
    if other is None or not other.proven:
        write_certificate(proof.file, certificate)


def write_certificate(file: Place, certificate: Certificate) -> None:
    """Writes a certificate into a run folder."""
    make_folder(file.parent)
    write_atomically(file, certificate.text().encode())


def kept_certificate(proof: Proof) -> Certificate | None:
    """The certificate in a proof's file, if it is one for this problem and this cost model."""
    from costmodel.exact.certificate import read_certificate

    with local_file(proof.file) as path:
        try:
            found = read_certificate(path)
        except ConfigError:
            return None  # There is none yet, or what is there is damaged: it is proven anew.
    model = LoopNestModel()
    claims = (found.model, found.model_version, found.objective, found.keep)
    same = (
        claims == (model.name, model.version, proof.objective, None)
        and found.workload_hash == found.workload.hash == proof.workload.hash
        and found.accelerator_hash == found.accelerator.hash == proof.accelerator.hash
    )
    return found if same else None
