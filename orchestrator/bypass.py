"""`mapspace bypass`: what it is worth, per layer, that a mapping may let tensors skip levels.

Two proofs per layer: the best mapping with every tensor kept at every level, and the best one with
bypass searched, on what is otherwise the same machine.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from costmodel.accelerator import Accelerator, accelerator
from costmodel.affine import Workload
from costmodel.costs import Detail
from costmodel.errors import ConfigError, DataError
from costmodel.loopnest import LoopNestModel
from costmodel.mapspace import MapSpace
from costmodel.records import record_code
from costmodel.workload import workload as load_workload
from orchestrator.bypass_report import layer_text, network_text
from orchestrator.live import Live
from orchestrator.network_file import load_network
from orchestrator.search import interruptible

if TYPE_CHECKING:
    from costmodel.exact.prover import Prover


@dataclass(frozen=True)
class Delivery:
    """How the multiply-accumulates get at a tensor: from the innermost level that keeps it.

    Attributes:
        tensor: the tensor.
        level: that level.
        macs_per_access: multiply-accumulates that one access of the level serves, by multicast of
            an input's word or by adding up elements' results on the way.
        pj_per_mac: energy of those accesses, pJ per multiply-accumulate.
        words_per_cycle: words that the level moves for it.
        free: whether the model charges nothing for the way to the elements, see `deliveries`.
    """

    tensor: str
    level: str
    macs_per_access: float
    pj_per_mac: float
    words_per_cycle: float
    free: bool


@dataclass(frozen=True)
class BypassAnswer:
    """What `mapspace bypass` found.

    Attributes:
        summary: what `--json` prints.
        text: what a person reads.
        interrupted: whether Ctrl-C left layers out.
    """

    summary: dict[str, Any]
    text: str
    interrupted: bool


def deliveries(space: MapSpace, detail: Detail, cycles: float) -> list[Delivery]:
    """How a mapping feeds the multiply-accumulates, tensor by tensor.

    A delivery is *free* if the tensor skips the innermost level, the words that serve it instead
    cross the network to several elements without hop energy and leave a level without bandwidth
    limit, and their energy per multiply-accumulate is below that of a single access of the
    innermost level. Every multiply-accumulate makes at least one such access where the tensor is
    kept there, so then no tile size could make keeping it pay, even if filling it cost nothing:
    what decides is that the network is free, not how the loops reuse data.

    Args:
        space: the map space.
        detail: the evaluation `[1]` of the mapping.
        cycles: its latency.
    """
    levels = space.accelerator.levels
    names = space.workload.tensor_names
    innermost = levels[-1]
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
        per_mac = accesses * level.energy_pj / space.workload.macs
        limits = [level.read_bandwidth]
        if t == len(names) - 1:
            limits.append(level.write_bandwidth)
        network_free = (
            index < len(levels) - 1
            and math.prod(outer.fanout for outer in levels[index:]) > 1
            and all(outer.hop_energy_pj == 0 for outer in levels[index:])
            and all(limit is None for limit in limits)
        )
        found.append(
            Delivery(
                tensor=name,
                level=level.name,
                macs_per_access=space.workload.macs / served,
                pj_per_mac=per_mac,
                words_per_cycle=accesses / cycles,
                free=network_free and per_mac < innermost.energy_pj,
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
) -> BypassAnswer:
    """Proves, per layer, the best mapping without and with bypass; shows progress.

    Args:
        source: a workload, or a network: a preset's name, a YAML file or inline text.
        machine: a preset's name or a YAML file; whether it searches bypass itself does not matter.
        network: whether the source is a network.
        seconds: the most that a proof may take; what it has reached then is reported.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an unknown name, a machine or workload that admits no proof, or a single
            workload without feasible mapping.
    """
    from costmodel.exact.prover import load_compiled
    from costmodel.exact.tables import why_not

    name, layers = load_network(source) if network else ("", [(load_workload(source), 1)])
    device = accelerator(machine)
    for layer, _ in layers:
        reason = why_not(MapSpace(layer, device))
        if reason is not None:
            raise ConfigError(f"Bypass is compared by proofs, and there is none: {reason}")
    live = Live(stream or sys.stderr)
    where = name or layers[0][0].name
    live.line(f"proving what bypass is worth for {where} on {device.name}")
    with live.notice_after(1.0, "compiling the exact search: once per installation"):
        load_compiled()
    started = time.monotonic()
    rows: list[dict[str, Any]] = []
    with interruptible() as stop:
        for layer, count in layers:
            try:
                row = _compare(layer, device, seconds, live, stop)
            except KeyboardInterrupt:
                break
            except (ConfigError, DataError) as error:
                if not network:
                    raise
                row = {"workload": layer.name, "failure": str(error)}
            rows.append({"count": count, **row})
            live.update(lambda: f"  {len(rows)} of {len(layers)} layers")
    live.end()
    if not rows:
        raise KeyboardInterrupt
    summary: dict[str, Any] = {
        "accelerator": device.name,
        "network": name or None,
        "objective": "edp",
        "seconds": time.monotonic() - started,
        "interrupted": len(rows) < len(layers),
        "layers": rows,
        "totals": _totals(rows),
    }
    text = network_text(summary) if network else layer_text(summary)
    return BypassAnswer(summary, text, len(rows) < len(layers))


def _compare(
    layer: Workload, device: Accelerator, seconds: float, live: Live, stop: threading.Event
) -> dict[str, Any]:
    """One layer's row.

    Raises:
        ConfigError: no mapping is feasible.
        DataError: the time was too short to find any.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    row: dict[str, Any] = {"workload": layer.name, "failure": None}
    for key, bypass in (("kept", "none"), ("searched", "searched")):
        space = MapSpace(layer, device.model_copy(update={"bypass": bypass}))
        row[key] = _prove(space, seconds, live, stop)
    kept, searched = row["kept"], row["searched"]
    row["edp_ratio"] = kept["edp"] / searched["edp"]
    row["energy_ratio"] = kept["energy_pj"] / searched["energy_pj"]
    row["latency_ratio"] = kept["latency_cycles"] / searched["latency_cycles"]
    row["degenerate"] = any(entry["free"] for entry in searched["deliveries"])
    return row


def _prove(space: MapSpace, seconds: float, live: Live, stop: threading.Event) -> dict[str, Any]:
    from costmodel.exact.certificate import prove

    def after_step(prover: Prover) -> None:
        live.update(
            lambda: (
                f"  {space.workload.name}, bypass {space.accelerator.bypass}: "
                f"certainly within {100 * prover.gap:.3g} % of the optimum"
            )
        )
        if stop.is_set() and not prover.finished:
            raise KeyboardInterrupt

    found = prove(space, seconds=seconds, after_step=after_step)
    code = record_code(space, found.record)
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    detail = costs.detail
    assert detail is not None  # it was asked for
    energy, cycles = float(costs.energy_pj[0]), float(costs.latency_cycles[0])
    levels = space.accelerator.levels
    shares = {
        level.name: float(detail.energy_pj[0, i].sum()) / energy for i, level in enumerate(levels)
    }
    names = space.workload.tensor_names
    return {
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": energy * cycles,
        "proven": found.proven,
        "gap": found.gap,
        "energy_share": {
            **shares,
            "network": float(detail.network_energy_pj[0].sum()) / energy,
            "MAC": detail.mac_energy_pj / energy,
        },
        "skips": {
            level.name: [name for t, name in enumerate(names) if detail.tile[0, i, t] == 0]
            for i, level in enumerate(levels)
            if i > 0
        },
        "deliveries": [vars(entry) for entry in deliveries(space, detail, cycles)],
        "record": found.record,
    }


def _totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Sums over the layers that have both mappings, each as often as it occurs; None without."""
    rows = [row for row in rows if row["failure"] is None]
    if not rows:
        return None
    totals: dict[str, Any] = {}
    for key in ("kept", "searched"):
        energy, cycles = (
            math.fsum(row["count"] * row[key][part] for row in rows)
            for part in ("energy_pj", "latency_cycles")
        )
        totals[key] = {"energy_pj": energy, "latency_cycles": cycles, "edp": energy * cycles}
    totals["edp_ratio"] = totals["kept"]["edp"] / totals["searched"]["edp"]
    totals["degenerate"] = sum(row["degenerate"] for row in rows)
    totals["layers"] = len(rows)
    return totals
