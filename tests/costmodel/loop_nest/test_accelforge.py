"""Mappings that AccelForge found, counted by us with its rules: its energies and latencies."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from accelforge_counting import accelforge_costs
from compare import UNEVEN, layer_file, machine_file, recorded, same_nests
from uneven import best, cut

from costmodel import accelerator, workload

# The others store the tensors of one memory at loops of their own, which a level here cannot.
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
    content = yaml.safe_load(Path(machine_file("nvdla")).read_text())
    found = best(workload(layer_file("gemm")), content, UNEVEN["nvdla"])
    answer = recorded()["nvdla", "gemm"]
    energy, latency = accelforge_costs(found.record, 1.0)
    assert energy == pytest.approx(answer["energy_j"], rel=1e-6)
    assert latency == pytest.approx(answer["latency_s"], rel=1e-6)
    whole = cut(content, UNEVEN["nvdla"])
    assert [level.get("capacity_words") for level in whole["levels"]] == [None, *[65534] * 3, 1]
