"""What a search is told by name in Python: said once, for every function that takes it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from costmodel.costs import Objective
from costmodel.machines.accelerators import AcceleratorSource
from costmodel.problems.workloads import WorkloadSource
from mapspace.arguments import checked
from orchestrator.answers.request import Request
from orchestrator.store.choice import StoreChoice, chosen

Keep = Mapping[str, str | Sequence[str]]
"""Tensors, one or several, that a level keeps."""
Constraints = Sequence[Mapping[str, Any]]
"""Entries as under `constraints` of an accelerator's file."""
Function = TypeVar("Function", bound=Callable[..., Any])


class ProofOptions(TypedDict, total=False):
    """What a proof can be told, by name; the defaults are those of `Request`."""

    objective: Objective
    gap: float
    keep: Keep | None
    constraints: Constraints
    threads: int | None
    store: StoreChoice


class LayerOptions(ProofOptions, total=False):
    """What a search of layers, one or several, can be told."""

    bits: Mapping[str, int] | None
    searcher: str | None
    preset: str | None
    parameters: Mapping[str, Any] | None
    seconds: float | None
    iterations: int | None
    seed: int
    surrogate: str | None


class NetworkOptions(LayerOptions, total=False):
    """What a search of a network can be told."""

    max_cycles: int | None
    max_energy_pj: float | None
    moves: bool


class SearchOptions(LayerOptions, total=False):
    """What a search of one workload can be told."""

    top: int
    pad: bool
    warm_start: bool
    islands: int | None
    workers: int | None
    factors: Literal["perfect", "imperfect"] | None
    counting: Literal["timeloop", "true"] | None
    axes: Literal["one", "both"] | None
    tiles: Literal["together", "apart"] | None
    link_transfers: bool | None


def one_by_one(options: type, without: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Gives a function's signature its options one by one, with their defaults.

    `help`, notebooks and agents are shown them; one that is misspelt, or of another type, is
    refused by its name.

    Args:
        options: the typed dictionary that the function takes by name.
        without: those of them that it does not take.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(Request)}

    def shown(function: Function) -> Function:
        plain = inspect.signature(function)
        given = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
        given += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name],
                              annotation=getattr(annotation, "__forward_arg__", annotation))
            for name, annotation in inspect.get_annotations(options).items()
            if name not in without
        ]  # fmt: skip
        function.__signature__ = plain.replace(parameters=given)  # type: ignore[attr-defined]
        return checked(function, options)

    return shown


def asked(
    workload: WorkloadSource,
    accelerator: AcceleratorSource,
    options: SearchOptions | NetworkOptions | ProofOptions,
) -> Request:
    """The request of a workload and what was told by name.

    Raises:
        ConfigError: the store is none, or of another version.
    """
    said: dict[str, Any] = dict(options)
    store = chosen(said.pop("store", None))
    keep: Keep | None = said.pop("keep", None)
    kept = {
        level: (names,) if isinstance(names, str) else tuple(names)
        for level, names in (keep or {}).items()
    }
    return Request(workload, accelerator, keep=kept or None, store=store, **said)
