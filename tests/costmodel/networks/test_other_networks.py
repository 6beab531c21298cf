"""Networks of MAESTRO's and ZigZag's own files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from costmodel.maestro.dataflow_layers import (
    layer_of_workload,
    read_maestro_network,
    workload_content,
)
from costmodel.maestro.dataflow_text import network_lines, parse_network
from costmodel.networks.network import load_network
from costmodel.networks.network_files import network_text
from costmodel.problems.workloads import network, network_names, workload
from costmodel.zigzag.workload import read_zigzag_network
from mapspace.errors import ConfigError

MAESTRO = ROOT / "tests" / "golden" / "maestro-imports"
ZIGZAG = ROOT / "tests" / "golden" / "zigzag-imports"

# Layers, and multiply-accumulates: Dimensions and strides summed up by a script of its own.
NETWORKS = {
    "vgg16_model.m": (13, 13_884_537_600),
    "MobileNetV2_model.m": (56, 504_847_792),
    "Resnet50_model.m": (66, 3_076_901_568),
    "gnmt_model.m": (9, 24_427_626_496),
    "Transformer_Layers.m": (6, 404_750_336),
    "GEMM_Example.m": (1, 100**3),
    "example.m": (1, 64 * 128 * 9 * 222**2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_maestro(name: str, tmp_path: Path) -> None:
    read = read_maestro_network(MAESTRO / name)
    assert (len(read.layers), read.macs) == NETWORKS[name]
    file = tmp_path / "network.yaml"
    file.write_text(network_text(read))
    found, layers = load_network(str(file))
    assert found == read.name
    assert sum(layer.macs * count for layer, count in layers) == read.macs


def test_layers_of_another_meaning_are_refused_or_left_out() -> None:
    with pytest.raises(ConfigError, match=r"UNet_model\.m: TRCONV1: Type: TRCONV is not read"):
        read_maestro_network(MAESTRO / "UNet_model.m")
    read = read_maestro_network(MAESTRO / "UNet_model.m", lenient=True)
    assert (len(read.layers), len(read.left_out)) == (19, 4)


def test_a_layer_counted_by_hand() -> None:
    text = """Constant Rows 9; // of the input
    Network { Layer A { Type: CONV Stride {X: 2, Y 2} Dimensions {K 8, C: 3 R:3 S:1, Y:Rows,X:8}
    Dataflow { SpatialMap(1,1) K; } } }"""
    (layer,) = parse_network(text, "a.m").layers
    sizes = {"N": 1, "K": 8, "C": 3, "P": 4, "Q": 4, "R": 1, "S": 3}
    assert workload_content(layer) == {"cnn": {**sizes, "stride": 2}}
    uneven = parse_network(text.replace("Y 2}", "Y 1}"), "a.m").layers[0]
    nest = workload(workload_content(uneven))
    assert nest.macs == 8 * 3 * 3 * 4 * 7
    assert nest.words(1) == 3 * 7 * 9


@pytest.mark.parametrize("name", [name for name in network_names() if name != "alexnet"])
def test_layers_written_are_read_as_they_were(name: str) -> None:
    layers = tuple(layer_of_workload(found) for found, _ in network(name))
    text = network_lines(name, layers)
    read = parse_network(text, "again.m")
    assert network_lines(read.name, read.layers) == text
    for layer, (found, _) in zip(read.layers, network(name), strict=True):
        assert workload(workload_content(layer)).hash == found.hash


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("alexnet-conv2_grouped", "no groups of several channels; got groups=2 of K=128, C=48"),
        ("mttkrp:I=2,J=2,K=2,L=2", "this is of family mttkrp"),
        ("cnn:N=1,K=2,C=2,P=4,Q=4,R=3,S=3,dilation=2", "no dilation; got 2"),
    ],
)
def test_layers_that_maestro_has_not(layer: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        layer_of_workload(workload(layer))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.m:1: no Network"),
        ("num_pes: 256", "a.m:1: expected Network or Constant, got 'num_pes'"),
        ("Network A {\nLayer B {\nType: FC }}", "a.m:3: expected CONV or .*, got 'FC'"),
        ("Network A { Layer B { Type: CONV", "a.m:1: the file ends; expected"),
        ("Network A { Layer B { Type: CONV Dimensions { K: 0 } } }", r"a.m:1: Dimensions.K: .*'0'"),
        ("Network A { Layer B { Type: CONV Dimensions { K: 1 K: 1 } } }", "K is given twice"),
        ("Network A { Layer B { Type: CONV Dimensions { K: 1, Z: 1 } } }", "got 'Z'"),
        ("Network A { Layer B { Type: GEMM } }", "B: expected Type and Dimensions"),
        ("Network A { Layer B { Dimensions { K: 1 } Stride { X: 2 } } }", "before Dimensions"),
        ("Network A { } Network B { }", "a second Network"),
        ("Network A { Layer B { Dimensions { K: 1 } Dataflow { SpatialMap(Sz(C),1) K } } }", "Sz"),
    ],
)
def test_bad_files_of_maestro(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_network(text, "a.m")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("K: 1, C: 1, R: 3, S: 3, Y: 2, X: 4", r"Dimensions\.Y: expected at least R = 3, got 2"),
        ("K: 1, C: 1, R: 3, S: 3, Y: 4", "expected either X or X'"),
        ("K: 1, R: 3, S: 3, Y: 4, X: 4", r"Dimensions\.C is missing"),
        ("G: 2, K: 1, C: 1, R: 3, S: 3, Y: 4, X: 4", r"Dimensions\.G: a CONV has none"),
    ],
)
def test_layers_that_are_none(sizes: str, message: str) -> None:
    text = f"Network A {{ Layer B {{ Type: CONV Dimensions {{ {sizes} }} }} }}"
    with pytest.raises(ConfigError, match=message):
        workload_content(parse_network(text, "a.m").layers[0])


WORDS = ("Network", "Layer", "Type", "CONV", "Dimensions", "Dataflow", "Stride", "Constant", "Sz")
MORE_WORDS = ("SpatialMap", "Cluster", "P", "K", "X'", "0", "7", "-1", "//x\n", "{", "}", "", "\0")
WHOLE = """Network N { Layer A { Type: CONV Stride { X: 1, Y: 1 } Dimensions { K: 4, C: 2, R: 1,
S: 1, Y: 3, X: 3 } Dataflow { SpatialMap(1,1) K; TemporalMap(Sz(C),2) C; Cluster(2,P); } } }"""


@given(st.dictionaries(st.integers(0, 80), st.sampled_from((*WORDS, *MORE_WORDS)), max_size=3))
def test_any_words_are_a_network_or_one_line(changes: dict[int, str]) -> None:
    words = re.findall(r"\w+|[{}]", WHOLE)
    text = " ".join(changes.get(place, word) for place, word in enumerate(words))
    try:
        layers = parse_network(text, "a.m").layers
    except ConfigError as error:
        problem = str(error)
    else:
        again = parse_network(network_lines("N", layers), "a.m").layers
        assert [layer.dataflow for layer in again] == [layer.dataflow for layer in layers]
        problem = "a.m:"
    assert problem.startswith("a.m:")
    assert "\n" not in problem


def test_networks_of_zigzag() -> None:
    """Its ResNet18 has 3 x 3 filters where it downsamples; additions and pooling multiply none."""
    read = read_zigzag_network(ZIGZAG / "resnet18.yaml")
    shapes = (64 * 3 * 112**2 * 49, 4 * 64**2 * 56**2 * 9, 1000 * 512)
    stages = [(128, 28), (256, 14), (512, 7)]
    halved = [k * k * p * p * 9 * 3 + 2 * k * (k // 2) * p * p * 9 for k, p in stages]
    assert (len(read.layers), read.macs) == (21, sum(shapes) + sum(halved))
    assert len(read.without_macs) == 10
    # The window of 3 at a stride of 2 over 56 outputs reaches over 113 pixels.
    assert read.without_macs[0] == f"layer1 (Pooling) moves {64 * (113**2 + 56**2):,} words"
    assert read.without_macs[1] == f"layer4 (Add) moves {3 * 64 * 56**2:,} words"
    assert [text.rpartition(" ")[2] for text in read.unused] == [
        "operand_precision",
        "operand_source",
    ]
    product = read_zigzag_network(ZIGZAG / "gemm_layer.yaml")
    assert product.layers[0].content == {"gemm": {"M": 128, "N": 128, "K": 128}}
    early, late = read_zigzag_network(ZIGZAG / "early_late_conv.yaml").layers
    assert workload(early.content).macs == workload(late.content).macs == 64**2 * 56**2 * 9


LAYER = """- id: 0
  operator_type: Conv
  equation: O[b][g][oy][ox]+=W[g][fy][fx]*I[b][g][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=2*oy+1*fy]
  loop_dims: [B, G, OY, OX, FY, FX]
  loop_sizes: [1, 32, 7, 7, 3, 3]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
"""


def test_depthwise_and_unnamed_operations_of_zigzag(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(LAYER)
    (layer,) = read_zigzag_network(file).layers
    sizes = {"N": 1, "K": 1, "C": 1, "P": 7, "Q": 7, "R": 3, "S": 3}
    assert layer.content == {"cnn": {**sizes, "stride": 2, "groups": 32}}
    file.write_text(LAYER.replace("iy=2*oy+1*fy", "iy=1*oy+1*fy"))
    (layer,) = read_zigzag_network(file).layers
    assert str(workload({"name": "one", **layer.content})) == (
        "one: B=1 G=32 OY=7 OX=7 FY=3 FX=3: "
        "O[B, G, OY, OX] += W[G, FY, FX] x I[B, G, OY + FY, 2*OX + FX]"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- id: 0", "id: 0", "one.yaml"),
        ("operator_type: Conv", "operator_type: LSTM", r"layers\[0\]\.operator_type: .*'LSTM'"),
        ("loop_sizes: [1, 32,", "loop_sizes: [1,", r"layers\[0\]\.loop_sizes: expected 6"),
        (
            "loop_sizes: [1, 32,",
            "loop_sizes: [1, 0,",
            r"loop_sizes\[1\]: expected at least 1, got 0",
        ),
        ("W[g]", "W[z]", "W has the index 'z'"),
        ("O[b]", "P[b]", r"layers\[0\]\.equation: expected such as"),
        ("ix=2*ox+1*fx", "ix=2*ox", r"dimension_relations: expected such as ix=2\*ox\+1\*fx"),
        ("[B, G,", "[B, B,", "a loop is given twice"),
        ("loop_dims", "loop_dim", "unknown key; did you mean loop_dims"),
        ("  operand_precision", "\toperand_precision", "line 7: a tab; YAML wants spaces"),
        ("operator_type: Conv", "operator_type: Add", "no layer has multiply-accumulates"),
    ],
)
def test_bad_files_of_zigzag(old: str, new: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    assert old in LAYER
    file.write_text(LAYER.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as raised:
        network_text(read_zigzag_network(file))
    assert "\n" not in str(raised.value)
