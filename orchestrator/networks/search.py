"""The best mapping of every layer of a network, and their totals.

Equal layers are searched once. Most proofs take a moment, less than Ray takes to start: they are
made in this process. What is left after a few seconds goes to Ray, a layer per task.
"""

from __future__ import annotations

import functools
import io
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from costmodel.accelerators import Accelerator
from costmodel.affine import Workload
from costmodel.map_space.meant_entries import serving
from costmodel.networks import left_out_of, words_without_macs
from mapspace.errors import ConfigError, MapspaceError, together
from mapspace.extras import is_installed
from orchestrator.answers.request import Request
from orchestrator.networks.operators import Operators
from orchestrator.networks.result import LayerResult, NetworkResult
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.runs.ray_runtime import completed, ray_runtime
from orchestrator.search.one_workload import (
    PROOF_SECONDS,
    asked_of,
    method,
    prepare,
    search_workload,
    with_explanation,
)
from orchestrator.search.stored import read
from searchers import check_budget

if TYPE_CHECKING:
    from costmodel.map_space.map_space import MapSpace

# About what Ray takes to start.
HERE_SECONDS = 5.0
Item = tuple[Workload, int]


def search_network(
    request: Request, stream: TextIO | None = None, *, here_seconds: float = HERE_SECONDS
) -> NetworkResult:
    """Searches every distinct layer of a network, with live progress.

    Args:
        request: how to search each layer; its workload is the network: a preset, a YAML file or the
            content of one.
            `top` and `pad` are for single workloads and not looked at.
        stream: takes the progress; standard error if None.
        here_seconds: how long proofs are made in this process before Ray is started.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
    """
    (name, layers), device = together(lambda: request.layers, lambda: request.device)
    device = serving(device, (layer for layer, _ in layers))
    check_budget(request.iterations, request.seconds)
    spaces = _searchable(request, layers, device)
    if spaces:
        asked_of(request, spaces[0][0].workload, device)
    live = Live(stream or sys.stderr)
    live.line(f"searching {len(layers)} distinct layers of {name} on {device.name}")
    found = {}
    for item in layers:
        stored = _stored(request, item, device)
        if stored is not None:
            found[item[0].hash] = stored
    if found:
        live.line(f"{len(found)} of them answered from the store")
    left = [item for item in layers if item[0].hash not in found]
    missing = (one for one in spaces if one[0].workload.hash not in found)
    for space, searcher in itertools.islice(missing, 1):
        prepare(request, searcher, space, live)  # compiles before the workers would all do so
    started = time.monotonic()

    def progress() -> str:
        return f"{time.monotonic() - started:8.2f} s   {len(found)} of {len(layers)} layers"

    with interruptible() as interrupted:

        def stop() -> bool:
            if live.terminal:
                live.update(progress)
            return interrupted.is_set()

        for result in _results(request, left, device, interrupted, stop, here_seconds):
            found[result.workload.hash] = result
            live.update(progress)
    live.end()
    unfinished = tuple(layer.name for layer, _ in layers if layer.hash not in found)
    return NetworkResult(
        network=name,
        accelerator=device,
        objective=request.objective,
        layers=tuple(found[layer.hash] for layer, _ in layers if layer.hash in found),
        unfinished=unfinished,
        interrupted=interrupted.is_set() or bool(unfinished),
        seconds=time.monotonic() - started,
        operators=Operators(words_without_macs(request.network), device, request.moves),
        left_out=left_out_of(request.network),
    )


def explain_layers(result: NetworkResult, request: Request, stream: TextIO) -> NetworkResult:
    """A network's result with what explains every layer, or why nothing does.

    Args:
        result: the result.
        request: what was asked; a layer's explanation may take its `seconds`, or a minute.
        stream: takes the progress.
    """
    layers = []
    for layer in result.layers:
        found = layer.result
        if found is not None and not result.interrupted:
            found = with_explanation(request, found, stream)
        layers.append(replace(layer, result=found))
    cut = any(layer.result is not None and layer.result.interrupted for layer in layers)
    return replace(result, layers=tuple(layers), interrupted=result.interrupted or cut)


def _searchable(
    request: Request, layers: Sequence[Item], device: Accelerator
) -> list[tuple[MapSpace, str]]:
    """The layers that have mappings, each with its searcher, those that can be proven first.

    Raises:
        ConfigError: a level or a tensor to keep that there is not.
    """
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.map_space.map_space import MapSpace

    spaces = []
    for layer, _ in layers:
        try:
            space = MapSpace(layer, device)
        except ConfigError:
            continue  # becomes the layer's row
        if why_infeasible(space, request.keep) is None:
            spaces.append((space, *method(request, space)))
    # First those that can be proven: the exact searcher may treat some layers only.
    spaces.sort(key=lambda entry: entry[2] is not None)
    return [(space, name) for space, name, _ in spaces]


def _results(
    request: Request,
    layers: Sequence[Item],
    device: Accelerator,
    interrupted: threading.Event,
    stop: Callable[[], bool],
    here_seconds: float,
) -> Iterator[LayerResult]:
    """Layers as they are finished, until an interruption."""
    deadline = time.monotonic() + here_seconds
    left: list[Item] = []
    for item in layers:
        seconds = deadline - time.monotonic()
        result = None
        if seconds > 0 and not interrupted.is_set():
            result = _proven_here(request, item, device, interrupted, seconds)
        if result is None:
            left.append(item)
        else:
            yield result
    if not left or interrupted.is_set():
        return
    if not is_installed("ray"):  # the core alone: one after another
        for item in left:
            with suppress(KeyboardInterrupt):  # one that has found no mapping yet
                yield search_layer(request, device, item, interrupted=interrupted)
            if interrupted.is_set():
                return
        return
    # Tasks share the cores already.
    task = functools.partial(search_layer, replace(request, threads=1), device)
    with ray_runtime():
        for item, answer in completed(task, left, stop=stop):
            yield answer or LayerResult(
                *item, failure="worker processes kept dying on it (out of memory?)."
            )


def _proven_here(
    request: Request, item: Item, device: Accelerator, interrupted: threading.Event, seconds: float
) -> LayerResult | None:
    """A layer whose proof takes less than so many seconds, or that has no mapping; else None."""
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.map_space.map_space import MapSpace

    if request.searcher not in (None, "exact") or request.iterations is not None:
        return None
    try:
        space = MapSpace(item[0], device)
        problem = why_infeasible(space, request.keep)
    except ConfigError as error:
        problem = str(error)
    if problem is not None:
        return LayerResult(*item, failure=problem)
    if method(request, space)[1] is not None:
        return None
    limit = request.seconds or PROOF_SECONDS
    try:
        result = search_layer(
            replace(request, seconds=min(limit, seconds)), device, item, interrupted=interrupted
        )
    except KeyboardInterrupt:
        return None  # before it found any mapping
    if result.result is None:
        # More time may find a mapping.
        settled = seconds >= limit and not interrupted.is_set()
    else:
        near = result.result.searched.gap <= request.gap
        settled = near or seconds >= limit or interrupted.is_set()
    return result if settled else None


def _stored(request: Request, item: Item, device: Accelerator) -> LayerResult | None:
    """A layer that the store answers; None where it has no answer."""
    if request.store is None:
        return None
    try:
        wanted = asked_of(request, item[0], device)
        obstacle = method(request, wanted.space)[1]
    except MapspaceError:
        return None  # the search says why
    result = read(wanted)
    return None if result is None else LayerResult(*item, result, obstacle, result.failure)


def search_layer(
    request: Request,
    device: Accelerator,
    item: Item,
    *,
    interrupted: threading.Event | None = None,
) -> LayerResult:
    """Searches one layer; whatever goes wrong is data of its row."""
    from costmodel.map_space.map_space import MapSpace

    try:
        result = search_workload(request, item[0], device, Live(io.StringIO()), interrupted)
        obstacle = method(request, MapSpace(item[0], device))[1]
    except MapspaceError as error:
        return LayerResult(*item, failure=str(error))
    except Exception as error:  # a fault in one layer must not lose the others' answers
        return LayerResult(*item, failure=f"{type(error).__name__}: {error}")
    return LayerResult(*item, result, obstacle, result.failure)
