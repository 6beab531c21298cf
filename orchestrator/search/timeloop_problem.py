"""`mapspace search --timeloop`: the problem of Timeloop's own input files, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from costmodel.costs import Objective
from costmodel.loop_nest.nest_writing import nest_record
from costmodel.timeloop.reading import TimeloopInput
from costmodel.timeloop.writing import mapping_text
from mapspace.errors import ConfigError
from mapspace.storage import Place, write_atomically
from orchestrator.answers.results import SearchResult
from orchestrator.search.problem_lines import Problem

_METRICS: Mapping[str, Objective] = {"edp": "edp", "energy": "energy", "delay": "latency"}


def problem_of(read: TimeloopInput, files: Sequence[str | Path]) -> Problem:
    """What is searched."""
    return Problem(str(files[0]), *read.problem())


def objective_of(read: TimeloopInput) -> Objective:
    """What the files' mapper minimises first; EDP where they do not say, as with Timeloop.

    Raises:
        ConfigError: a metric that is not modelled.
    """
    # Version 0.4 writes keys with underscores, and its front end writes both, one of them empty.
    mapper = {key.replace("_", "-"): value for key, value in read.mapper.items()}
    given = mapper.get("optimization-metrics") or mapper.get("optimization-metric") or "edp"
    first = given[0] if isinstance(given, list) else given
    if first not in _METRICS:
        raise ConfigError(
            f"mapper.optimization-metrics: expected {', '.join(_METRICS)} first, got {first!r}; "
            "name the objective instead."
        )
    return _METRICS[first]


def save(result: SearchResult, output: Place) -> None:
    """Writes a search's mapping: as Timeloop's YAML where the name ends so, else as a record."""
    if not str(output).endswith((".yaml", ".yml")):
        result.save(output)
        return
    record = nest_record(result.workload, result.accelerator, result.mapping)
    write_atomically(output, mapping_text(record).encode())
