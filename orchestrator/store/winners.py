"""Where a search may begin: the winning mappings that a store has of similar problems.

Similar is what has the same dimensions and tensors under the same names, such as another layer of a
network, on the very same machine and for the same objective. The nearest in the logarithms of its
sizes comes first. Its mapping is taken over twice: with every factor as near to its own as the
sizes allow, and so that the outermost loops alone make up for other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.exact.certificate import parse_certificate
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import record_code
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.errors import DataError, MapspaceError
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.store.canonical import canonical
from orchestrator.store.folder import rank

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row

# Problems whose winners are taken over: each is two queries at most.
MOST_WINNERS = 4


@dataclass(frozen=True)
class Winner:
    """A stored mapping, taken over to another problem.

    Attributes:
        workload: the name of the problem that it is of.
        distance: Euclidean, between the binary logarithms of the sizes.
        codes: `[m, D]` feasible mappings of the problem at hand, m from 1 to 2.
    """

    workload: str
    distance: float
    codes: Codes


class _Found(StrictModel):
    """What makes a mapping of a row's payload."""

    workload: Workload
    record: dict[str, Any]


def winners(
    space: MapSpace, objective: Objective, store: Store, most: int = MOST_WINNERS
) -> tuple[Winner, ...]:
    """The winners of the nearest problems, the nearest first; the problem itself is left out.

    Args:
        space: of the problem at hand.
        objective: what is minimised.
        store: where answers are; a line says what of it cannot be read.
        most: of so many problems at most.
    """
    own = canonical(space.workload).hash
    best: dict[str, Row] = {}
    for row in store.rows_with(
        accelerator_hash=space.accelerator.hash, objective=objective, model=LoopNestModel().name
    ):
        known = best.get(row.problem, row)
        similar = row.kind != "network" and row.value is not None and row.problem != own
        if similar and rank(row) <= rank(known):
            best[row.problem] = row
    found: list[Winner] = []
    taken: set[bytes] = set()
    for distance, workload, record in sorted(_similar(space, best, store), key=_order):
        if len(found) == most:
            break
        codes = _taken_over(space, workload, record)
        fresh = [code for code in codes if code.tobytes() not in taken]
        if fresh:
            taken.update(code.tobytes() for code in fresh)
            found.append(Winner(workload.name, distance, np.stack(fresh)))
    return tuple(found)


def _order(entry: tuple[float, Workload, Any]) -> tuple[float, str]:
    return entry[0], entry[1].hash


def _similar(
    space: MapSpace, rows: dict[str, Row], store: Store
) -> Iterator[tuple[float, Workload, dict[str, Any]]]:
    """Distance, workload and mapping record of the rows that are of similar problems."""
    kind, sizes = _kind(space.workload), _logarithms(space.workload)
    for row in rows.values():
        try:
            workload, record = _mapping(row, store)
        except MapspaceError as error:
            store.tell(f"row {row.name}: cannot be used, so no search begins from it: {error}")
            continue
        if _kind(workload) == kind:
            distance = float(np.linalg.norm(_logarithms(workload) - sizes))
            yield distance, workload, record


def _kind(workload: Workload) -> Any:
    """What two workloads have in common that differ in sizes, strides and their own names."""
    tensors = [
        (tensor.name, tensor.output, [[name for name, _ in axis.terms] for axis in tensor.axes])
        for tensor in workload.tensors
    ]
    return workload.dimension_names, tensors


def _logarithms(workload: Workload) -> Any:
    return np.log2([workload.dimensions[name] for name in workload.dimension_names])


def _mapping(row: Row, store: Store) -> tuple[Workload, dict[str, Any]]:
    """The workload and the mapping record of a row.

    Raises:
        DataError: they are damaged.
        ConfigError: likewise.
    """
    if row.certificate is not None:
        certificate = parse_certificate(store.certificate(row), f"certificate {row.certificate}")
        return certificate.workload, dict(certificate.record)
    content = row.content()
    known = {key: content.get(key) for key in ("workload", "record")}
    found = validate(_Found, known, f"row {row.name}", DataError)
    return found.workload, found.record


def _taken_over(space: MapSpace, workload: Workload, record: dict[str, Any]) -> Codes:
    """`[m, D]` feasible mappings of a space that are like a mapping of another problem."""
    its = MapSpace(workload, space.accelerator)
    try:
        point = its.encode(record_code(its, record)[None]).astype(np.float64)
    except MapspaceError:
        return space.sample(np.random.default_rng(0), 0)
    points = [point]
    if space.orders is None:
        tables = space.tables
        grown = point.copy()
        first = tables.sizes.size * (1 + int(tables.temporal_slot[0]))
        ratio = tables.sizes / its.tables.sizes
        grown[:, first : first + tables.sizes.size] *= ratio
        points.insert(0, grown)
    codes = space.project(np.concatenate(points))
    codes = codes[space.feasible(codes)]
    return codes[np.sort(np.unique(codes, axis=0, return_index=True)[1])]
