"""AccelForge's mapper on one machine and layer, as one line of JSON, in an environment of its own.

python accelforge_run.py accelforge/nvdla.yaml accelforge/gemm-8b.yaml
"""

import json
import resource
import sys
import time
from importlib.metadata import version

import accelforge as af


def main(machine: str, layer: str) -> None:
    """Prints the processor seconds of the search and of all until its end, and what it found."""
    spec = af.Spec.from_yaml(machine, layer)
    spec.mapper.metrics = af.Metrics.ENERGY_DELAY_PRODUCT
    af.set_n_parallel_jobs(1)
    start = time.process_time()
    found = spec.map_workload_to_arch(print_progress=False)
    answer = {
        "version": version("accelforge"),
        "seconds": time.process_time() - start,
        "process_seconds": time.process_time(),
        "energy_j": float(found.energy()),
        "latency_s": float(found.latency()),
        "mapping": " ".join(node.compact_str() for node in found.mapping().nodes),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
