"""What the searches of a benchmark with a warm start begin from, noted once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, ContractError, DataError
from mapspace.storage import Place, write_atomically
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.store.rows import Number, Text, Whole
from orchestrator.store.winners import winners

if TYPE_CHECKING:
    from orchestrator.benchmark.config import Plan
    from orchestrator.store.folder import Store

WARM_FILE = "warm-starts.json"


class Begin(StrictModel):
    """A stored winner, taken over to a workload of the benchmark."""

    workload: Text
    """Its problem."""
    distance: Number
    """Between the binary logarithms of the sizes of both problems."""
    codes: Annotated[tuple[tuple[Whole, ...], ...], Field(min_length=1, max_length=16)]
    """Mappings that were made of it."""


class _Noted(StrictModel):
    workloads: dict[str, tuple[Begin, ...]]


def check_store(states: Place, store: Store | None) -> None:
    """Refuses a warm start without a store, unless its mappings were noted before.

    Raises:
        ConfigError: there is none.
    """
    if store is None and not (states / WARM_FILE).exists():
        raise ConfigError("warm_start: takes its mappings from a store, and there is none.")


def warm_starts(plan: Plan, states: Place, store: Store | None) -> dict[str, tuple[Begin, ...]]:
    """What searches begin from, by workload.

    Args:
        plan: the benchmark, which asks for a warm start.
        states: the folder where its searches stand: what was found at the beginning is noted there,
            so that a run that is continued has the same, whatever was stored since.
        store: where answers are.

    Raises:
        ConfigError: there is no store.
        DataError: what was noted is damaged.
    """
    file = states / WARM_FILE
    if file.exists():
        noted = read_json(file, DataError)
        found = validate(_Noted, noted, str(file), DataError).workloads
        _check(plan, found, file)
        return found
    check_store(states, store)
    assert store is not None  # nothing was noted
    found = {
        name: tuple(
            Begin(
                workload=winner.workload,
                distance=winner.distance,
                codes=tuple(tuple(code) for code in winner.codes.tolist()),
            )
            for winner in winners(plan.space(name), plan.benchmark.objective, store)
        )
        for name in plan.workloads
    }
    write_atomically(file, _Noted(workloads=found).model_dump_json().encode())
    return found


def _check(plan: Plan, found: dict[str, tuple[Begin, ...]], file: Place) -> None:
    """Holds noted codes against the spaces.

    Raises:
        DataError: they are none of theirs.
    """
    for name in plan.workloads:
        codes = [code for begin in found.get(name, ()) for code in begin.codes]
        try:
            if codes:
                plan.space(name).check(np.array(codes, np.int64))
        except (ContractError, ValueError) as error:
            raise DataError(f"{file}: {name}: {error}") from None
