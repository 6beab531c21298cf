"""A row of the store: one answer, with what it was asked as columns.

A single row lies in a JSON file of its own until many are brought together in Parquet; both hold
the same columns. `payload` is what makes the answer again; the other columns are for questions in
SQL, and for finding it.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from mapspace.bounded_reading import LARGEST_FILE, parse_json, read_bytes
from mapspace.errors import DataError
from mapspace.storage import Place
from mapspace.strict_yaml import StrictModel, validate
from mapspace.version import __version__
from orchestrator.store.canonical import canonical

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload
    from orchestrator.store.address import Question

Kind = Literal["search", "run", "proof", "front", "network", "evaluation"]

Hash = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{32}$")]
Text = Annotated[str, Field(strict=True, max_length=1 << 20)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class Row(StrictModel):
    """One answer."""

    kind: Kind
    """What was computed: a search, a search of a benchmark, a proof alone, a front, a network whose
    layers were chosen together, an evaluation of a mapping."""
    question: Hash
    """Of everything that decides the answer but the budget."""
    address: Hash
    """Of everything, the budget included."""
    workload: Text
    """The workload's name, or the network's."""
    workload_hash: Text
    """Of the workload as it was written, names and orders included."""
    problem: Text
    """Of the workload without names."""
    accelerator: Text
    """The machine's name."""
    accelerator_hash: Text
    """Of the machine without its name."""
    objective: Text
    """What was minimised: edp, energy, latency, ed2p."""
    model: Text
    """The cost model."""
    model_version: Text
    """Its version."""
    method: Text
    """The searcher."""
    parameters: Text = "{}"
    """What the searcher was told, as JSON."""
    seed: Whole = 0
    """Its seed."""
    budget_seconds: Number | None = None
    """Budget of search time, s; null: none."""
    budget_iterations: Whole | None = None
    """Budget of cost queries; null: none."""
    budget_gap: Number = 0.0
    """The gap that was enough, as a share."""
    value: Number | None = None
    """The objective of the best mapping, in pJ and cycles; null: none was found."""
    energy_pj: Number | None = None
    """Its energy, pJ."""
    latency_cycles: Number | None = None
    """Its latency, cycles."""
    proven: Annotated[bool, Field(strict=True)] = False
    """Whether no mapping that was allowed is better."""
    lower_bound: Number | None = None
    """What no mapping is below, in pJ and cycles; null where nothing is known."""
    gap: Number | None = None
    """How far the mapping can be above the best one, as a share; null where nothing is known."""
    iterations: Whole = 0
    """Cost queries that were made."""
    seconds: Number = 0.0
    """Time of the search, s."""
    certificate: Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{32}\.json$")] | None = None
    """The certificate's file in the store's folder `certificates`."""
    stored: Number
    """When it was stored, s since 1970 (UTC)."""
    mapspace: Text
    """The version that computed it."""
    payload: Text = Field(default="{}", repr=False)
    """What makes the answer again, as JSON."""

    @cached_property
    def name(self) -> str:
        """32 hexadecimal digits of the SHA-256 of the row, which its file is named by."""
        return content_id(self.text().encode())

    @cached_property
    def id(self) -> int:
        """The first 63 bits of that."""
        return int(self.name[:16], 16) >> 1

    def text(self) -> str:
        """The row's file."""
        return _text(self.model_dump())

    def content(self) -> dict[str, Any]:
        """What makes the answer again.

        Raises:
            DataError: it is damaged.
        """
        found = parse_json(self.payload, f"row {self.name}", DataError)
        if not isinstance(found, dict):
            raise DataError(f"row {self.name}: payload: expected an object.")
        return found


COLUMNS: tuple[str, ...] = tuple(Row.model_fields)


def checked_row(values: Mapping[str, Any], row_id: int, where: str) -> Row:
    """The row of values that stand for all of its columns.

    Args:
        values: by the columns' names.
        row_id: what their content has to be.
        where: what a message starts with.

    Raises:
        DataError: they are no row, or another one.
    """
    row = validate(Row, values, where, DataError)
    # Every column is there and none is changed by the check: this is the text of the row itself,
    # which would take as long again to make.
    row.__dict__["name"] = content_id(_text(values).encode())
    if row.id != row_id:
        raise DataError(f"{where}: the file is damaged (a row is not what its id says).")
    return row


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, allow_nan=False) + "\n"


class Named(NamedTuple):
    """What an answer is about, where that is no single operation.

    Attributes:
        name: for people.
        hash: of it as it was written.
        problem: hash of it without names.
    """

    name: str
    hash: str
    problem: str


def row_of(
    kind: Kind,
    question: Question,
    subject: Workload | Named,
    machine: Accelerator,
    model: Any,
    **rest: Any,
) -> Row:
    """A row of an answer that was found now.

    Args:
        kind: what was computed.
        question: what was asked.
        subject: the operation, as it was written.
        machine: the machine.
        model: the cost model, with its name and version.
        rest: the other columns.
    """
    return Row(
        kind=kind,
        question=question.question,
        address=question.address,
        workload=subject.name,
        workload_hash=subject.hash,
        problem=subject.problem if isinstance(subject, Named) else canonical(subject).hash,
        accelerator=machine.name,
        accelerator_hash=machine.hash,
        model=model.name,
        model_version=model.version,
        stored=time.time(),
        mapspace=__version__,
        **rest,
    )


def content_id(content: bytes) -> str:
    """32 hexadecimal digits that name a content."""
    return hashlib.sha256(content).hexdigest()[:32]


def read_row(file: Place) -> Row:
    """The row of a JSON file, whose name is that of its content.

    Raises:
        FileNotFoundError: it is not there any more.
        DataError: it is damaged; the message names it.
    """
    content = read_bytes(file, LARGEST_FILE)
    if f"{content_id(content)}.json" != file.name:
        raise DataError(f"{file}: the file is damaged (its content is not what its name says).")
    return validate(Row, parse_json(content, str(file), DataError), str(file), DataError)


def finite(number: float) -> float | None:
    """A number for a column; None for what no number is."""
    return number if math.isfinite(number) else None
