"""Mappings that AccelForge found, counted by us with its rules: its energies and latencies."""

from __future__ import annotations

import pytest
from compare import machine_file, recorded, same_nests

from costmodel import accelerator

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
