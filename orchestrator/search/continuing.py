"""A proof that goes on from the certificate of an unfinished one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mapspace.errors import ConfigError

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.face import AnyProof
    from orchestrator.answers.request import Request
    from orchestrator.runs.live import Live


def problem_of(certificate: Certificate, request: Request) -> Request:
    """A request for the problem of a certificate, searched as another request says.

    Raises:
        ConfigError: the certificate's proof is finished, or it is asked for what goes on nowhere.
    """
    what = f"{certificate.workload.name} on {certificate.accelerator.name}"
    proven = certificate.proven or certificate.proven_under_restriction
    # The best mapping may be proven before the others are.
    if proven and certificate.progress is None:
        raise ConfigError(
            f"continue: the proof of {what} is finished; `mapspace verify` proves it again."
        )
    if request.pad or request.searcher not in (None, "exact"):
        raise ConfigError("continue: a proof goes on as it began, without pad or searcher.")
    held = None if certificate.progress is None else certificate.progress.best
    top = 1 if held is None else held.top
    if request.top not in (1, top):
        raise ConfigError(f"continue: the proof began with top {top}, got top {request.top}.")
    return replace(
        request,
        workload=certificate.workload,
        accelerator=certificate.machine,
        objective=certificate.objective,
        keep=certificate.keep,
        top=top,
        searcher="exact",
        continued=certificate,
    )


def check_same(certificate: Certificate, request: Request) -> None:
    """Refuses a certificate of another problem than a request's.

    Raises:
        ConfigError: it names both problems.
    """
    from costmodel.exact.restriction import among, problem_hash, restriction
    from costmodel.map_space.map_space import MapSpace

    space = MapSpace(request.operation, request.device)
    # Its machine has levels with tiles apart as parts.
    work, machine = space.workload, space.accelerator
    restricted, orders = restriction(work, machine, request.keep), space.orders is not None
    asked = problem_hash(work.hash, machine.hash, request.objective, restricted, every_order=orders)
    held = problem_hash(
        certificate.workload.hash, certificate.machine.hash, certificate.objective,
        certificate.keep, every_order=certificate.every_order,
    )  # fmt: skip
    if asked != held:
        its = f"{certificate.objective} of {certificate.workload.name}"
        its += f" on {certificate.accelerator.name} among {among(certificate.keep)} ({held})"
        raise ConfigError(
            f"continue: expected a certificate of {request.objective} of {work.name} on "
            f"{machine.name} among {among(restricted)} ({asked}), got one of {its}."
        )


def go_on(prover: AnyProof, certificate: Certificate, live: Live) -> None:
    """Lets a proof that has not begun go on from a certificate of the same problem.

    Raises:
        ConfigError: the certificate contradicts itself, or is of another version.
    """
    from costmodel.exact.verification import why_not_continued
    from costmodel.loop_nest.records import record_code

    why = why_not_continued(certificate, prover)
    if why is not None:
        raise ConfigError(f"continue: the certificate is damaged or of another version: {why}")
    prover.offer(record_code(prover.space, certificate.record)[None])
    if certificate.earlier is None:
        live.line("the certificate says nothing of what is settled: only its mapping is taken over")
        return
    prover.resume(certificate.earlier)
    live.line(f"goes on after {certificate.seconds:.3g} s of proof")
