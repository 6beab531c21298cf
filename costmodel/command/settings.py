"""The file that says how a simulator is called, read strictly.

```yaml
run: [python, simulator.py, mapping.json]
files: {mapping.json: "{{ record | tojson }}"}
costs:
  energy_pj: {json: energy}
  latency_cycles: {regex: 'cycles: ([0-9]+)'}
infeasible: {exit_codes: [3]}
timeout_s: 30
```
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from mapspace.strict_yaml import PositiveNumber, Size, StrictModel

Cost = Literal["energy_pj", "latency_cycles"]
COSTS: tuple[Cost, ...] = ("energy_pj", "latency_cycles")
STANDARD_OUTPUT = "-"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


def _compiles(pattern: str) -> str:
    """Refuses what is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}.") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class ReadCost(StrictModel):
    """Where a cost stands: exactly one of `regex`, `json` and `csv`."""

    file: str = STANDARD_OUTPUT
    """A file in the folder of the run; `-`: what the command prints."""
    regex: Pattern | None = None
    """The first group of its last match, or the whole match where it has none."""
    json_path: Annotated[str | None, Field(alias="json")] = None
    """Keys and indices with dots between them, such as `totals.0.energy`."""
    csv: str | None = None
    """A column of a table with a header; the last row counts."""
    scale: PositiveNumber = 1.0
    """What the number is multiplied by to be pJ, or cycles."""

    @model_validator(mode="after")
    def _check(self) -> ReadCost:
        given = [name for name in ("regex", "json_path", "csv") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("expected exactly one of regex, json and csv.")
        _check_name(self.file, "file")
        return self


class Infeasible(StrictModel):
    """How a simulator says that it cannot run a mapping, which is no failure."""

    exit_codes: tuple[Annotated[int, Field(strict=True, ge=1, le=255)], ...] = ()
    """Exit codes that mean so."""
    regex: Pattern | None = None
    """What it prints then, on standard output or standard error."""


class Simulator(StrictModel):
    """A command that simulates one mapping."""

    run: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]
    """The command and its arguments, each a template; no shell reads them."""
    files: dict[str, str] = Field(default_factory=dict, max_length=100)
    """Files that are written into the folder of the run before it starts: templates by name."""
    costs: Annotated[dict[Cost, ReadCost], Field(min_length=1)]
    """Where `energy_pj` and `latency_cycles` stand; one that is not named is not searched for."""
    infeasible: Infeasible = Infeasible()
    """How it says that a mapping cannot run."""
    timeout_s: PositiveNumber = 60.0
    """What one run may take."""
    retries: Annotated[int, Field(strict=True, ge=0, le=100)] = 1
    """How often a run that fails or hangs is tried again."""
    workers: Size = 1
    """Runs at a time in one process."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables beside those of mapspace itself."""
    version: str = "1"
    """Of the simulator: change it when its figures change."""

    @model_validator(mode="after")
    def _check(self) -> Simulator:
        for name in self.files:
            _check_name(name, "files")
        return self

    @property
    def objectives(self) -> tuple[str, ...]:
        """What can be minimised of the costs that are read."""
        if len(self.costs) == len(COSTS):
            return ("edp", "energy", "latency", "ed2p")
        return ("energy",) if "energy_pj" in self.costs else ("latency",)


def _check_name(name: str, where: str) -> None:
    """Refuses names that leave the folder of the run."""
    if name != STANDARD_OUTPUT and not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"{where}: expected a name inside of the folder of the run, got {name!r}.")
