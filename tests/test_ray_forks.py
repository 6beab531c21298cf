"""The workers of the tests' Ray are forks that know no more than Ray's own."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.usefixtures("ray_runtime")
def test_a_worker_is_a_fork_and_what_it_was_told_is_its_own() -> None:
    import ray

    # What starts a worker that Ray has started before anybody asked is not this.
    @ray.remote(num_cpus=0, runtime_env={"env_vars": {"TOLD_TO_ONE": "yes"}})
    class Worker:
        def facts(self) -> Any:
            import os
            import sys

            import numpy as np

            ours = {"costmodel", "mapspace", "orchestrator", "searchers"} & sys.modules.keys()
            own = os.environ["TOLD_TO_ONE"], np.random.random()  # noqa: NPY002
            return "torch" in sys.modules, ours, own, os.getpid()

    workers = [Worker.remote() for _ in range(2)]
    first, second = ray.get([worker.facts.remote() for worker in workers])
    for worker in workers:
        ray.kill(worker)
    assert first[:2] == second[:2] == (True, set())
    assert first[2][0] == second[2][0] == "yes"
    assert first[2][1] != second[2][1]
    assert first[3] != second[3]
