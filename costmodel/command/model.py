"""The cost of a mapping by somebody else's program: written, run, read."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from costmodel.command.own_model import Answer, OwnModel
from costmodel.command.process import LARGEST_OUTPUT, Finished, Processes
from costmodel.command.settings import COSTS, STANDARD_OUTPUT, ReadCost, Simulator
from costmodel.command.templates import Templates
from mapspace.errors import ConfigError, DataError
from mapspace.left_behind import scratch_folder


class CommandModel(OwnModel):
    """A simulator with a command line as a cost model.

    Attributes:
        simulator: how it is called.
    """

    name = "command"

    def __init__(self, simulator: Simulator) -> None:
        """Takes the settings, and refuses templates that name what there is not."""
        super().__init__(version_of(simulator), tuple(simulator.costs))
        self.simulator = simulator
        self._templates = Templates(simulator)

    def _answers(self, records: Sequence[dict[str, Any]]) -> Iterator[Answer]:
        """`workers` at a time."""
        processes = Processes()
        with ThreadPoolExecutor(self.simulator.workers) as pool:
            try:
                yield from pool.map(lambda record: self._answer(record, processes), records)
            except BaseException:
                # Nobody waits for them any more.
                processes.end()
                raise

    def _answer(self, record: dict[str, Any], processes: Processes) -> Answer:
        answer = Answer(None, "")
        for _ in range(1 + self.simulator.retries):
            answer = self._run(record, processes)
            if answer.values is not None or not answer.why:
                return answer
        return answer

    def _run(self, record: dict[str, Any], processes: Processes) -> Answer:
        simulator = self.simulator
        words, files = self._templates.filled(record)
        environment = {**os.environ, **simulator.environment}
        with scratch_folder("simulator") as folder:
            for file, text in files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            try:
                done = processes.run(words, folder, environment, simulator.timeout_s)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConfigError(f"run: cannot start {words[0]}: {reason}.") from error
            return Answer(None, done.cut) if done.cut else self._read(done, folder)

    def _read(self, done: Finished, folder: Path) -> Answer:
        said, complained = done.printed, done.complained
        infeasible = self.simulator.infeasible
        if done.exit_code in infeasible.exit_codes:
            return Answer(None)
        if infeasible.regex is not None and re.search(infeasible.regex, f"{said}\n{complained}"):
            return Answer(None)
        if done.exit_code != 0:
            last = (complained.strip() or said.strip() or "it printed nothing").splitlines()[-1]
            return Answer(None, f"exit code {done.exit_code}: {last[:300]}")
        values = []
        for cost in COSTS:
            how = self.simulator.costs.get(cost)
            try:
                values.append(0.0 if how is None else _value(how, said, folder))
            except DataError as error:
                return Answer(None, f"costs.{cost}: {error}")
        return Answer((values[0], values[1]))


def version_of(simulator: Simulator) -> str:
    """What changes whenever a figure could: of the settings, and of the files that are run.

    A word of the command that is a whole path counts with the file's content: a simulator that was
    compiled anew is another one, and one that was moved is not.
    """
    said = simulator.model_dump(mode="json")
    said["run"] = [_digest(word) or word for word in simulator.run]
    text = json.dumps(said, sort_keys=True)
    return f"{simulator.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _digest(word: str) -> str:
    """The name and content of a file that is named by its whole path; empty of anything else."""
    file = Path(word)
    if not file.is_absolute() or not file.is_file():
        return ""
    try:
        with file.open("rb") as opened:
            return f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}"
    except OSError:
        return ""


def _value(how: ReadCost, said: str, folder: Path) -> float:
    """A cost of what a run left.

    Raises:
        DataError: it is not there, or no finite number of at least 0.
    """
    text = said if how.file == STANDARD_OUTPUT else _content(folder, how.file)
    if how.regex is not None:
        matches = list(re.finditer(how.regex, text))
        if not matches:
            raise DataError(f"{_shown(text)} does not match {how.regex!r}.")
        found: Any = matches[-1][1] if matches[-1].re.groups else matches[-1][0]
    elif how.json_path is not None:
        found = _in_json(text, how.json_path)
    else:
        try:
            rows = list(csv.DictReader(io.StringIO(text)))
        except csv.Error as error:
            raise DataError(f"{_shown(text)} is no CSV: {error}.") from None
        if not rows or how.csv not in rows[-1]:
            raise DataError(f"{_shown(text)} has no column {how.csv!r} with a row.")
        found = rows[-1][how.csv]
    try:
        number = float(found) * how.scale
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"expected a number, got {str(found)[:100]!r}.") from None
    if not (math.isfinite(number) and number >= 0):
        raise DataError(f"expected a finite number of at least 0, got {number}.")
    return number


def _content(folder: Path, name: str) -> str:
    file = folder / name
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"the command left no file {name}.")
    with file.open(errors="replace") as opened:
        return opened.read(LARGEST_OUTPUT)


def _in_json(text: str, path: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{_shown(text)} is no JSON.") from None
    for key in path.split("."):
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            raise DataError(f"{_shown(text)} has no {path}.")
    return found


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line[:80] + ("..." if len(line) > 80 else "")) if line else "nothing printed"
