"""What `import mapspace` offers of this room: the commands as functions."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.costs import Objective
from mapspace.arguments import checked
from mapspace.storage import place
from orchestrator.answers.results import SearchResult
from orchestrator.explain.comparison import ComparedMappings, compare
from orchestrator.explain.read_mapping import ReadMapping, read_file, read_mapping
from orchestrator.explain.record_explanation import ExplainedMapping
from orchestrator.explain.record_explanation import explain_mapping as explained
from orchestrator.explain.why_not import WhyNot, explain_why_not
from orchestrator.records.evaluate_records import numbered_record
from orchestrator.runs.locations import local_file

PROOF_SECONDS = 60.0

RecordSource = SearchResult | Mapping[str, Any] | str | Path
"""A mapping: a record, a file of records, which means its first, or a result that has one."""


@checked
def explain_mapping(source: RecordSource, *, objective: Objective = "edp") -> ExplainedMapping:
    """Says where a mapping's costs come from, and what the best move from it would gain.

    Args:
        source: a mapping record, a file of such (its first), or a result that has one.
        objective: what a better mapping has less of.

    Raises:
        ConfigError: the record cannot be read, or its mapping is not feasible.
    """
    return explained(_read(source), objective)


@checked
def diff(first: RecordSource, second: RecordSource) -> ComparedMappings:
    """Says in what two mappings of one operation differ, and what that costs.

    Args:
        first: as in `explain_mapping`.
        second: likewise, perhaps on another machine.

    Raises:
        ConfigError: as in `explain_mapping`, or they are of different operations.
    """
    return compare(_read(first), _read(second))


@checked
def why_not(
    result: SearchResult,
    source: RecordSource,
    *,
    seconds: float = PROOF_SECONDS,
    progress: bool = False,
) -> WhyNot:
    """Says how far a mapping of one's own is from a result, and which decision loses most.

    Args:
        result: of `search` or `prove`.
        source: as in `explain_mapping`; of the same operation on the same machine.
        seconds: the most that the proofs of its decisions may take together, s.
        progress: whether progress is printed on standard error.

    Raises:
        ConfigError: as in `diff`, or the machine has no such mapping.
    """
    stream = sys.stderr if progress else io.StringIO()
    return explain_why_not(result, _record(source), seconds=seconds, stream=stream)


def _record(source: RecordSource) -> dict[str, Any]:
    if isinstance(source, SearchResult):
        return source.record
    if isinstance(source, Mapping):
        return dict(source)
    with local_file(place(source), there=True) as file:
        return numbered_record(file, None)


def _read(source: RecordSource) -> ReadMapping:
    """A mapping; messages about a file name it."""
    if isinstance(source, SearchResult | Mapping):
        return read_mapping(_record(source))
    with local_file(place(source), there=True) as file:
        return read_file(file)
