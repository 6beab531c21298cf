"""Timeloop's input files as records, and as problems that are searched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.loop_nest.nest_problems import read_problem as read_problem_line
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from costmodel.timeloop.architecture import read_architecture
from costmodel.timeloop.constraints import check_mapping, read_entries
from costmodel.timeloop.documents import read_documents
from costmodel.timeloop.energies import read_table, unused
from costmodel.timeloop.keys import passed
from costmodel.timeloop.mapping import read_mapping
from costmodel.timeloop.nodes import tree_of_nodes
from costmodel.timeloop.problem import read_problem
from mapspace.arguments import checked
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

BUDGETS = frozenset(
    [
        "algorithm",
        "diagnostics",
        "filter-revisits",
        "live-status",
        "log-all-mappings",
        "log-interval",
        "log-level",
        "log-stats",
        "log-suboptimal",
        "max-permutations-per-if-visit",
        "max-temporal-loops-in-a-mapping",
        "num-threads",
        "optimal-cutoff",
        "out-prefix",
        "penalize-consecutive-bypass-fails",
        "search-size",
        "sync-interval",
        "timeout",
        "victory-condition",
    ]
)
"""What the files say of how Timeloop's mapper searches, with hyphens."""

_OF_MAPPER = BUDGETS | {"optimization-metric", "optimization-metrics", "version"}
Record = dict[str, Any]


class TimeloopInput(NamedTuple):
    """What files of Timeloop's say."""

    record: Record
    """`problem`, `arch_name`, `arch`, and `mapping` where a file has one."""
    rules: tuple[Record, ...]
    """Constraints of the architecture, entries in the words of `constraint_entries`."""
    wishes: tuple[Record, ...]
    """Likewise of the map space."""
    mapper: Mapping[str, Any]
    """What the files say of Timeloop's mapper."""
    idle: tuple[str, ...]
    """Keys that change no cost, each with its place: Timeloop does not read them either."""
    left_out: tuple[str, ...]
    """What is not modelled and was left out, each with its place."""

    places: tuple[str, ...] = ()
    """Where each of the constraints stands."""

    @property
    def constraints(self) -> tuple[Record, ...]:
        """Of architecture and map space."""
        return (*self.rules, *self.wishes)

    def mapped(self) -> Record:
        """The record with its mapping, which the architecture's constraints allow.

        Raises:
            ConfigError: no file has a mapping, or it breaks a constraint.
        """
        if "mapping" not in self.record:
            raise ConfigError("no file has mapping at its top level: what is evaluated.")
        check_mapping(self.rules, self.record)
        return self.record

    def problem(self) -> tuple[Workload, Accelerator]:
        """The workload, and the machine under the constraints, as they are searched.

        Raises:
            ConfigError: constraints that leave nothing or cannot be read, or a problem that no
                map space can be laid out of.
        """
        try:
            return read_problem_line({**self.record, "constraints": self.constraints})
        except ConfigError as error:
            found = re.match(r"constraints\[(\d+)\]", str(error))
            if found is None or int(found[1]) >= len(self.places):
                raise
            place = self.places[int(found[1])]
            raise ConfigError(f"{place}{str(error)[found.end() :]}") from error


def _has_links(record: Record, *, asked: bool) -> bool:
    """Whether a machine has children that could hand words on, and the mapping no remainders."""
    arch = record["arch"]
    fans = any(entry["instances"] > 1 for entry in (*arch["levels"], arch["mac"]))
    return fans and (asked or not any(_has_remainders(one) for one in record.get("mapping", ())))


def _has_remainders(level: Record) -> bool:
    """Whether a level's loops, such as `[dimension, trips, of the last pass]`, are cut short."""
    return any(
        isinstance(loop[-1], int) and loop[-1] != loop[1]
        for key in ("temporal", "spatial")
        for loop in level.get(key, ())
    )


@checked
def from_timeloop(
    files: str | Path | Sequence[str | Path],
    *,
    lenient: bool = False,
    link_transfers: bool | None = None,
) -> TimeloopInput:
    """Reads input files of Timeloop's, in any order.

    Args:
        files: one or several; YAML of versions 0.2 to 0.4 or libconfig (`.cfg`), with an
            architecture, a problem, and perhaps a mapping, constraints, an energy table (ERT) and
            more.
        lenient: whether to leave out what is not modelled, instead of refusing it.
        link_transfers: whether neighbours on a mesh hand words to each other; None: as Timeloop
            counts them, but for a mapping with remainders, where they are not counted.

    Raises:
        ConfigError: one line: the file, the key's path, what was expected and what came.
    """
    given = [files] if isinstance(files, str | Path) else files
    if any(not str(file) for file in given):
        raise ConfigError("files: expected names of files, got an empty text.")
    documents = read_documents([Path(file) for file in given], lenient=lenient)
    left_out: list[str] | None = [] if lenient else None
    variables = documents.parts["variables"].value if "variables" in documents.parts else {}
    if not isinstance(variables, Mapping):
        raise ConfigError(f"variables: expected a mapping, got {shown(variables)}.")
    idle: list[str] = []
    needed = documents.needed("architecture", "what the machine is")
    if isinstance(needed.value, Mapping) and "nodes" in needed.value:
        needed, documents = tree_of_nodes(needed, documents, idle)
    table = read_table(documents.parts.get("ERT"), idle)
    architecture = read_architecture(needed, table, variables, left_out)
    arch = architecture.arch
    words = {level["word_bits"] for level in arch["levels"]}
    problem, unread = read_problem(documents.needed("problem", "what is computed"), words, left_out)
    if any("bits" in tensor for tensor in problem["tensors"]):
        # As the branch of Timeloop that reads them: each word holds whole values alone.
        arch = {**arch, "levels": [{**level, "packing": "word"} for level in arch["levels"]]}
    record = {"problem": problem, "arch_name": arch["name"], "arch": arch}
    if "mapping" in documents.parts and documents.parts["mapping"].value:
        record["mapping"] = read_mapping(documents.parts["mapping"], problem, arch, idle)
    if link_transfers is not False and _has_links(record, asked=bool(link_transfers)):
        record["arch"] = {**arch, "link_transfers": True}
    (rules, places), (wishes, more) = (
        read_entries(documents.parts.get(name), problem, arch, left_out)
        for name in ("architecture_constraints", "mapspace")
    )
    mapper = documents.parts["mapper"].value if "mapper" in documents.parts else {}
    if not isinstance(mapper, Mapping):
        raise ConfigError(f"{documents.parts['mapper'].place}: expected a mapping.")
    hyphened = {str(key).replace("_", "-"): value for key, value in mapper.items()}
    foreign = passed(hyphened, _OF_MAPPER, documents.parts["mapper"].place) if mapper else []
    return TimeloopInput(
        record,
        rules,
        wishes,
        mapper,
        (
            *architecture.idle,
            *unread,
            *idle,
            *foreign,
            *unused(table, documents.parts.get("ERT"), arch),
        ),
        (*(left_out or ()), *documents.left_out),
        (*places, *more),
    )
