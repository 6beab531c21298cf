"""What a person reads of cascades: the loops, what stays where, and where the energy goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import Record, score
from costmodel.machines.resident import NAME
from orchestrator.networks.runs_of_steps import CascadeRow, Ran
from orchestrator.report.units import percent

NETWORKS = "networks"
BESIDE = "other"
"""What no mapping has: pieces that stay between passes, operators between layers, leakage."""


def drawn(row: CascadeRow, buffer: str) -> Iterator[str]:
    """The lines of a cascade that was chosen: its loops, and what each layer reads and writes.

    Args:
        row: the cascade.
        buffer: the shared buffer's name.
    """
    loops = " ".join(f"for {name} in {factor}:" for name, factor in row.outer) or "once:"
    yield f"{loops} {'rows at seams are computed again' if row.overlaps else ''}".rstrip()
    width = max(map(len, row.layers))
    for place, layer in enumerate(row.layers):
        reads = f"a tile from {buffer}" if place else "DRAM"
        writes = f"a tile to {buffer}" if place < len(row.layers) - 1 else "DRAM"
        short = layer.rpartition("-")[2]
        kept = [one.rpartition(".")[2] for one in row.kept if one.rpartition(".")[0] == short]
        stays = f"; {', '.join(kept)} kept" if kept else ""
        yield f"    {layer:<{width}}  {reads} -> {writes}{stays}"


def energy_by_level(
    ran: Sequence[Ran], records: Sequence[Record], buffer: str, energy: Fraction
) -> dict[str, float]:
    """Where the energy of a network goes, pJ.

    Args:
        ran: every step as it runs.
        records: a mapping of each.
        buffer: the shared buffer's name; what lies there is of it.
        energy: of the whole network.

    Returns:
        Energy by level, of networks between them, of multiply-accumulates, and of what else there
        is, such as pieces that move between passes.
    """
    found: dict[str, float] = {}
    for one, record in zip(ran, score(records, LoopNestModel()), strict=True):
        times, result = one.step.count * one.times, record["result"]
        for level, taken in _by_level(result):
            name = buffer if level == NAME else level
            found[name] = found.get(name, 0.0) + times * taken
        found["MACs"] = found.get("MACs", 0.0) + times * result["mac_energy_pj"]
    found[BESIDE] = max(0.0, float(energy) - sum(found.values()))
    return {name: taken for name, taken in found.items() if taken > 0}


def _by_level(result: Record) -> Iterator[tuple[str, float]]:
    """Energy of each level, and of the networks below them, pJ, of either form of a record."""
    levels = result["levels"]
    if isinstance(levels, dict):
        for name, tensors in levels.items():
            yield name, sum(tensor["energy_pj"] for tensor in tensors.values())
        yield NETWORKS, sum(result["network_energy_pj"].values())
        return
    for level in levels:
        yield level["name"], sum(tensor["energy_pj"] for tensor in level["tensors"].values())
        hops = level.get("network", {}).values()
        yield NETWORKS, sum(tensor["energy_pj"] for tensor in hops)


def split_text(split: Mapping[str, float]) -> str:
    """Shares of the energy."""
    total = sum(split.values())
    return ", ".join(f"{name} {percent(taken / total)}" for name, taken in split.items())
