"""Costs of a mapping as AccelForge 1.0.467 counts them, from what our model counts.

Its rules differ from Timeloop's, which are ours, in three places: what an instance hands to its
parent is read there first (a drain), instances that do nothing leak, and a bandwidth serves the
drains, too. The drains of a level are its fills where the first ones are charged as well:
everything that comes to lie in an instance leaves it again.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import mapspace as ms

Record = dict[str, Any]


def accelforge_costs(record: Record, clock_ghz: float) -> tuple[float, float]:
    """Energy in J and latency in s of a record's mapping by AccelForge's rules.

    Args:
        record: as `mapspace search --output` writes it; leakage stands at the outermost level.
        clock_ghz: cycles per ns.

    Raises:
        ValueError: the mapping is not valid.
    """
    charged = copy.deepcopy(record)
    charged["arch"]["output_fills"] = "charged"
    plain, whole = ms.evaluate([record, charged])
    for scored in (plain, whole):
        if scored["result"].get("valid") is False:
            raise ValueError(scored["result"]["why"])
    counts = plain["result"]
    outputs = [tensor["name"] for tensor in record["problem"]["tensors"] if tensor.get("output")]
    energy = counts["macs"] * record["arch"]["mac"]["energy_pj"]
    cycles = float(math.prod(loop[1] for level in record["mapping"] for loop in level["temporal"]))
    outermost = record["arch"]["levels"][0]
    busy: dict[tuple[str, str], float] = {}
    for level, counted, drained in zip(
        record["arch"]["levels"], counts["levels"], whole["result"]["levels"], strict=True
    ):
        reads = writes = busiest_reads = busiest_writes = 0.0
        for name, tensor in counted["tensors"].items():
            read = tensor["reads"]
            if name in outputs and level is not outermost:
                read += drained["tensors"][name]["fills"]
            write = tensor["fills"] + tensor["updates"]
            reads += read * tensor["instances"]
            writes += write * tensor["instances"]
            busiest_reads += read
            busiest_writes += write
        energy += reads * level["energy_pj"]["read"] + writes * level["energy_pj"]["fill"]
        # Parts of one memory share its ports.
        for key, words in (
            ("shared_bandwidth", busiest_reads + busiest_writes),
            ("read_bandwidth", busiest_reads),
            ("write_bandwidth", busiest_writes),
        ):
            if key in level:
                port = level.get("shares", level["name"]), key
                busy[port] = busy.get(port, 0.0) + words / level[key]
                cycles = max(cycles, busy[port])
    energy += cycles * outermost.get("leakage_pj", 0.0)
    return energy * 1e-12, cycles / clock_ghz * 1e-9
