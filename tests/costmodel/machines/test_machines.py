"""Presets of published machines and of the golden records: their numbers, and their use."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from paths import GOLDEN, ROOT

import mapspace
from costmodel.exact.infeasible import why_infeasible
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_record_models import NestArch
from costmodel.loop_nest.nest_tables import nest_accelerator
from costmodel.loop_nest.nest_writing import arch_of
from costmodel.loop_nest.records import score
from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.network import network
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError

HERE = GOLDEN / "timeloop-general"
WHOLE = ROOT.parent / "shared" / "golden" / "timeloop-general"

KIB, MIB = 1024, 1024 * 1024

# Multiply-accumulates per cycle, bytes on the chip and of one instance per level, as published.
PUBLISHED: dict[str, tuple[int, int, dict[str, int]]] = {
    # JSSC 2017: 168 elements, 108 KB, in each element 24, 448 and 48 bytes.
    "eyeriss": (
        168,
        108 * KIB + 168 * 520,
        {"GLB": 108 * KIB, "ifmap": 24, "filter": 448, "psum": 48},
    ),
    # JETCAS 2019: 192 elements with two multipliers, 192 KB; 16 inputs, 192 weights (two in each of
    # 96 words) and 32 sums of 20 bits in every element.
    "eyeriss-v2": (
        384,
        192 * KIB + 192 * (16 + 192 + 80),
        {"IactGLB": 72 * KIB, "PsumGLB": 120 * KIB, "iact": 16, "weights": 192, "psum": 80},
    ),
    # MICRO 2019, Table 1: 16 x 8 x 8; 64 KB, and in each element 8, 32 and 3 KB.
    "simba": (
        1024,
        64 * KIB + 16 * 43 * KIB + 1024,
        {
            "GlobalBuffer": 64 * KIB,
            "InputBuffer": 8 * KIB,
            "WeightBuffer": 32 * KIB,
            "AccumulationBuffer": 3 * KIB,
            "Register": 1,
        },
    ),
    # ISCA 2017: 64 K multipliers, 24 MiB and 4 MiB, two tiles of 64 KiB in the array.
    "tpu-v1": (
        65536,
        28 * MIB + 128 * KIB,
        {"UnifiedBuffer": 24 * MIB, "Accumulator": 16 * KIB, "Weight": 2},
    ),
    # nv_small.spec: 8 x 8, 32 banks of 512 x 8 bytes; nv_large.spec: 64 x 32, 16 of 512 x 64 bytes.
    "nvdla-small": (64, 128 * KIB + 64, {"CBUF": 128 * KIB, "Weight": 1}),
    "nvdla-large": (2048, 512 * KIB + 2048, {"CBUF": 512 * KIB, "Weight": 1}),
    # ISCA 2021: four arrays of 128 x 128, 128 MiB and 16 MiB.
    "tpu-v4i": (
        65536,
        144 * MIB + 64 * KIB,
        {"CommonMemory": 128 * MIB, "VectorMemory": 4 * MIB, "Weight": 1},
    ),
    # ISCA 2015: 8 x 8, 288 KB of which 32 hold instructions.
    "shidiannao": (
        64,
        (288 - 32) * KIB + 128,
        {"NBin": 64 * KIB, "SB": 128 * KIB, "NBout": 64 * KIB, "Sum": 2},
    ),
    # DAC 2021: 16 x 16, 256 KB and 64 KB.
    "gemmini": (
        256,
        320 * KIB + 256,
        {"Scratchpad": 256 * KIB, "Accumulator": 4 * KIB, "Weight": 1},
    ),
}


def golden_archs() -> Iterator[dict[str, Any]]:
    """Every machine of the records once; those of whole map spaces only beside the checkout."""
    seen = set()
    for path in [*sorted(HERE.glob("*.gz")), *sorted(WHOLE.glob("mapspaces.*"))]:
        with gzip.open(path, "rt") as lines:
            for line in lines:
                arch = json.loads(line)["arch"]
                if arch["name"] not in seen:
                    seen.add(arch["name"])
                    yield arch


def numbers(machine: Accelerator) -> str:
    """The hash of a machine without what a record does not say: what is kept, widths of words."""
    data = machine.model_dump() | {"bypass": "none"}
    for level, own in zip(data["levels"], machine.levels, strict=True):
        for key in ("keep", "bypass", "word_bits"):
            level.pop(key, None)
        level["technology"] = "DRAM" if own.is_dram else "SRAM"
        level["energy_pj"] = dict(zip(("read", "fill", "update"), own.energies, strict=True))
    return Accelerator.model_validate(data).hash


def plain(arch: dict[str, Any]) -> dict[str, Any]:
    """A record's machine, with what is left out where it says nothing."""
    levels = []
    for level in arch["levels"]:
        network_of = {key: value for key, value in level.get("network", {}).items() if value}
        kept = {key: value for key, value in level.items() if key != "network"}
        for key, default in (("block_size", 1), ("cluster_size", 1)):
            if kept.get(key) == default:
                del kept[key]
        levels.append(kept | ({"network": network_of} if network_of else {}))
    return {**arch, "levels": levels}


@pytest.mark.parametrize("arch", [pytest.param(a, id=a["name"]) for a in golden_archs()])
def test_a_golden_machine_is_that_of_its_records(arch: dict[str, Any]) -> None:
    preset = accelerator(arch["name"])
    assert plain(arch_of(preset)) == plain(arch)
    recorded = nest_accelerator(NestArch.model_validate(arch))
    assert numbers(preset) == numbers(recorded)
    more = {"mac_energy_pj": preset.mac_energy_pj + 1}
    assert numbers(preset.model_copy(update=more)) != numbers(recorded)


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_are_the_published_ones(name: str) -> None:
    units, on_chip, sizes = PUBLISHED[name]
    machine = accelerator(name)
    assert machine.processing_elements == units
    found, total, instances = {}, 0, 1
    for level in machine.levels:
        if level.capacity_words is not None:
            bits = level.capacity_words * (level.word_bits or machine.word_bits)
            if bits:
                found[level.name] = bits // 8
            total += instances * bits // 8
        instances *= level.fanout
    assert found == sizes
    assert total == on_chip


def used(name: str, searcher: str | None, **budget: float) -> None:
    """Searches a problem; what is written of the mapping costs the same when it is read."""
    for problem in ("cnn:N=4,K=64,C=32,P=14,Q=14,R=3,S=3", "gemm:M=64,N=96,K=128"):
        found = mapspace.search(problem, name, searcher=searcher, seed=1, **budget)
        again = score([found.record], LoopNestModel())[0]["result"]
        assert again["energy_pj"] == pytest.approx(found.costs.energy_pj, rel=1e-12)
        assert again["cycles"] == found.costs.latency_cycles


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("searcher", [None, "structured", "random"])
def test_published_machines_are_searched(name: str, searcher: str | None) -> None:
    used(name, searcher, iterations=600)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PUBLISHED, *(arch["name"] for arch in golden_archs())])
@pytest.mark.parametrize("searcher", [None, "structured"])
def test_every_machine_is_searched_for_a_second(name: str, searcher: str | None) -> None:
    used(name, searcher, seconds=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_layer_of_resnet_runs_on_published_machines(name: str) -> None:
    for layer, _ in network("resnet50"):
        found = mapspace.search(layer, name, searcher="structured", iterations=600)
        assert found.costs.energy_pj > 0


def test_what_fits_no_register_is_said_of_what_it_keeps() -> None:
    space = MapSpace(workload("mttkrp-0"), accelerator("tpu-v1"))
    assert why_infeasible(space) is None
    own = workload("mttkrp-0").model_dump()
    own["tensors"] = [tensor | {"role": "weight"} for tensor in own["tensors"][:-1]] + [
        own["tensors"][-1]
    ]
    three = MapSpace(Workload.model_validate(own), accelerator("tpu-v1"))
    assert str(why_infeasible(three)).endswith(
        "Weight holds 2 words, and the smallest tile has one word of each of 3 tensors, each held "
        "2 times. A capacity of 6 words would admit one."
    )


def test_rules_that_a_machine_cannot_have_are_refused() -> None:
    """At once, and not when its certificate is written."""
    assert accelerator("mm256").with_rules(link_transfers=True).link_transfers
    with pytest.raises(ConfigError, match=r"eyeriss: .*not counted with link transfers"):
        accelerator("eyeriss").with_rules(link_transfers=True)
    with pytest.raises(ConfigError, match=r"eyeriss: .*not counted with link transfers"):
        mapspace.search("gemm:M=4,N=4,K=4", "eyeriss", link_transfers=True, store=False)
