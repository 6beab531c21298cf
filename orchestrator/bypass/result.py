"""What it is worth that tensors may skip memory levels: per layer, and in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.costs import times
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.schemas.proofs import (
    BypassAnswer,
    BypassBestAnswer,
    BypassLayerAnswer,
    BypassTotals,
    DeliveryAnswer,
)

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator


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

    def to_dict(self) -> DeliveryAnswer:
        """What JSON has of it."""
        return {
            "tensor": self.tensor,
            "level": self.level,
            "macs_per_access": self.macs_per_access,
            "pj_per_mac": self.pj_per_mac,
            "words_per_cycle": self.words_per_cycle,
            "free": self.free,
        }


@dataclass(frozen=True)
class BypassBest:
    """The best mapping of a layer, with every tensor kept or with bypass searched.

    Attributes:
        costs: what it costs.
        proven: whether no mapping is better.
        gap: how far it can be above the best one, as a share.
        energy_share: shares of the energy by level, of the network and of the MACs.
        skips: tensors that skip a level, by level.
        deliveries: how the multiply-accumulates get at each tensor.
        record: the mapping record.
        from_store: whether the proof was read from a store.
    """

    costs: MappingCosts
    proven: bool
    gap: float
    energy_share: dict[str, float]
    skips: dict[str, list[str]]
    deliveries: list[Delivery]
    record: dict[str, Any]
    from_store: bool = False

    def to_dict(self) -> BypassBestAnswer:
        """What JSON has of it."""
        return {
            **self.costs.to_dict(),
            "proven": self.proven,
            "gap": self.gap,
            "energy_share": self.energy_share,
            "skips": self.skips,
            "deliveries": [entry.to_dict() for entry in self.deliveries],
            "record": self.record,
            "from_store": self.from_store,
        }


@dataclass(frozen=True)
class BypassLayer:
    """What bypass is worth for one layer.

    Attributes:
        workload: the layer's name.
        count: how often the network has it.
        kept: the best mapping with every tensor kept; None where there is none.
        searched: the best one with bypass searched; likewise.
        failure: why there is none; None where there is.
    """

    workload: str
    count: int
    kept: BypassBest | None = None
    searched: BypassBest | None = None
    failure: str | None = None

    def to_dict(self) -> BypassLayerAnswer:
        """Its row in JSON."""
        row: BypassLayerAnswer = {
            "count": self.count,
            "workload": self.workload,
            "failure": self.failure,
        }
        if self.kept is None or self.searched is None:
            return row
        kept, searched = self.kept.costs, self.searched.costs
        return {
            **row,
            "kept": self.kept.to_dict(),
            "searched": self.searched.to_dict(),
            "edp_ratio": times(kept.edp, searched.edp),
            "energy_ratio": times(kept.energy_pj, searched.energy_pj),
            "latency_ratio": kept.latency_cycles / searched.latency_cycles,
            "degenerate": any(entry.free for entry in self.searched.deliveries),
        }


@dataclass(frozen=True)
class BypassResult:
    """What bypass is worth on a machine, by layer and in all.

    Attributes:
        accelerator: the machine.
        network: the network's name; None for a single workload.
        layers: its distinct layers.
        seconds: how long the proofs took.
        interrupted: whether an interruption left layers out.
    """

    accelerator: Accelerator
    network: str | None
    layers: tuple[BypassLayer, ...]
    seconds: float
    interrupted: bool

    @property
    def records(self) -> list[dict[str, Any]]:
        """Both mapping records of every layer that has them, `bypass` saying which it is."""
        return [
            {"bypass": name, **best.record}
            for layer in self.layers
            for name, best in (("none", layer.kept), ("searched", layer.searched))
            if best is not None
        ]

    def to_dict(self) -> BypassAnswer:
        """What `mapspace bypass` prints as JSON."""
        rows = [layer.to_dict() for layer in self.layers]
        return {
            "accelerator": self.accelerator.name,
            "network": self.network,
            "objective": "edp",
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "from_store": all(
                best is not None and best.from_store
                for layer in self.layers
                for best in (layer.kept, layer.searched)
            ),
            "layers": rows,
            "totals": self._totals(),
        }

    def _totals(self) -> BypassTotals | None:
        """Sums over the layers that have both mappings, each as often as it occurs, or None."""
        found = [
            (layer.count, layer.kept, layer.searched)
            for layer in self.layers
            if layer.kept is not None and layer.searched is not None
        ]
        if not found:
            return None
        clock = self.accelerator.clock_ghz
        kept = _sum([(count, best.costs) for count, best, _ in found], clock)
        searched = _sum([(count, best.costs) for count, _, best in found], clock)
        return {
            "kept": kept.to_dict(),
            "searched": searched.to_dict(),
            "edp_ratio": times(kept.edp, searched.edp),
            "degenerate": sum(any(d.free for d in best.deliveries) for _, _, best in found),
            "layers": len(found),
        }


def _sum(parts: Sequence[tuple[int, MappingCosts]], clock_ghz: float) -> MappingCosts:
    return MappingCosts(
        math.fsum(count * costs.energy_pj for count, costs in parts),
        math.fsum(count * costs.latency_cycles for count, costs in parts),
        clock_ghz,
    )
