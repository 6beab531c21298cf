"""`mapspace search --problems`: a file of problems, each on its own machine, one after another."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from costmodel.loop_nest.enumeration import whole_space
from costmodel.loop_nest.nest_problems import read_problem
from costmodel.map_space.map_space import MapSpace
from mapspace.bounded_reading import json_lines
from mapspace.errors import ConfigError, MapspaceError, NoMappingError
from orchestrator.answers.request import ENUMERATION
from orchestrator.answers.result_text import search_text
from orchestrator.runs.live import Live
from orchestrator.schemas.search import NoMapping, SearchAnswer
from orchestrator.search.enumerated import enumerate_space
from orchestrator.search.nothing_left import why_nothing
from orchestrator.search.one_workload import search_workload
from orchestrator.search.stored import Asked, keep, read

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload
    from orchestrator.answers.request import Request
    from orchestrator.answers.results import SearchResult


@dataclass(frozen=True)
class Problem:
    """A line of the file.

    Attributes:
        where: `file:line`.
        workload: the operation.
        machine: its machine, with its constraints.
    """

    where: str
    workload: Workload
    machine: Accelerator


@dataclass(frozen=True)
class Answer:
    """What was found for a line.

    Attributes:
        problem: the line.
        objective: what was minimised.
        result: the mapping; None where none was found.
        why: why there is none.
        nothing: whether there is none, rather than none found.
    """

    problem: Problem
    objective: Objective
    result: SearchResult | None
    why: str = ""
    nothing: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether an interruption ended the search."""
        return self.result is not None and self.result.interrupted

    def to_dict(self) -> SearchAnswer | NoMapping:
        """As `search --json` prints it; without a mapping `record` is null, and `why` says why."""
        if self.result is not None:
            return self.result.to_dict()
        return {
            "workload": self.problem.workload.name,
            "accelerator": self.problem.machine.name,
            "objective": self.objective,
            "proven": self.nothing,
            "energy_pj": None,
            "latency_cycles": None,
            "record": None,
            "why": self.why,
            "from_store": False,
        }

    def text(self) -> str:
        """For people."""
        if self.result is not None:
            return search_text(self.result)
        return f"{self.problem.workload}\n\nno mapping: {self.why}"


def read_problems(path: Path) -> list[Problem]:
    """All lines of a file, before any of them is searched.

    Raises:
        ConfigError: a line that cannot be read: `file:line: key: why`.
        DataError: the file is damaged.
    """
    found = []
    for number, line in json_lines(path):
        where = f"{path}:{number}"
        try:
            work, machine = read_problem(line)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        found.append(Problem(where, work, machine))
    if not found:
        raise ConfigError(f"{path}: expected lines with arch and problem, found none.")
    return found


def search_problems(
    request: Request, problems: Sequence[Problem], stream: TextIO | None = None
) -> Iterator[Answer]:
    """Searches line after line, with live progress.

    Small spaces are enumerated, where no searcher is asked for: their best mapping is proven.

    Args:
        request: how to search each; its workload and accelerator are not looked at.
        problems: the lines.
        stream: takes the progress; standard error if None.
    """
    live = Live(stream or sys.stderr)
    for number, problem in enumerate(problems, start=1):
        began = time.monotonic()
        live.line(f"{number} of {len(problems)}: {problem.workload.name} on {problem.machine.name}")
        answer = _answer(request, problem, live)
        if answer.result is None:
            live.line(f"no mapping: {answer.why}")
        else:
            standing = "proven" if answer.result.proven else f"gap {answer.result.gap:.3g}"
            live.line(f"{standing}, {time.monotonic() - began:.2f} s")
        yield answer
        if answer.interrupted:
            return


def _answer(request: Request, problem: Problem, live: Live) -> Answer:
    work, machine = problem.workload, request.as_asked(problem.machine)
    try:
        space = MapSpace(work, machine)
    except ConfigError as error:
        return Answer(problem, request.objective, None, str(error), nothing=True)
    whole = None if request.searcher is not None else whole_space(space)
    if whole is not None:
        wanted = Asked(request, space, ENUMERATION, None)
        result = read(wanted)
        if result is None:
            result = enumerate_space(request, space, whole)
            keep(wanted, result)
        why = "" if result is not None else why_nothing(space)
        return Answer(problem, request.objective, result, why, nothing=result is None)
    try:
        return Answer(problem, request.objective, search_workload(request, work, machine, live))
    except MapspaceError as error:
        nothing = isinstance(error, NoMappingError)
        return Answer(problem, request.objective, None, str(error), nothing=nothing)
