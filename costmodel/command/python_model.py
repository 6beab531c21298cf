"""A Python callable or class of a user's own as a cost model.

Its module is imported, and so its code runs: nobody but the user says which.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from costmodel.command.own_model import Answer, OwnModel
from costmodel.command.settings import COSTS, Cost
from costmodel.command.templates import FORMS
from costmodel.loop_nest.nest_loops import Nest, nest_of
from mapspace.bounded_reading import LARGEST_FILE, read_bytes
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Size, StrictModel


class PythonSimulator(StrictModel):
    """A callable that simulates mappings."""

    call: str
    """`module:attribute`, or `FILE.py:attribute`; of a class an object is made once per process."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What a class is made with, by name."""
    batch: Size | None = None
    """Mappings of one call, which then takes a list and returns one; null: one mapping a call."""
    costs: Annotated[tuple[Cost, ...], Field(min_length=1)] = COSTS
    """The costs that it returns."""
    cpus: Annotated[float, Field(ge=0)] = 1.0
    """Processors that one process takes of Ray in a pool of workers."""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs likewise."""
    version: str = "1"
    """Of the simulator: change it when its figures change; the content of a file counts itself."""


class OwnMapping:
    """A mapping as a simulator reads it: what templates may name, as attributes."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        """The whole mapping record."""

    @cached_property
    def _nest(self) -> Nest:
        return nest_of(self.record)

    def __getattr__(self, name: str) -> Any:
        """`levels`, `factors`, `dims`, `name`, `machine`, `timeloop`, `map`, `pseudo`, `c`."""
        if name not in FORMS:
            raise AttributeError(f"a mapping has {', '.join(FORMS)}; got {name!r}")
        found = self.__dict__[name] = FORMS[name](self.record, self._nest)
        return found


class PythonModel(OwnModel):
    """Calls it; what raises or returns no finite number is a mapping that cannot run.

    Attributes:
        simulator: how it is called.
    """

    name = "python"

    def __init__(self, simulator: PythonSimulator) -> None:
        """Imports it.

        Raises:
            ConfigError: it cannot be imported, or is nothing to call.
        """
        super().__init__(version_of(simulator), simulator.costs)
        self.simulator = simulator
        self._call = loaded(simulator)

    def __reduce__(self) -> Any:
        """Another process imports it anew."""
        return PythonModel, (self.simulator,)

    def _answers(self, records: Sequence[dict[str, Any]]) -> Iterator[Answer]:
        size = self.simulator.batch
        mappings = [OwnMapping(record) for record in records]
        if size is None:
            for mapping in mappings:
                yield from self._called([mapping])
            return
        for start in range(0, len(mappings), size):
            some = mappings[start : start + size]
            yield from self._called(some)

    def _called(self, some: list[OwnMapping]) -> list[Answer]:
        """One call."""
        count = len(some)
        try:
            # Where commands print their answers nothing else may stand.
            with redirect_stdout(sys.stderr):
                found = self._call(some[0] if self.simulator.batch is None else some)
                said = [found] if self.simulator.batch is None else list(found)
        except Exception as error:  # whatever a user's code raises is an answer
            reason = " ".join(str(error).split())[:300]
            return [Answer(None, f"{type(error).__name__}: {reason}")] * count
        if len(said) != count:
            why = f"expected {count} answers of a batch, got {len(said)}."
            return [Answer(None, why)] * count
        return [self._read(one) for one in said]

    def _read(self, said: Any) -> Answer:
        """None: infeasible. Else costs by name, in order, or the only one."""
        if said is None:
            return Answer(None)
        names = self.simulator.costs
        if isinstance(said, Mapping):
            missing = [name for name in names if name not in said]
            if missing:
                return Answer(None, f"expected {missing[0]} in what it returns.")
            given = [said[name] for name in names]
        elif len(names) == 1 and not isinstance(said, Sequence):
            given = [said]
        elif isinstance(said, Sequence) and len(said) == len(names):
            given = list(said)
        else:
            return Answer(None, f"expected {' and '.join(names)}, got {str(said)[:100]}.")
        values = dict.fromkeys(COSTS, 0.0)
        for name, value in zip(names, given, strict=True):
            try:
                number = float(value)
            except (TypeError, ValueError):
                return Answer(None, f"{name}: expected a number, got {str(value)[:100]!r}.")
            if not (math.isfinite(number) and number >= 0):
                return Answer(
                    None, f"{name}: expected a finite number of at least 0, got {number}."
                )
            values[name] = number
        return Answer((values["energy_pj"], values["latency_cycles"]))


def split(call: str) -> tuple[str, str]:
    """Module or file, and attribute.

    Raises:
        ConfigError: not of that form.
    """
    module, colon, attribute = call.rpartition(":")
    if not colon or not module or not attribute.isidentifier():
        raise ConfigError(f"call: expected module:attribute or FILE.py:attribute, got {call!r}.")
    return module, attribute


def loaded(simulator: PythonSimulator) -> Callable[..., Any]:
    """What is called, imported and made.

    Raises:
        ConfigError: one line: it is not there, cannot be imported, or is nothing to call.
    """
    module, attribute = split(simulator.call)
    try:
        holder = (
            _of_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
        )
    except Exception as error:  # whatever a user's module does when it is imported
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"call: {module} cannot be imported: {type(error).__name__}: {reason}"
        ) from error
    found = getattr(holder, attribute, None)
    if found is None:
        raise ConfigError(f"call: {module} has no {attribute}.")
    if inspect.isclass(found):
        try:
            found = found(**simulator.options)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"call: {attribute}: {type(error).__name__}: {reason}") from error
    elif callable(found) and simulator.options:
        raise ConfigError(f"options: {simulator.call} is no class that takes any.")
    if not callable(found):
        raise ConfigError(
            f"call: {simulator.call}: expected something to call, got {found!r:.100}."
        )
    called: Callable[..., Any] = found
    return called


def _of_file(file: Path) -> Any:
    """The module of a file, under a name that no other file has."""
    content = read_bytes(file, LARGEST_FILE, ConfigError)
    name = f"mapspace_own_{hashlib.sha256(content + str(file.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def version_of(simulator: PythonSimulator) -> str:
    """Changes with the settings, and with the content of a file."""
    said = simulator.model_dump(mode="json", exclude={"cpus", "gpus", "call"})
    text = json.dumps(said, sort_keys=True)
    module, attribute = split(simulator.call)
    content = attribute.encode()
    if module.endswith(".py"):
        try:
            content += read_bytes(Path(module), LARGEST_FILE, ConfigError)
        except OSError as error:
            raise ConfigError(f"call: {module}: {error.strerror}.") from error
    else:
        content += module.encode()
    return f"{simulator.version}-{hashlib.sha256(text.encode() + content).hexdigest()[:12]}"
