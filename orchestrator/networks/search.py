"""The best mapping of every layer of a network, and their totals.

Equal layers are searched once. Most proofs take a moment, less than Ray takes to start: they are
made in this process. What is left after a few seconds goes to Ray, a layer per task. Seconds are
those of the whole network: the layers that are left share them alike, and what has none is named.
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

from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.meant_entries import serving
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError, MapspaceError, together
from mapspace.extras import is_installed
from orchestrator.answers.request import Request
from orchestrator.networks.operators import Operators
from orchestrator.networks.result import LayerResult, NetworkResult
from orchestrator.networks.time_left import LEAST_SECONDS, LEAST_SHARE, TimeLeft
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
# Less time than this is not spent on starting Ray.
WORTH_RAY_SECONDS = 15.0
Item = tuple[Workload, int]


def search_network(
    request: Request, stream: TextIO | None = None, *, here_seconds: float = HERE_SECONDS
) -> NetworkResult:
    """Searches every distinct layer of a network, with live progress.

    Args:
        request: how to search each layer; its workload is the network: a preset, a YAML file or the
            content of one; its `seconds` are those of the network.
            `top` and `pad` are for single workloads and not looked at.
        stream: takes the progress; standard error if None.
        here_seconds: how long proofs are made in this process before Ray is started.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
    """
    (name, layers), device = together(lambda: request.layers, lambda: request.device)
    device = serving(device, (layer for layer, _ in layers))
    check_budget(request.iterations, request.seconds)
    clock = TimeLeft(request.seconds)
    first = next(_searchable(request, layers, device, clock), None)
    if first is not None:
        asked_of(request, first[0].workload, device)
    live = Live(stream or sys.stderr)
    live.line(f"searching {len(layers)} distinct layers of {name} on {device.name}")
    found = {}
    for item in layers:
        stored = None if clock.over else _stored(request, item, device)
        if stored is not None:
            found[item[0].hash] = stored
    if found:
        live.line(f"{len(found)} of them answered from the store")
    left = [item for item in layers if item[0].hash not in found]
    for space, searcher in itertools.islice(_searchable(request, left, device, clock), 1):
        with clock.paused():  # compiles before the workers would all do so
            prepare(request, searcher, space, live)
    started = time.monotonic()

    def progress() -> str:
        return f"{time.monotonic() - started:8.2f} s   {len(found)} of {len(layers)} layers"

    with interruptible() as interrupted:

        def stop() -> bool:
            if live.terminal:
                live.update(progress)
            return interrupted.is_set() or clock.is_long_over

        for result in _results(request, left, device, clock, interrupted, stop, here_seconds):
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
        interrupted=interrupted.is_set() or (bool(unfinished) and not clock.over),
        seconds=time.monotonic() - started,
        operators=Operators(request.read_network.words, device, request.moves),
        left_out=request.read_network.left_out,
    )


def explain_layers(result: NetworkResult, request: Request, stream: TextIO) -> NetworkResult:
    """A network's result with what explains every layer, or why nothing does.

    Args:
        result: the result.
        request: what was asked; all explanations may take its `seconds`, or each a minute.
        stream: takes the progress.
    """
    layers = []
    clock = TimeLeft(request.seconds)
    for place, layer in enumerate(result.layers):
        found = layer.result
        if found is not None and clock.over:
            found = replace(found, unexplained="the time was over before it")
        elif found is not None and not result.interrupted:
            share = clock.share(len(result.layers) - place)
            found = with_explanation(replace(request, seconds=share), found, stream)
        layers.append(replace(layer, result=found))
    cut = any(layer.result is not None and layer.result.interrupted for layer in layers)
    return replace(result, layers=tuple(layers), interrupted=result.interrupted or cut)


def _searchable(
    request: Request, layers: Sequence[Item], device: Accelerator, clock: TimeLeft
) -> Iterator[tuple[MapSpace, str]]:
    """The layers that have mappings, each with its searcher, those that can be proven first.

    Looked for as they are wanted, and until the time is over.

    Raises:
        ConfigError: a level or a tensor to keep that there is not.
    """
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.map_space.map_space import MapSpace

    unproven = []
    for layer, _ in layers:
        try:
            space = MapSpace(layer, device)
        except ConfigError:
            continue  # becomes the layer's row
        if why_infeasible(space, request.keep) is None:
            name, obstacle = method(request, space)
            # The exact searcher may treat some layers only.
            if obstacle is None:
                yield space, name
            else:
                unproven.append((space, name))
        if clock.over:
            break
    yield from unproven


def _results(
    request: Request,
    layers: Sequence[Item],
    device: Accelerator,
    clock: TimeLeft,
    interrupted: threading.Event,
    stop: Callable[[], bool],
    here_seconds: float,
) -> Iterator[LayerResult]:
    """Layers as they are finished, until an interruption or until the time is over."""
    deadline = time.monotonic() + here_seconds
    left: list[Item] = []
    for place, item in enumerate(layers):
        seconds = deadline - time.monotonic()
        result = None
        if seconds > 0 and not interrupted.is_set() and not clock.over:
            share = replace(request, seconds=clock.share(len(layers) - place))
            result = _proven_here(share, item, device, interrupted, seconds)
        if result is None:
            left.append(item)
        else:
            yield result
    if not left or interrupted.is_set():
        return
    # The core alone, or too little time: one after another.
    if not is_installed("ray") or clock.left < WORTH_RAY_SECONDS:
        for place, item in enumerate(left):
            if clock.over:
                return
            given = clock.share(len(left) - place)
            share = replace(request, seconds=given)
            with suppress(KeyboardInterrupt):  # one that has found no mapping yet
                result = search_layer(share, device, item, interrupted=interrupted)
                # What was cut short has not shown that there is none.
                if result.result is not None or given is None or given >= LEAST_SHARE:
                    yield result
            if interrupted.is_set():
                return
        return
    # Tasks share the cores already.
    task = functools.partial(_search_until, replace(request, threads=1), device)
    with ray_runtime():
        for (item, *_), answer in completed(task, _timed(left, clock), stop=stop):
            yield answer or LayerResult(
                *item, failure="worker processes kept dying on it (out of memory?)."
            )


Timed = tuple[Item, float | None, float]
"""A layer, what it may take, s, and the time of day at which all are to end."""


def _timed(layers: Sequence[Item], clock: TimeLeft) -> Iterator[Timed]:
    """Layers with their time, as they are given out."""
    import ray

    for place, item in enumerate(layers):
        processors = int(ray.cluster_resources().get("CPU", 1))
        # No more at a time than there are.
        at_once = min(processors, len(layers) - place)
        yield item, clock.share(len(layers) - place, at_once), time.time() + clock.left


def _search_until(request: Request, device: Accelerator, timed: Timed) -> LayerResult:
    """Searches one layer in its time, in a task that may have waited for its processor."""
    item, seconds, ends = timed
    if seconds is not None:
        seconds = max(LEAST_SECONDS, min(seconds, ends - time.time()))
    return search_layer(replace(request, seconds=seconds), device, item)


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
    limit = PROOF_SECONDS if request.seconds is None else request.seconds
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
