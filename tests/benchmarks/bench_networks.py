"""How long the optimum of whole networks takes to prove, or what gap is left: networks x machines.

In one process, so that all but the first proof find everything compiled. A line of JSON per
network and machine on standard output, then tables in Markdown: all cells, and per machine the
worst gap and the most seconds.

    python tests/benchmarks/bench_networks.py --machines mm256,eyeriss --seconds 60 --processor
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from typing import Any

import mapspace as ms
from costmodel.costs import OBJECTIVES, Objective

MACHINES = (
    *("mm256", "mm256-bypass", "mm256-bw", "mm256-bw-bypass", "mindmappings"),
    *("eyeriss-168", "edge-1024", "edge-22nm", "eyeriss", "eyeriss-v2", "shidiannao", "simba"),
    *("nvdla-small", "nvdla-large", "gemmini", "tpu-v1", "tpu-v4i", "cpu-avx512"),
)
NETWORKS = (
    *("alexnet", "vgg16", "resnet50", "mobilenetv2", "bert-base", "bert-base:sequence=512"),
    *("gpt2", "gpt2:phase=decode", "llama3-8b", "llama3-8b:phase=decode", "mixtral-8x7b"),
    *(
        "mixtral-8x7b:phase=decode",
        "vit-b16",
        "mobilenetv3-large",
        "efficientnet-b0",
        "unet",
        "dlrm",
    ),
)


class _Never(threading.Thread):
    """A timer that does not ring: steps are short by themselves."""

    def __init__(self, seconds: float, call: Any) -> None:
        super().__init__()

    def cancel(self) -> None:
        """Nothing is to come."""


def measured(network: str, machine: str, seconds: float, objective: Objective) -> dict[str, Any]:
    """Seconds and gap of one network on one machine, or why there is no answer."""
    started, processor = time.monotonic(), time.process_time()
    place = {"network": network, "machine": machine}
    try:
        found = ms.search_network(
            network, accelerator=machine, objective=objective, jointly=True, seconds=seconds
        )
    except ms.MapspaceError as error:
        return {**place, "error": str(error)}
    spent = {
        "seconds": round(time.monotonic() - started, 2),
        "processor": round(time.process_time() - processor, 2),
    }
    return {**place, **spent, "gap": found.gap, "proven": found.proven}


def cell(row: dict[str, Any], clock: str) -> str:
    """Seconds of a clock where it is proven, else the gap in per cent."""
    if "error" in row:
        return "none"
    return f"{row[clock]:.1f}" if row["proven"] else f"{row['gap']:.2%}"


def worst_of(rows: list[dict[str, Any]], clock: str) -> str:
    """The worst gap and the most seconds of some cells, and of which cell each is."""
    found = [row for row in rows if "error" not in row]
    if not found:
        return "none | |"
    loosest, slowest = (max(found, key=lambda row: row[key]) for key in ("gap", clock))
    gap = "0" if loosest["proven"] else f"{loosest['gap']:.2%} ({loosest['network']})"
    missing = len(rows) - len(found)
    note = f", {missing} none" if missing else ""
    return f"{gap} | {slowest[clock]:.1f} ({slowest['network']}){note} |"


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", default=",".join(MACHINES))
    # Names may hold commas.
    parser.add_argument("--networks", default=";".join(NETWORKS), help="separated by semicolons")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--objective", default="edp", choices=OBJECTIVES)
    parser.add_argument("--processor", action="store_true", help="all clocks count processor time")
    given = parser.parse_args()
    clock = "processor" if given.processor else "seconds"
    if given.processor:
        # Beside other work a limit in seconds of the wall would end proofs sooner, and steps that
        # the wall's clock ends early would be taken again and again.
        time.monotonic = time.process_time
        threading.Timer = _Never  # type: ignore[assignment, misc]
    machines, networks = given.machines.split(","), given.networks.split(";")
    rows = []
    for machine in machines:
        for network in networks:
            rows.append(measured(network, machine, given.seconds, given.objective))
            print(json.dumps(rows[-1]), flush=True)
    told = {(row["network"], row["machine"]): cell(row, clock) for row in rows}
    print(f"| | {' | '.join(machines)} |\n|{'---|' * (1 + len(machines))}")
    for network in networks:
        print(f"| {network} | {' | '.join(told[network, machine] for machine in machines)} |")

    print(f"\n| | worst gap | most {clock} |\n|---|---|---|")
    for machine in machines:
        print(f"| {machine} | {worst_of([r for r in rows if r['machine'] == machine], clock)}")


if __name__ == "__main__":
    main()
