"""What a user's simulators share, whether a command line or Python: answers, remembered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from costmodel.command.settings import COSTS, Cost
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE, Costs
from costmodel.loop_nest.nest_writing import nest_record
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError, ContractError

# So many answers in a row that are failures, and nothing else before: the settings are wrong.
_HOPELESS = 3


class Answer(NamedTuple):
    """What became of one run.

    Attributes:
        values: by `COSTS`; 0 of a cost that is not read. None: there are none.
        why: why there are none; empty of an infeasible mapping.
    """

    values: tuple[float, float] | None
    why: str = ""


class Memory(Protocol):
    """Knows what a simulator has answered before, and keeps what it answers."""

    def answer_of(self, record: dict[str, Any]) -> Answer | None:
        """The answer of a mapping, given as a record of a whole nest; None where it has none."""
        ...

    def keep_answer(self, record: dict[str, Any], answer: Answer) -> None:
        """Takes what the simulator has answered now."""
        ...


class OwnModel(ABC):
    """A simulator of a user's own as a cost model.

    A mapping that fails counts as one that cannot run, and `failures` counts it; where nothing but
    failures come, the last one is raised. What was simulated once is remembered.

    Attributes:
        name: of the cost model.
        version: of the settings and of the simulator.
        reads: the costs that it says.
        failures: mappings that failed.
        last_failure: why the last of them did.
        memory: what was answered elsewhere, or before; None: nothing.
    """

    name: str
    memory: Memory | None = None

    def __init__(self, version: str, reads: Sequence[Cost]) -> None:
        """Starts with nothing simulated."""
        self.version = version
        self.reads = tuple(reads)
        self.failures = 0
        self.last_failure = ""
        self._known: dict[bytes, Answer] = {}
        self._ever = False

    @abstractmethod
    def _answers(self, records: Sequence[dict[str, Any]]) -> Iterable[Answer]:
        """What becomes of mappings, given as records of whole nests, in order."""

    def evaluate(self, space: MapSpace, codes: Codes, *, detail: bool = False) -> Costs:
        """Costs of a batch of mappings.

        Args:
            space: the map space that the codes belong to.
            codes: `[B, D]`.
            detail: not known of a simulator: `Costs.detail` is None.

        Raises:
            ContractError: the space is no loop-nest map space, or the codes are none of its.
            ConfigError: the command cannot be started, or has only failed so far.
        """
        if not isinstance(space, MapSpace):
            raise ContractError(
                f"{type(self).__name__} needs a MapSpace, got {type(space).__name__}."
            )
        space.check(codes)
        status, excess = space.status(codes)
        where = f"{space.workload.hash} {space.workload.name} {space.accelerator.hash} ".encode()
        keys = [where + np.ascontiguousarray(code).tobytes() for code in codes]
        wanted = {
            key: code
            for key, code, fits in zip(keys, codes, status == STATUS_OK, strict=True)
            if fits and key not in self._known
        }
        records = [record_of(space, code) for code in wanted.values()]
        for key, answer in zip(wanted, self._remembered(records), strict=True):
            self._remember(key, answer)
        values = np.full((len(codes), len(COSTS)), np.inf)
        for row, key in enumerate(keys):
            found = self._known.get(key)
            if found is not None and found.values is not None:
                values[row] = found.values
            elif found is not None:
                status[row] = STATUS_OUTSIDE
        return Costs(values[:, 0], values[:, 1], status, excess)

    def _remembered(self, records: Sequence[dict[str, Any]]) -> Iterator[Answer]:
        """As `_answers`, but what the memory knows is not simulated."""
        memory = self.memory
        if memory is None:
            yield from self._answers(records)
            return
        known = [memory.answer_of(record) for record in records]
        left = [record for record, answer in zip(records, known, strict=True) if answer is None]
        new = iter(self._answers(left) if left else ())
        for record, answer in zip(records, known, strict=True):
            if answer is None:
                answer = next(new)
                memory.keep_answer(record, answer)
            yield answer
        next(new, None)  # it ends what it has started

    def close(self) -> None:  # noqa: B027 - for whoever ends a model that measures
        """Nothing is left running between two batches."""

    def score(self, record: dict[str, Any]) -> Answer:
        """What the simulator says of one mapping, given as a record of a whole nest."""
        (answer,) = self._answers([record])
        return answer

    def _remember(self, key: bytes, answer: Answer) -> None:
        self._known[key] = answer
        failed = answer.values is None and answer.why != ""
        self.failures += failed
        if failed:
            self.last_failure = answer.why
        self._ever = self._ever or not failed
        if failed and not self._ever and self.failures >= _HOPELESS:
            raise ConfigError(f"{self.failures} runs failed, and none answered: {answer.why}")


def record_of(space: MapSpace, code: Codes) -> dict[str, Any]:
    """A mapping `[D]` as a record of a whole nest."""
    space, code = space.in_order(code)
    return nest_record(space.workload, space.accelerator, space.describe(code))
