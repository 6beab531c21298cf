"""AccelForge's own machines, and what of its files has no counterpart."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import TESTS

from costmodel.accelforge.architecture import read_accelforge_machine
from costmodel.accelforge.expressions import number, roles
from costmodel.machines.accelerators import accelerator
from mapspace.errors import ConfigError

PEERS = TESTS / "benchmarks" / "peers"


@pytest.mark.parametrize("name", ["nvdla", "tpu-v4i"])
def test_its_machines_are_those_written_by_hand(name: str) -> None:
    """For the comparison they were translated from what AccelForge's loader prints."""
    read = read_accelforge_machine(PEERS / "accelforge" / f"{name}.yaml", 8)
    assert accelerator(read.content).hash == accelerator(PEERS / "machines" / f"{name}.yaml").hash
    assert any("min_usage" in key for key in read.unused)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eyeriss", r"arch\.nodes\[MAC\]\.actions\[compute\]: .* \(component_class IntMAC\) are"),
        ("simba", r"arch\.nodes\[MAC\]\.actions\[compute\]: .* are not read"),
    ],
)
def test_energies_of_component_models_are_not_invented(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_accelforge_machine(PEERS / "accelforge" / f"{name}.yaml", 16)


MACHINE = """arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 1e-3
    tensors: {keep: ~Intermediates, may_keep: All}
    actions:
    - {name: write, energy: 2e-12 * 3, throughput: 16e9, bits_per_action: 2}
    - {name: read, energy: 4e-12, throughput: 32e9}
  - !Container
    name: Array
    spatial: [{name: X, fanout: 4, reuse: weight}]
  - !Memory
    name: Buffer
    size: 1024*16 # bits
    leak_power: 5e-4
    tensors: {keep: input | weight, may_keep: output}
    actions:
    - {name: read, energy: 1e-12, throughput: inf}
    - {name: write, energy: 1e-12, throughput: inf}
  - !Compute
    name: MAC
    leak_power: 0
    actions: [{name: compute, energy: 1e-12, throughput: 2e9}]
"""


def test_a_machine_counted_by_hand(tmp_path: Path) -> None:
    """Words of 16 bits at 2 GHz: 64 and 48 pJ, a word a cycle, 1 mW + 4 x 0.5 mW of leakage."""
    file = tmp_path / "machine.yaml"
    file.write_text(MACHINE)
    content = read_accelforge_machine(file, 16).content
    main, buffer = content.pop("levels")
    assert content == {
        "name": "machine",
        "word_bits": 16,
        "clock_ghz": 2.0,
        "mac_energy_pj": 1.0,
        "bypass": "searched",
    }
    assert main == {
        "name": "Main",
        "technology": "DRAM",
        "energy_pj": {"read": 64.0, "fill": 48.0, "update": 48.0},
        "bandwidth": 1.0,
        "leakage_pj": 1.5,
        "fanout": 4,
        "spatial": {"x_reuse": ["weight"]},
    }
    assert buffer == {
        "name": "Buffer",
        "capacity_words": 1024,
        "energy_pj": 16.0,
        "keep": ["input", "weight"],
    }


def test_sums_may_be_wider(tmp_path: Path) -> None:
    """As in its Simba: 1,024 x 16 bits hold a third as many sums, at three times the energy."""
    file = tmp_path / "machine.yaml"
    wide = "leak_power: 5e-4\n    bits_per_value: {output: 3 * output.bits_per_value}"
    text = MACHINE.replace("leak_power: 5e-4", wide)
    file.write_text(text.replace("keep: input | weight, may_keep: output", "keep: output"))
    _, buffer = read_accelforge_machine(file, 16).content["levels"]
    assert (buffer["capacity_words"], buffer["word_bits"], buffer["energy_pj"]) == (341, 48, 48.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("inf\n", "{{ size }}\n", "a template"),
        ("!Compute", "!Toll", r"arch\.nodes\[MAC\]\.!: expected .*Compute.*, got 'Toll'"),
        ("    size: 1024*16 # bits\n", "", r"nodes\[Buffer\]\.size: expected a number, or inf"),
        ("1024*16", "open('x')", r"nodes\[Buffer\]\.size: expected a number, or \+, -"),
        ("1024*16", "9**9**9", r"nodes\[Buffer\]\.size: expected a number"),
        ("1024*16", "-5", "expected at least 0, got -5"),
        ("1024*16", "1/0", r"nodes\[Buffer\]\.size: expected a number"),
        ("fanout: 4", "fanout: 2.5", r"spatial\[X\]\.fanout: expected a whole number from 1"),
        ("reuse: weight", "may_reuse: input", r"spatial\[X\]\.may_reuse: expected All"),
        ("reuse: weight", "reuses: weight", "unknown key; did you mean reuse"),
        ("input | weight", "inputs", r"nodes\[Buffer\]\.tensors\.keep: expected All, Nothing"),
        ("~Intermediates", "input", r"keep: expected every tensor at the outermost level"),
        ("throughput: 32e9", "throughput: 8e9", "expected equal throughputs of read and write"),
        ("    leak_power: 5e-4\n", "", r"nodes\[Buffer\]\.leak_power is missing"),
        ("throughput: 2e9", "throughput: inf", "expected a finite number: the cycles"),
        (
            "    leak_power: 5e-4\n",
            "    leak_power: 5e-4\n    bits_per_value: {output: 32}\n",
            r"bits_per_value: expected one width of all that it may hold, got input 16, output 32",
        ),
        (
            "    leak_power: 5e-4\n",
            "    leak_power: 5e-4\n    bits_per_value: {output: 2.5}\n",
            r"bits_per_value\[output\]: expected a whole number of bits, got 2\.5",
        ),
        (
            "    size: inf",
            "    total_latency: 5\n    size: inf",
            r"total_latency: expected the sum",
        ),
        ("name: write, energy: 1e", "name: read, energy: 1e", "expected read and write once each"),
    ],
)
def test_what_has_no_counterpart(old: str, new: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    assert old in MACHINE
    file.write_text(MACHINE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as raised:
        read_accelforge_machine(file, 16)
    assert "\n" not in str(raised.value)


def test_expressions_by_hand() -> None:
    held = {"L2": frozenset({"input"})}
    assert roles("~L2.tensors & (output | input)", "x", held) == {"output"}
    assert roles("All - weight", "x", {}) == {"input", "output"}
    assert number("weight.bits_per_value if weight else 0", "x", 8) == 8
    assert number("3 * (1024 - 24) / 2", "x", 8) == 1500
    with pytest.raises(ConfigError):
        number("(" * 150 + "1" + ")" * 40, "x", 8)
