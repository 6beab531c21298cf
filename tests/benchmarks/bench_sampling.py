"""Feasible mappings drawn per second, one core, warm: Table 1's problems on published machines.

Seconds are of the processor, the best of three.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from costmodel import MapSpace, accelerator, workload
from costmodel.machines.accelerators import AcceleratorSource
from mapspace.errors import ConfigError

MACHINES = (
    "eyeriss", "simba", "gemmini", "nvdla-small", "nvdla-large", "tpu-v1", "tpu-v4i", "shidiannao",
)  # fmt: skip
PROBLEMS = (
    "resnet-conv3", "resnet-conv4", "inception-conv2", "vgg-conv2", "alexnet-conv2",
    "alexnet-conv4", "mttkrp-0", "mttkrp-1",
)  # fmt: skip


def rate(machine: AcceleratorSource, problem: str, draws: int) -> str:
    """Thousands of mappings per second, the best of three."""
    space = MapSpace(workload(problem), accelerator(machine))
    rng = np.random.default_rng(0)
    try:
        space.sample(rng, draws, feasible=True)
        seconds = []
        for _ in range(3):
            started = time.process_time()
            space.sample(rng, draws, feasible=True)
            seconds.append(time.process_time() - started)
    except ConfigError:
        return "none"
    return f"{draws / min(seconds) / 1000:,.0f}"


def main() -> None:
    """Prints a row per machine, a column per problem."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--machine", nargs="+", default=MACHINES)
    parser.add_argument("--orders", action="store_true", help="draw those of buffers, too")
    arguments = parser.parse_args()
    print("| thousands per second |", " | ".join(PROBLEMS), "|")
    print("|---|", "---|" * len(PROBLEMS), sep="")
    for machine in arguments.machine:
        orders = {"extends": machine, "name": machine, "orders": "searched"}
        given = orders if arguments.orders else machine
        found = [rate(given, problem, arguments.draws) for problem in PROBLEMS]
        print(f"| `{machine}` |", " | ".join(found), "|", flush=True)


if __name__ == "__main__":
    main()
