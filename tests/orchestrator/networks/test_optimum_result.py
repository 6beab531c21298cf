"""What is said of mappings that were chosen together: 3 x 10,112 and 16,992 pJ, 3 x 32 and 64."""

from __future__ import annotations

from dataclasses import replace

import mapspace as ms


def test_the_text_and_the_shares() -> None:
    small, large = "gemm:M=4,N=4,K=4", "gemm:M=8,N=4,K=4"
    network = {"layers": [{"workload": small, "count": 3}, {"workload": large}]}
    found = ms.search_network(network, "tiny3", jointly=True, objective="edp", store=False)
    lines = found.picture().splitlines()
    *said, search = lines
    assert search.startswith("search          2 distinct layers, 3 lines, ")
    assert [line.split() for line in said if line and not line.startswith("---")] == [
        line.split()
        for line in (
            "network on tiny3, all layers for the network's edp",
            "layer count energy, mJ cycles share of energy share of cycles",
            f"{small} 3 1.0112e-05 32 64.10 % 60.00 %",
            f"{large} 1 1.6992e-05 64 35.90 % 40.00 %",
            "total 4 4.7328e-05 160 100.00 % 100.00 %",
            "energy 4.7328e-05 mJ",
            "latency 160 cycles (0.00016 ms), one layer after another",
            "mean power 0.2958 W",
            "EDP 7.57248e-15 J s (total energy x total time)",
            "per joule 2.113e+07 inferences (throughput per watt)",
            "proven optimal no mappings have a lower edp in all",
        )
    ]
    stopped = replace(found, interrupted=True).picture()
    assert stopped == f"{found.picture()}\ninterrupted: this is the best so far."


def test_totals_that_come_to_nothing_are_the_least() -> None:
    """Where nothing costs energy every product is 0, and no mappings have less."""
    levels = [
        {"name": "DRAM", "energy_pj": 0.0}, {"name": "L1", "energy_pj": 0.0, "capacity_words": 9},
    ]  # fmt: skip
    machine = {"name": "free", "mac_energy_pj": 0.0, "levels": levels}
    layers = [{"workload": f"gemm:M={m},N=2,K=2"} for m in (2, 4)]
    found = ms.search_network({"layers": layers}, machine, objective="ed2p", store=False)
    assert isinstance(found, ms.NetworkResult)
    assert found.totals is not None
    assert (found.totals.costs.energy_pj, found.totals.costs.latency_cycles) == (0.0, 8 + 16)
    assert (found.totals.overall.gap, found.totals.overall.proven) == (0.0, True)
    assert dict(found.facts())["in all"] == "proven optimal"
