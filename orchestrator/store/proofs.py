"""Proofs in the store: certificates as they are, and in the words of who asks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.exact.certificate import Certificate, parse_certificate
from costmodel.exact.restriction import problem_hash, restriction
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import DataError
from orchestrator.store.address import Question, problem
from orchestrator.store.answers import first_made, had_budget, keep_answers
from orchestrator.store.mappings import stored_code
from orchestrator.store.rows import content_id, finite, row_of

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row


def proof_question(
    workload: Workload,
    machine: Accelerator,
    objective: Objective,
    keep: Mapping[str, Sequence[str]] | None = None,
    *,
    top: int = 1,
    **limits: Any,
) -> Question:
    """The question for the best mapping, proven: whoever proves it, and from which seed.

    Args:
        workload: the operation.
        machine: the machine.
        objective: what is minimised.
        keep: tensors that levels keep.
        top: how many of the best tilings are asked for.
        limits: budget, gap and seed.
    """
    model = LoopNestModel()
    content = {
        "kind": "proof",
        "problem": problem(workload, machine, keep),
        "objective": objective,
        "model": [model.name, model.version],
        "top": top,
    }
    return Question(content, limits)


def read_proofs(
    problems: Sequence[tuple[Workload, Accelerator, Objective]], seconds: float, store: Store
) -> Iterator[Certificate | None]:
    """The certificates that the store has of least values, in the words of who asks.

    Args:
        problems: workload, machine and objective of each.
        seconds: the budget of a proof, s: one that is not finished serves if it had as much.
        store: the store.

    Yields:
        For each problem its certificate; None where there is none.
    """

    def serves(row: Row) -> bool:
        return row.certificate is not None and (row.proven or had_budget(row, seconds))

    asked = [proof_question(*entry).question for entry in problems]
    rows: dict[str, list[Row]] = {}
    for row in filter(serves, store.rows(set(asked))):
        rows.setdefault(row.question, []).append(row)
    for (workload, machine, _), question in zip(problems, asked, strict=True):
        found = None
        if question in rows:
            space = MapSpace(workload, machine)
            make = functools.partial(certificate_of, store=store, space=space)
            found = first_made(store, rows[question], make)
        yield found


def read_or_prove(
    space: MapSpace,
    objective: Objective,
    seconds: float,
    store: Store | None,
    prove: Callable[[], Certificate],
) -> tuple[Certificate, bool]:
    """The certificate that the store has; else what a proof comes to, which is then kept there.

    Args:
        space: of the workload and machine, without a restriction.
        objective: what is minimised.
        seconds: the budget of the proof, s.
        store: the store; None: nothing is read or kept.
        prove: proves.

    Returns:
        The certificate, and whether the store had it.
    """
    if store is not None:
        found = next(read_proofs([(space.workload, space.accelerator, objective)], seconds, store))
        if found is not None:
            return found, True
    certificate = prove()
    if store is not None:
        keep_proof(space, certificate, seconds, store)
    return certificate, False


def keep_proof(
    space: MapSpace, certificate: Certificate, seconds: float | None, store: Store
) -> None:
    """Keeps the certificate of a space's least value, for which the proof had so many seconds."""
    question = proof_question(
        space.workload, space.accelerator, certificate.objective, seconds=seconds
    )
    text = certificate.text()
    row = row_of(
        "proof",
        question,
        space.workload,
        space.accelerator,
        LoopNestModel(),
        objective=certificate.objective,
        method="exact",
        budget_seconds=seconds,
        value=certificate.value,
        energy_pj=certificate.energy_pj,
        latency_cycles=float(certificate.latency_cycles),
        proven=certificate.proven,
        lower_bound=certificate.lower_bound,
        gap=finite(certificate.gap),
        seconds=certificate.seconds,
        certificate=f"{content_id(text.encode())}.json",
    )
    keep_answers(store, [row], [text])


def certificate_of(
    row: Row,
    store: Store,
    space: MapSpace,
    keep: Mapping[str, Sequence[str]] | None = None,
) -> Certificate:
    """The certificate of a row, in the words of who asks.

    Args:
        row: the row.
        store: where it is.
        space: of who asks.
        keep: tensors that levels keep, in the words of who asks.

    Raises:
        ConfigError: it is no certificate.
        DataError: it is missing, damaged, or of another problem.
    """
    found = parse_certificate(store.certificate(row), f"certificate {row.certificate}")
    hashes = space.workload.hash, space.accelerator.hash
    if found.accelerator_hash != hashes[1]:
        raise DataError(f"certificate {row.certificate}: is of another machine.")
    if found.workload == space.workload and found.accelerator.name == space.accelerator.name:
        return found
    code = stored_code(space, found.workload, found.record)
    restricted = restriction(space.workload, space.accelerator, keep)
    return found.model_copy(
        update={
            "workload": space.workload,
            "workload_hash": hashes[0],
            "accelerator": space.accelerator,
            "accelerator_hash": hashes[1],
            "keep": restricted,
            "problem_hash": problem_hash(
                *hashes, found.objective, restricted, every_order=space.orders is not None
            ),
            "record": mapping_record(space, code),
            # It numbers its pieces by the order of dimensions.
            "progress": found.progress if found.workload_hash == hashes[0] else None,
        }
    )
