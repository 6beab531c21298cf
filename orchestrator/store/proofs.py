"""Proofs in the store: certificates as they are, and in the words of who asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from costmodel.exact.certificate import Certificate, parse_certificate
from costmodel.exact.restriction import problem_hash, restriction
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from mapspace.errors import DataError, MapspaceError
from orchestrator.store.address import Question, problem
from orchestrator.store.compaction import tidy
from orchestrator.store.mappings import stored_code
from orchestrator.store.rows import content_id, finite, row_of

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.map_space.map_space import MapSpace
    from costmodel.space import Codes
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row


def read_proof(
    space: MapSpace, objective: Objective, seconds: float | None, store: Store
) -> Certificate | None:
    """The certificate of a space's least value that the store has.

    Args:
        space: of the workload and machine, without a restriction.
        objective: what is minimised.
        seconds: the budget of the proof, s; one that is not finished serves if it had as much.
            None: only a finished one serves.
        store: the store.

    Returns:
        The certificate in the words of who asks; None where there is none.
    """

    def serves(row: Row) -> bool:
        had = seconds is not None and row.budget_seconds is not None
        return row.proven or (had and row.budget_seconds >= seconds)  # type: ignore[operator]

    row = store.find(_question(space, objective, seconds).question, serves)
    if row is None:
        return None
    try:
        found = parse_certificate(store.certificate(row), f"certificate {row.certificate}")
        code = stored_code(space, found.workload, found.record)
        return certificate_of(row, store, space, code, None)
    except MapspaceError as error:
        store.tell(f"row {row.name}: cannot be used, so it is proven anew: {error}")
        return None


def keep_proof(
    space: MapSpace, certificate: Certificate, seconds: float | None, store: Store
) -> None:
    """Keeps the certificate of a space's least value, for which the proof had so many seconds."""
    question = _question(space, certificate.objective, seconds)
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
    if store.add([row], [text]):
        tidy(store)


def certificate_of(
    row: Row,
    store: Store,
    space: MapSpace,
    code: Codes,
    keep: Mapping[str, Sequence[str]] | None,
) -> Certificate:
    """The certificate of a row, in the words of who asks.

    Args:
        row: the row.
        store: where it is.
        space: of who asks.
        code: `[D]` its mapping in that space.
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


def _question(space: MapSpace, objective: Objective, seconds: float | None) -> Question:
    model = LoopNestModel()
    content = {
        "kind": "proof",
        "problem": problem(space.workload, space.accelerator),
        "objective": objective,
        "model": [model.name, model.version],
    }
    return Question(content, {"seconds": seconds})
