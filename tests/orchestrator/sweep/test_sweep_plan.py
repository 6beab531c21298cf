"""Sweeps' grids: expansion, area, energies, workloads."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from sweeps import OTHER, SMALL, content_for, plan_for

from costmodel import accelerator
from mapspace.errors import ConfigError
from orchestrator.sweep.config import AreaProxy, Sweep
from orchestrator.sweep.plan import named_accelerator, prepare_sweep, require_spaces


def test_the_grid_is_a_product_whose_last_axis_changes_fastest() -> None:
    plan = plan_for()
    machines = [architecture.accelerator for architecture in plan.architectures]
    sizes = [(machine.levels[2].capacity_words, machine.levels[1].fanout) for machine in machines]
    assert sizes == [(16, 4), (16, 8), (16, 16), (64, 4), (64, 8), (64, 16)]
    assert plan.architectures[1].name == "L1.capacity_words=16 L2.fanout=8"
    assert plan.architectures[1].parameters == {"L1.capacity_words": 16, "L2.fanout": 8}
    # What the grid leaves alone is the base's.
    assert machines[0].levels[1].capacity_words == accelerator("mm256").levels[1].capacity_words


def test_keys_of_the_accelerator_itself_can_be_swept() -> None:
    plan = plan_for(grid={"mac_energy_pj": [0.5, 2.0], "L1.read_bandwidth": [2.0, None]})
    found = [a.accelerator for a in plan.architectures]
    assert [machine.mac_energy_pj for machine in found] == [0.5, 0.5, 2.0, 2.0]
    assert [machine.levels[2].read_bandwidth for machine in found] == [2.0, None, 2.0, None]


def test_all_values_that_no_machine_can_have_are_named() -> None:
    grid = {"L1.capacity_words": [16, 0], "L2.fanout": [4, "four"]}
    with pytest.raises(ConfigError) as raised:
        plan_for(grid=grid)
    said = str(raised.value)
    assert "L1.capacity_words=0: levels[L1].capacity_words: expected" in said
    assert "L2.fanout=four: levels[L2].fanout: expected a whole number, got 'four'" in said
    # Where only their meeting is wrong, the machine is named.
    with pytest.raises(ConfigError, match=r"L2.fanout=16 L2.mesh=\[2, 4\]: "):
        plan_for(grid={"L2.fanout": [8, 16], "L2.mesh": [[2, 4]]})


def test_area_by_hand() -> None:
    # One L2 of 262,144 words, 256 L1 of 32,768 words, 256 processing elements of 128 words, each
    # word of 16 bits.
    assert AreaProxy().bits(accelerator("mm256")) == 16 * (262_144 + 256 * 32_768 + 256 * 128)
    proxy = AreaProxy(word=0.5, levels={"L1": 2.0}, processing_element=10.0)
    words = 0.5 * 262_144 + 2 * 256 * 32_768 + 256 * 10
    assert proxy.bits(accelerator("mm256")) == 16 * words
    # 110,592 words, 168 elements with 512 words and 128 words of their own, each word of 8 bits.
    eyeriss = accelerator("eyeriss-168")
    assert AreaProxy().bits(eyeriss) == 8 * (110_592 + 168 * 512 + 168 * 128)
    small = {
        "extends": "mm256",
        "word_bits": 1,
        "levels": [
            {"name": "DRAM", "fanout": 2},
            {"name": "L2", "capacity_words": 10, "fanout": 3},
            {"name": "L1", "capacity_words": 5, "fanout": 4},
        ],
    }
    # 2 L2 of 10 words, 6 L1 of 5 words, 24 processing elements.
    assert AreaProxy(processing_element=1.0).bits(accelerator(small)) == 20 + 30 + 24


def test_energies_grow_with_the_square_root_of_the_capacity_in_hundredths() -> None:
    grid = {"L1.capacity_words": [2, 8_192, 32_768, 131_072], "mac_energy_pj": [1.0]}
    plan = plan_for(grid=grid, energy_scaling="sqrt")
    energies = [a.accelerator.levels[2].energy_pj for a in plan.architectures]
    # 1.12 pJ at 32,768 words; never rounded to nothing.
    assert energies == [0.01, 0.56, 1.12, 2.24]
    assert {a.accelerator.levels[1].energy_pj for a in plan.architectures} == {2.2}


def test_what_costs_nothing_costs_nothing_in_a_larger_memory() -> None:
    base = {"extends": "mm256", "levels": [{"name": "L1", "energy_pj": 0.0}]}
    grid = {"L1.capacity_words": [16, 8_192, 131_072]}
    plan = plan_for(base=base, grid=grid, energy_scaling="sqrt")
    assert [a.accelerator.levels[2].energy_pj for a in plan.architectures] == [0.0, 0.0, 0.0]


def test_energies_by_action_grow_each_by_itself() -> None:
    """Twice the energy at four times the capacity, and what costs nothing stays so."""
    said = {"read": 1.5, "fill": 0.0, "update": 0.004}
    base = {"extends": "mm256", "levels": [{"name": "L1", "energy_pj": said}]}
    plan = plan_for(base=base, grid={"L1.capacity_words": [32_768, 131_072]}, energy_scaling="sqrt")
    found = [a.accelerator.levels[2].energies for a in plan.architectures]
    assert found == [(1.5, 0.0, 0.004), (3.0, 0.0, 0.01)]


def test_a_level_that_no_machine_has_takes_no_area() -> None:
    with pytest.raises(ConfigError, match=r"area: levels: Unknown level 'L9'"):
        plan_for(area={"levels": {"L1": 1.0, "L9": 2.0}})
    assert plan_for(area={"levels": {"L1": 1.0, "L2": 2.0}}).architectures


def test_a_machine_without_a_map_space_is_named() -> None:
    """Of the smallest workload: nine levels are 17 loops, over which 512 cubed is too much."""
    inner = [
        {"name": f"L{n}", "capacity_words": 64, "energy_pj": 1.0, "fanout": 2} for n in range(8)
    ]
    levels = [{"name": "DRAM", "energy_pj": 9.0}, *inner]
    deep = accelerator({"name": "deep", "mac_energy_pj": 1.0, "levels": levels})
    layers = plan_for(workloads=["gemm-512", SMALL]).layers
    require_spaces([deep], layers, "here")
    with pytest.raises(ConfigError, match=r"^here: deep: .*over 17 loops"):
        require_spaces([accelerator("mm256"), deep], layers[:1], "here")
    assert named_accelerator("mm256", "here") == accelerator("mm256")
    with pytest.raises(ConfigError, match=r"^here: .*Unknown accelerator 'mm2567'"):
        named_accelerator("mm2567", "here")


def test_networks_of_any_kind_are_run_as_often_as_their_weights_say(tmp_path: Path) -> None:
    layers = [SMALL, {"workload": OTHER, "count": 5}]
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"layers": layers}))
    sweep = Sweep.model_validate(
        content_for(
            workloads=[
                {"network": "own.yaml", "weight": 3},
                {"network": "gpt2:phase=decode"},
                {"network": "own.yaml"},
            ]
        )
    )
    counts = {
        layer.workload.name: layer.count
        for layer in prepare_sweep(sweep, str(tmp_path / "sweep.yaml")).layers
    }
    # Three runs and one more, of one and of five such layers.
    assert [*counts.values()][:2] == [4, 20]
    assert counts["gpt2-scores"] == 12
    assert len(counts) == 8


def test_accelerators_and_workloads_from_lists_files_and_networks(tmp_path: Path) -> None:
    small = {"extends": "mm256", "levels": [{"name": "L2", "fanout": 16}]}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small))
    (tmp_path / "layer.yaml").write_text("gemm: {M: 4, N: 4, K: 4}")
    content = content_for(
        grid=None,
        accelerators=["mm256", "small.yaml", {**small, "name": "inline"}],
        workloads=["layer.yaml", {"network": "vgg16"}, {"gemm": {"M": 2, "N": 2, "K": 2}}],
    )
    plan = prepare_sweep(Sweep.model_validate(content), str(tmp_path / "x.yaml"))
    assert [a.name for a in plan.architectures] == ["mm256", "small", "inline"]
    names = [layer.workload.name for layer in plan.layers]
    assert (names[0], names[1], names[-1]) == ("layer", "vgg16-conv1_1", "gemm:M=2,N=2,K=2")
    # VGG16 has 13 convolutions.
    assert sum(layer.count for layer in plan.layers[1:-1]) == 13
    assert max(layer.count for layer in plan.layers) > 1
