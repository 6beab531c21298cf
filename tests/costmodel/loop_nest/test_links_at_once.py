"""Networks on which nothing is handed on are counted at once, to the bit as visit by visit."""

from __future__ import annotations

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import MapSpace, accelerator, workload
from costmodel.arrays.scratch import scratch_of
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.cost_kernel import evaluate_mappings, make_costs, no_details
from costmodel.loop_nest.link_transfers import Links, make_links
from costmodel.space import Codes


def evaluated(space: MapSpace, codes: Codes, links: Links) -> list[bytes]:
    """Costs of codes, bit by bit."""
    tables, costs = space.tables, make_costs(len(codes))
    details = no_details(tables.capacity.size, tables.sliding.size)
    evaluate_mappings(tables, scratch_of(tables), codes, costs, details, links, adds_cycles(tables))
    return [array.tobytes() for array in costs]


def check(space: MapSpace, codes: Codes) -> None:
    links = make_links(space.tables)
    slow = links._replace(windows=np.ones_like(links.windows))
    assert evaluated(space, codes, links) == evaluated(space, codes, slow)


@pytest.mark.parametrize("networks", [False, True])
def test_random_machines(networks: bool) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        space, codes, _ = random_hierarchy(rng, 3000, networks=networks, links=True)
        check(space, codes[rng.choice(len(codes), min(200, len(codes)), replace=False)])


@pytest.mark.parametrize("name", ["mm256", "register256", "cluster4x64", "edge-1024", "hops4x16"])
@pytest.mark.parametrize("work", ["gemm:M=4096,N=2048,K=3000", "resnet-conv4", "mttkrp-0"])
def test_large_counts(name: str, work: str) -> None:
    machine = accelerator({"extends": name, "link_transfers": True})
    space = MapSpace(workload(work), machine)
    check(space, space.sample(np.random.default_rng(1), 60, feasible=True))
