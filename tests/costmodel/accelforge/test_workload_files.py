"""AccelForge's workload files as networks, its mapping files as records."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
from paths import TESTS

from costmodel.accelforge.workload import read_accelforge_network
from costmodel.problems.workloads import network, workload
from mapspace.errors import ConfigError
from orchestrator.records.evaluate_records import scorer
from orchestrator.records.importing import imported, imported_answer

FILES = TESTS / "golden" / "accelforge-imports"
LAYERS = TESTS / "benchmarks" / "peers" / "accelforge"


@pytest.mark.parametrize(
    ("name", "layers", "macs"),
    [
        # What torchvision's models have, convolutions and fully connected layers.
        ("resnet50", 54, 4_089_184_256),
        ("vgg16", 16, 15_470_264_320),
        # 24 blocks of six products (768 x 4 and 3,072 wide would be the small one), and the head.
        ("gpt2_medium", 145, 90_515_439_616),
        # 28 x 28 x (24 x 192 x 4 + 2 x 192 x 9).
        ("mobilenet_28", 6, 28 * 28 * (24 * 192 * 4 + 2 * 192 * 9)),
        ("three_matmuls_annotated", 3, 3 * 128**3),
    ],
)
def test_its_networks(name: str, layers: int, macs: int) -> None:
    read = read_accelforge_network(FILES / f"{name}.yaml", {"BATCH_SIZE": 1})
    assert (len(read.layers), read.macs) == (layers, macs)
    assert all({"cnn", "gemm"} & layer.content.keys() for layer in read.layers)


def test_the_convolutions_of_its_vgg16_are_ours() -> None:
    read = read_accelforge_network(FILES / "vgg16.yaml", {"BATCH_SIZE": 1})
    theirs = Counter(workload(layer.content).hash for layer in read.layers[:13])
    assert theirs == Counter({work.hash: count for work, count in network("vgg16")})


@pytest.mark.parametrize(
    ("file", "ours"),
    [
        ("convolution-8b", "cnn:N=1,K=256,C=256,P=14,Q=14,R=3,S=3"),
        ("gemm-8b", "gemm:M=512,N=1024,K=1024"),
    ],
)
def test_the_layers_of_the_comparison(file: str, ours: str) -> None:
    (layer,) = read_accelforge_network(LAYERS / f"{file}.yaml", {}).layers
    assert workload(layer.content).hash == workload(ours).hash


def test_families_are_told_by_their_structure(tmp_path: Path) -> None:
    lines = {
        "O[n, k, p, q] = I[n, c, H: 2*p + 3*r, W: q*2 + s*3] * W[k, c, r, s]": {
            **{"N": 2, "K": 4, "C": 3, "P": 5, "Q": 6, "R": 3, "S": 2},
            **{"stride": 2, "dilation": 3},
        },
        "O[n, t, p, q] = I[n, t, H: p + r, W: q + s] * W[t, r, s]": {
            **{"N": 2, "K": 1, "C": 1, "P": 5, "Q": 6, "R": 3, "S": 2},
            "groups": 7,
        },
        "O[n, k, p, q] = I[n, c, H: 2*p, W: 2*q] * W[k, c]": {
            **{"N": 2, "K": 4, "C": 3, "P": 5, "Q": 6, "R": 1, "S": 1},
            "stride": 2,
        },
        # Two strides are no layer of the family.
        "O[n, k, p, q] = I[n, c, H: 2*p + r, W: q + s] * W[k, c, r, s]": None,
    }
    sizes = {"n": 2, "k": 4, "c": 3, "p": 5, "q": 6, "r": 3, "s": 2, "t": 7}
    file = tmp_path / "families.yaml"
    for line, expected in lines.items():
        space = {name: f"0 <= {name} < {size}" for name, size in sizes.items()}
        entry = {"einsum": line, "renames": {"weight": "W"}, "n_instances": 3}
        source = {"iteration_space_shape": space, "einsums": [entry], "n_instances": 2}
        file.write_text(json.dumps({"workload": source}))
        (layer,) = read_accelforge_network(file, {}).layers
        assert layer.times == 6
        assert layer.content.get("cnn") == expected
        indices = set(re.findall(r"\b[a-z]\b", line))
        assert workload(layer.content).macs == math.prod(sizes[name] for name in indices)


def test_an_einsum_of_one_input_moves_words(tmp_path: Path) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text(
        "workload:\n  rank_sizes: {M: 4, N: 5}\n  einsums:\n  - 'S[m, n] = T[m, n]'\n"
        "  - {einsum: 'C[m, n] = S[m, n] * S2[m, n]', is_copy_operation: true}\n"
    )
    read = read_accelforge_network(file, {})
    assert read.layers == ()
    assert read.without_macs == ("S moves 40 words", "C moves 60 words")


def test_a_rank_that_its_index_leaves_is_listed() -> None:
    """Their MobileNet has inputs of 28 rows, over which windows of 3 reach to 30."""
    read = read_accelforge_network(FILES / "mobilenet_28.yaml", {})
    assert sum("rank_sizes.P0: 28, over which its index reaches to 30" in u for u in read.unused)


WORKLOAD = """workload:
  iteration_space_shape: {m: 0 <= m < 4, n: 0 <= n < 6, k: 0 <= k < 8}
  bits_per_value: {All: 8}
  einsums:
  - name: Product
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: {K: k, N: n}}
    - {name: Z, projection: [m, n], output: True}
    renames: {weight: B}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "0 <= m < 4",
            "1 <= m < 4",
            r"iteration_space_shape: expected such as 0 <= m < 128, got '1",
        ),
        (", k: 0 <= k < 8", "", r"einsums\[Product\]: the rank variable k has no range"),
        (
            "{K: k, N: n}",
            "{K: k * k, N: n}",
            r"Product\]\.B\[K\]: expected a sum of rank variables",
        ),
        ("{K: k, N: n}", "{K: k - n, N: n}", r"Product\]\.B\[K\]: expected a sum"),
        (
            "    - {name: Z, projection: [m, n], output: True}\n",
            "",
            r"inputs and one output, got 2",
        ),
        ("{weight: B}", "{weight: open}", r"renames\[weight\]: expected All, .*got 'open'"),
        ("  - name: Product", "  - {% for i in range(3) %}", r"a template \('\{% for i"),
        ("< 4", "< {{M}}", r"a template's \{\{M\}\} without a value; write its number in"),
        ("bits_per_value:", "bits:", r"workload\.bits: unknown key"),
        (
            "  einsums:\n",
            "  einsums:\n  - 'Z = A * B'\n",
            r"einsums\[0\]: expected such as Z\[m, n\]",
        ),
        ("{K: k, N: n}", "{K: M, N: n}", r"Product\]\.B\[K\]: expected a sum"),
    ],
)
def test_what_of_a_workload_has_no_counterpart(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "product.yaml"
    assert old in WORKLOAD
    file.write_text(WORKLOAD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as raised:
        imported(file)
    assert "\n" not in str(raised.value)
    assert str(file) in str(raised.value)


# What its `unfused_matmuls_to_simple.yaml` and `matmuls.yaml` make of N_EINSUMS = 2.
MATMULS = """workload:
  iteration_space_shape: {m: 0 <= m < 64, n0: 0 <= n0 < 32, n1: 0 <= n1 < 32, n2: 0 <= n2 < 32}
  bits_per_value: {All: 8}
  einsums:
  - name: Matmul0
    tensor_accesses:
    - {name: T0, projection: [m, n0]}
    - {name: W0, projection: [n0, n1]}
    - {name: T1, projection: [m, n1], output: True}
    renames: {weight: W0, input: T0, output: T1}
  - name: Matmul1
    tensor_accesses:
    - {name: T1, projection: [m, n1]}
    - {name: W1, projection: [n1, n2]}
    - {name: T2, projection: [m, n2], output: True}
    renames: {weight: W1, input: T1, output: T2}
"""
NEST = """    - !Nested
      nodes:
      - !Storage
        tensors: [T{0}, W{0}, T{1}]
        component: GlobalBuffer
      - !Temporal
        rank_variable: m
        tile_shape: 1
      - !Temporal
        rank_variable: n{0}
        tile_shape: 1
      - !Temporal
        rank_variable: n{1}
        tile_shape: 1
      - !Compute
        einsum: Matmul{0}
        component: MAC
"""
MAPPING = (
    """mapping:
  nodes:
  - !Storage
    tensors: [T0, T1, T2, W0, W1]
    component: MainMemory
  - !Sequential
    nodes:
"""
    + NEST.replace("{0}", "0").replace("{1}", "1")
    + NEST.replace("{0}", "1").replace("{1}", "2")
)


@pytest.fixture
def matmuls(tmp_path: Path) -> tuple[Path, Path]:
    """Its two products as files: workload and mapping."""
    work, mapping = tmp_path / "work.yaml", tmp_path / "mapping.yaml"
    work.write_text(MATMULS)
    mapping.write_text(MAPPING)
    return work, mapping


def test_its_mapping_costs_what_its_own_test_says(matmuls: tuple[Path, Path]) -> None:
    """Its `tests/test_model.py`: the main memory's energy is M x KN x 8 bits x 1 J per tensor."""
    work, mapping = matmuls
    text = imported_answer(mapping, FILES / "simple.yaml", 8, str(work))
    records = scorer("loopnest")([json.loads(line) for line in text.splitlines()])
    for number, record in enumerate(records):
        tensors = record["result"]["levels"][0]["tensors"]
        energies = {name: found["energy_pj"] / 1e12 for name, found in tensors.items()}
        activations = 64 * 32 * 8
        expected = {f"T{number}": activations, f"W{number}": 32**2 * 8}
        assert energies == pytest.approx({**expected, f"T{number + 1}": activations})
        assert record["result"]["cycles"] == 64 * 32 * 32


def test_a_spatial_loop_runs_across_its_fan_out(tmp_path: Path) -> None:
    arch, work, mapping = (tmp_path / f"{name}.yaml" for name in ("arch", "work", "mapping"))
    array = "  - !Container\n    name: Array\n    spatial: [{name: X, fanout: 8}]\n  - !Compute\n"
    simple = (FILES / "simple.yaml").read_text()
    arch.write_text(simple.replace("  - !Compute\n", array))
    work.write_text(MATMULS)
    loop = "- !Spatial\n        rank_variable: m\n        tile_shape: 8\n        name: X\n      "
    first = "- !Temporal\n        rank_variable: m\n"
    mapping.write_text(MAPPING.replace(first, loop + first))
    lines = imported_answer(mapping, arch, 8, str(work)).splitlines()
    level = json.loads(lines[0])["mapping"][1]
    assert level["spatial"] == [["M", 8, "X"]]
    assert level["temporal"] == [["M", 8], ["N0", 32], ["N1", 32]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tile_shape: 1", "tile_shape: 7", r"tile_shape of m: expected a divisor of 64, got 7"),
        ("tile_shape: 1", "tile_shape: 2", r"loops over m end with tiles of 2; expected 1"),
        ("einsum: Matmul0", "einsum: Matmul7", r"one of the Einsums Matmul0, Matmul1, got Matmul7"),
        ("rank_variable: m", "rank_variable: z", r"expected a rank variable of m, n0, n1, got z"),
        ("[T0, W0, T1]", "[T0, W0, T9]", r"expected tensors of the workload \(T0, .*\), got T9"),
        ("!Temporal", "!Spatial", r"a !Spatial of m without a name"),
        ("!Temporal", "!Toll", r"expected one of !Storage, .*, got 'Toll'"),
        ("!Sequential", "!Nested", r"nodes\[1\]: expected !Compute or !Sequential as the last"),
        ("GlobalBuffer", "Cache", r"expected tensors .* in one of MainMemory, GlobalBuffer"),
        (
            "  - !Sequential",
            "  - !Storage\n    tensors: [T1]\n    component: GlobalBuffer\n  - !Sequential",
            r"nodes\[2\]: Einsums that share loops or a memory on the chip are fused",
        ),
        (
            "tile_shape: 1",
            "tile_shape: 1\n        initial_tile_shape: 2",
            r"nodes\[1\]\.initial_tile_shape: tiles of one loop have one shape",
        ),
    ],
)
def test_what_of_a_mapping_has_no_counterpart(
    old: str, new: str, message: str, matmuls: tuple[Path, Path]
) -> None:
    work, mapping = matmuls
    assert old in MAPPING
    mapping.write_text(MAPPING.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as raised:
        imported_answer(mapping, FILES / "simple.yaml", 8, str(work))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("fused_matvecs_to_simple_tiled", "share loops or a memory on the chip are fused"),
        ("unfused_matvecs_to_simple", "tensors of one memory are stored at different loops"),
        ("unfused_matmuls_to_simple", "a template"),
    ],
)
def test_its_own_mappings_are_refused_where_they_have_no_counterpart(
    file: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        imported_answer(
            FILES / f"{file}.yaml", FILES / "simple.yaml", 8, str(FILES / "matvecs.yaml")
        )
