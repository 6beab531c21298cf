"""`mapspace bypass`: what it is worth, per layer, that a mapping may let tensors skip levels.

Two proofs per layer: the best mapping with every tensor kept at every level that may hold it, and
the best one with bypass searched, on what is otherwise the same machine.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from costmodel.costs import Detail
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import record_code
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.meant_entries import serving
from costmodel.networks.network import load_network
from costmodel.problems.workloads import workload as load_workload
from mapspace.errors import ArgumentError, ConfigError, DataError, together
from orchestrator.bypass.result import BypassBest, BypassLayer, BypassResult, Delivery
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.store.folder import Store
from orchestrator.store.proofs import read_or_prove

if TYPE_CHECKING:
    from costmodel.exact.face import AnyProof


def deliveries(space: MapSpace, detail: Detail, cycles: float) -> list[Delivery]:
    """How a mapping feeds the multiply-accumulates, tensor by tensor.

    A delivery is *free* if the tensor skips the innermost level that may hold it, the words that
    serve it instead cross the network to several elements at no energy and leave a level without
    bandwidth limit, and their energy per multiply-accumulate is below that of a single access of
    the innermost level. Every multiply-accumulate makes at least one such access where the tensor
    is kept there, so then no tile size could make keeping it pay, even if filling it cost nothing:
    what decides is that the network is free, not how the loops reuse data.

    Args:
        space: the map space.
        detail: the evaluation `[1]` of the mapping.
        cycles: its latency.
    """
    levels = space.accelerator.levels
    names = space.workload.tensor_names
    machine = space.tables.machine
    found = []
    for t, name in enumerate(names):
        index = max(i for i in range(len(levels)) if detail.tile[0, i, t] > 0)
        level = levels[index]
        instances = int(detail.instances[0, index])
        # Fills come from above: they are no part of the way to the elements.
        accesses = instances * int(detail.reads[0, index, t] + detail.updates[0, index, t])
        served = instances * int(
            detail.updates[0, index, t] if t == len(names) - 1 else detail.reads[0, index, t]
        )
        read, _, update = level.energies
        updates = instances * int(detail.updates[0, index, t])
        per_mac = (accesses * read + updates * (update - read)) / space.workload.macs
        home = max(i for i in range(len(levels)) if not machine.never_kept[i] >> t & 1)
        limits = [level.read_bandwidth, level.bandwidth]
        if t == len(names) - 1:
            limits.append(level.write_bandwidth)
        network_free = (
            index < home
            and math.prod(outer.fanout for outer in levels[index:]) > 1
            and not any(e.hop_energy_pj or e.router_pj or e.ingress_pj for e in levels[index:])
            and all(limit is None for limit in limits)
        )
        found.append(
            Delivery(
                tensor=name,
                level=level.name,
                macs_per_access=space.workload.macs / served,
                pj_per_mac=per_mac,
                words_per_cycle=accesses / cycles,
                free=network_free and per_mac < levels[home].word_energy_pj,
            )
        )
    return found


def compare_bypass(
    source: str,
    machine: str,
    *,
    network: bool,
    seconds: float,
    stream: TextIO | None = None,
    store: Store | None = None,
) -> BypassResult:
    """Proves, per layer, the best mapping without and with bypass; shows progress.

    Args:
        source: a workload, or a network: a preset's name, a YAML file or inline text.
        machine: a preset's name or a YAML file; whether it searches bypass itself does not matter.
        network: whether the source is a network.
        seconds: the most that a proof may take; what it has reached then is reported.
        stream: takes the progress; standard error if None.
        store: where proofs that were made before are read, and new ones kept; None: nowhere.

    Raises:
        ConfigError: an unknown name, a machine or workload that admits no proof, or a single
            workload without feasible mapping.
    """
    from costmodel.exact_any.choice import FUNCTIONS, load_prover, why_not_proven

    (name, layers), device, _ = together(
        lambda: load_network(source) if network else ("", [(load_workload(source), 1)]),
        lambda: accelerator(machine),
        lambda: _check_seconds(seconds),
    )
    device = serving(device, (layer for layer, _ in layers))
    for layer, _ in layers:
        reason = why_not_proven(MapSpace(layer, device))
        if reason is not None:
            raise ConfigError(f"Bypass is compared by proofs, and there is none: {reason}")
    live = Live(stream or sys.stderr)
    where = name or layers[0][0].name
    live.line(f"proving what bypass is worth for {where} on {device.name}")
    first = MapSpace(layers[0][0], device)
    with live.preparing("loading the exact search", functions=FUNCTIONS):
        load_prover(first)
    started = time.monotonic()
    found: list[BypassLayer] = []
    with interruptible() as stop:
        for layer, count in layers:
            try:
                kept, searched = (
                    _prove(
                        MapSpace(layer, device.model_copy(update={"bypass": bypass})),
                        seconds,
                        live,
                        stop,
                        store,
                    )
                    for bypass in ("none", "searched")
                )
            except KeyboardInterrupt:
                break
            except (ConfigError, DataError) as error:
                if not network:
                    raise
                found.append(BypassLayer(layer.name, count, failure=str(error)))
            else:
                found.append(BypassLayer(layer.name, count, kept, searched))
            live.update(lambda: f"  {len(found)} of {len(layers)} layers")
    live.end()
    if not found:
        raise KeyboardInterrupt
    return BypassResult(
        accelerator=device,
        network=name or None,
        layers=tuple(found),
        seconds=time.monotonic() - started,
        interrupted=len(found) < len(layers),
    )


def _check_seconds(seconds: float) -> None:
    if not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds:g}.")


def _prove(
    space: MapSpace, seconds: float, live: Live, stop: threading.Event, store: Store | None
) -> BypassBest:
    """The best mapping of a layer without or with bypass.

    Raises:
        ConfigError: no mapping is feasible.
        DataError: the time was too short to find any.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    from costmodel.exact_any.choice import prove

    def after_step(prover: AnyProof) -> None:
        live.update(
            lambda: (
                f"  {space.workload.name}, bypass {space.accelerator.bypass}: "
                f"certainly within {100 * prover.gap:.3g} % of the optimum"
            )
        )
        if stop.is_set() and not prover.finished:
            raise KeyboardInterrupt

    found, stored = read_or_prove(
        space,
        "edp",
        seconds,
        store,
        lambda: prove(space, seconds=seconds, after_step=after_step),
    )
    code = record_code(space, found.record)
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    detail = costs.detail
    assert detail is not None  # it was asked for
    energy, cycles = float(costs.energy_pj[0]), float(costs.latency_cycles[0])
    levels, names = space.accelerator.levels, space.workload.tensor_names
    whole = energy or 1.0  # of no energy every share is none
    shares = {
        level.name: float(detail.energy_pj[0, i].sum()) / whole for i, level in enumerate(levels)
    }
    shares["network"] = float(detail.network_energy_pj[0].sum()) / whole
    shares["MAC"] = detail.mac_energy_pj / whole
    return BypassBest(
        costs=MappingCosts(energy, cycles, space.accelerator.clock_ghz),
        proven=found.proven,
        gap=found.gap,
        energy_share=shares,
        skips={
            level.name: [
                name
                for t, name in enumerate(names)
                if detail.tile[0, i, t] == 0 and not space.tables.machine.never_kept[i] >> t & 1
            ]
            for i, level in enumerate(levels)
            if i > 0
        },
        deliveries=deliveries(space, detail, cycles),
        record=found.record,
        from_store=stored,
    )
