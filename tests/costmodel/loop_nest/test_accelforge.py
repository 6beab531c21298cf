"""Mappings that AccelForge found, counted by us with its rules: its energies and latencies."""

from __future__ import annotations

import pytest
from accelforge_counting import accelforge_costs
from compare import FANOUTS, LAYERS, layer_file, machine_file, ours, recorded, same_nests
from paths import ROOT

import mapspace as ms
from costmodel import accelerator
from orchestrator.runs.tables_file import read_table

# The others store the tensors of one memory at loops of their own, which `same_nests` cannot.
SAME = [
    *(("eyeriss", layer) for layer in ("gemm", "attention", "pointwise")),
    *(("simba", layer) for layer in ("gemm", "depthwise", "convolution")),
    *(("nvdla", layer) for layer in ("attention", "depthwise")),
    *(("tpu-v4i", layer) for layer in ("gemm", "attention", "pointwise", "depthwise")),
]


@pytest.mark.parametrize(("machine", "layer"), SAME)
def test_its_mapping_costs_what_it_says(machine: str, layer: str) -> None:
    answer = recorded()[machine, layer]
    clock = accelerator(machine_file(machine)).clock_ghz
    assert any(
        energy == pytest.approx(answer["energy_j"], rel=1e-6)
        and latency == pytest.approx(answer["latency_s"], rel=1e-6)
        for _, energy, latency in same_nests(answer, clock)
    )


def test_tiles_apart_cost_what_it_says() -> None:
    """Its answer for NVDLA's GEMM, which one place per level cannot express, is the best of all."""
    layer, machine = layer_file("gemm"), machine_file("nvdla")
    found = ms.search(layer, machine, tiles="apart", store=False)
    assert found.proven
    answer = recorded()["nvdla", "gemm"]
    energy, latency = accelforge_costs(found.record, 1.0)
    assert energy == pytest.approx(answer["energy_j"], rel=1e-6)
    assert latency == pytest.approx(answer["latency_s"], rel=1e-6)
    together = ms.search(layer, machine, store=False)
    assert _edp(together) == pytest.approx(1.4476 * _edp(found), rel=1e-4)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("machine", FANOUTS)
def test_kept_answers_are_those_of_today(machine: str, layer: str) -> None:
    """The table of docs/results/peers.md, but for seconds."""
    table = read_table(ROOT / "docs" / "results" / "kept" / "peers", "answers")
    ((*_, theirs, _, mine, ratio, _, _, said),) = (
        r for r in table.rows if r[:2] == (machine, layer)
    )
    found = ours(machine, layer, 60.0, "apart")
    energy, latency = accelforge_costs(found.record, accelerator(machine_file(machine)).clock_ghz)
    assert (f"{energy * latency:.5e}", found.said) == (mine, said) == (mine, "proven")
    answer = recorded()[machine, layer]
    if "energy_j" in answer:
        its = answer["energy_j"] * answer["latency_s"]
        assert (f"{its:.5e}", f"{energy * latency / its:.3f}") == (theirs, ratio)
        assert energy * latency <= its * (1 + 1e-6)  # none of its answers is better


def _edp(found: ms.SearchResult) -> float:
    return found.costs.energy_pj * found.costs.latency_cycles
