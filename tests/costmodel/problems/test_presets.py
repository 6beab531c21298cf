"""Preset workloads: the papers' problems and every convolution of four networks."""

from __future__ import annotations

import itertools

import pytest

from costmodel.problems.workloads import cnn, network, network_names, workload, workload_names
from mapspace.errors import ConfigError

TABLE_1 = {
    "resnet-conv3": {"N": 16, "K": 128, "C": 128, "P": 28, "Q": 28, "R": 3, "S": 3},
    "resnet-conv4": {"N": 16, "K": 256, "C": 256, "P": 14, "Q": 14, "R": 3, "S": 3},
    "inception-conv2": {"N": 32, "K": 192, "C": 192, "P": 56, "Q": 56, "R": 3, "S": 3},
    "vgg-conv2": {"N": 16, "K": 128, "C": 64, "P": 112, "Q": 112, "R": 3, "S": 3},
    "alexnet-conv2": {"N": 8, "K": 256, "C": 96, "P": 27, "Q": 27, "R": 5, "S": 5},
    "alexnet-conv4": {"N": 8, "K": 384, "C": 384, "P": 13, "Q": 13, "R": 3, "S": 3},
    "mttkrp-0": {"I": 128, "J": 1024, "K": 4096, "L": 2048},
    "mttkrp-1": {"I": 2048, "J": 4096, "K": 1024, "L": 128},
}


@pytest.mark.parametrize("name", TABLE_1)
def test_table_1(name: str) -> None:
    assert workload(name).dimensions == TABLE_1[name]


def test_the_released_inception_differs_by_its_channels() -> None:
    assert workload("inception-conv2-c64").dimensions == {**TABLE_1["inception-conv2"], "C": 64}


@pytest.mark.parametrize("size", [512, 1024, 2048])
def test_gemms(size: int) -> None:
    assert workload(f"gemm-{size}").dimensions == {"M": size, "N": size, "K": size}


# Kind, K, C, R, P, stride of Marvel's Table 3; every layer is square.
MARVEL = {
    1: ("addition", 1, 16, 1, 112, 1),
    2: ("depthwise", 1, 32, 3, 110, 1),
    3: ("depthwise", 1, 192, 3, 12, 1),
    4: ("depthwise", 1, 576, 3, 5, 1),
    5: ("regular", 16, 32, 1, 112, 1),
    6: ("regular", 32, 32, 1, 224, 2),
    7: ("regular", 1000, 1280, 1, 1, 1),
    8: ("regular", 64, 64, 3, 54, 1),
    9: ("regular", 512, 512, 3, 5, 1),
    10: ("addition", 1, 2048, 1, 7, 1),
    11: ("regular", 64, 64, 1, 56, 1),
    12: ("regular", 128, 256, 1, 28, 1),
    13: ("regular", 2048, 512, 1, 7, 1),
    14: ("regular", 512, 1024, 1, 7, 2),
    15: ("regular", 1000, 2048, 7, 1, 1),
}


@pytest.mark.parametrize("row", MARVEL)
def test_marvel(row: int) -> None:
    kind, outputs, channels, filter_size, size, stride = MARVEL[row]
    found = workload(f"marvel-l{row}")
    assert found.macs == outputs * channels * filter_size**2 * size**2
    if kind == "addition":
        assert found.dimensions == {"C": channels, "P": size, "Q": size}
        assert [str(tensor) for tensor in found.tensors] == [
            "Inputs[C, P, Q]",
            "Residual[C, P, Q]",
            "Outputs[C, P, Q]",
        ]
        return
    groups = channels if kind == "depthwise" else 1
    square = {"P": size, "Q": size, "R": filter_size, "S": filter_size}
    same = cnn(N=1, K=outputs, C=channels // groups, **square, stride=stride, groups=groups)
    assert found.hash == same.hash


def test_networks_have_their_published_multiply_accumulates() -> None:
    # Convolutions only: the published totals less the fully connected layers.
    expected = {
        "alexnet": (5, 665_784_864),
        "mobilenetv2": (52, 300_774_272 - 1_280_000),
        "resnet50": (53, 3_857_973_248 - 2_048_000),
        "vgg16": (13, 15_470_264_320 - 123_633_664),
    }
    assert set(network_names()) == set(expected)
    for name, (count, macs) in expected.items():
        layers = network(name)
        assert sum(times for _, times in layers) == count
        assert sum(layer.macs * times for layer, times in layers) == macs


@pytest.mark.parametrize(
    ("name", "published", "per_channel", "fully_connected"),
    [
        # With a bias per channel. Of the paper's two groups, as Caffe has it; torchvision's
        # `alexnet` (61,100,840) is another network, with other widths and no groups.
        ("alexnet", 60_965_224, 1, (9216, 4096, 4096, 1000)),
        ("vgg16", 138_357_544, 1, (25088, 4096, 4096, 1000)),
        # Without biases, with two numbers of batch normalisation per channel; torchvision's.
        ("resnet50", 25_557_032, 2, (2048, 1000)),
        ("mobilenetv2", 3_504_872, 2, (1280, 1000)),
    ],
)
def test_networks_have_their_published_parameters(
    name: str, published: int, per_channel: int, fully_connected: tuple[int, ...]
) -> None:
    """The presets hold convolutions alone: the rest of the total is what they leave out."""
    convolutions = left_out = 0
    for layer, times in network(name):
        sizes = layer.dimensions
        channels = sizes["K"] * sizes.get("G", 1)
        convolutions += times * channels * sizes["C"] * sizes["R"] * sizes["S"]
        left_out += times * per_channel * channels
    for inputs, outputs in itertools.pairwise(fully_connected):
        left_out += inputs * outputs + outputs
    assert convolutions + left_out == published


@pytest.mark.parametrize("name", network_names())
def test_layers_of_a_network_are_distinct_and_presets(name: str) -> None:
    layers = network(name)
    assert len({layer.hash for layer, _ in layers}) == len(layers)
    for layer, _ in layers:
        assert layer.name.startswith(f"{name}-")
        assert workload(layer.name) == layer


@pytest.mark.parametrize("name", network_names())
def test_channels_flow_through_a_network(name: str) -> None:
    """Every layer reads as many channels as some earlier layer (or the image) writes."""
    written_channels = {3}
    for layer, _ in network(name):
        groups = layer.dimensions.get("G", 1)
        assert layer.dimensions["C"] * groups in written_channels, layer
        written_channels.add(layer.dimensions["K"] * groups)


def test_strided_layers_of_the_networks() -> None:
    # A multiply-accumulate count does not see a stride, the words of the inputs do.
    strided = {
        layer.name: layer.tensors[1].axes[-1].terms[0][1]
        for name in network_names()
        for layer, _ in network(name)
        if layer.tensors[1].axes[-1].terms[0][1] > 1
    }
    stages = [f"resnet50-conv{stage}_1_{part}" for stage in (3, 4, 5) for part in ("1", "shortcut")]
    depthwise = [f"mobilenetv2-bottleneck{stage}_1_2" for stage in (2, 3, 4, 6)]
    halved = ["resnet50-conv1", *stages, "mobilenetv2-conv1", *depthwise]
    assert strided == {"alexnet-conv1": 4, **dict.fromkeys(halved, 2)}


def test_every_convolution_of_a_network_is_a_preset() -> None:
    names = workload_names()
    counts = {name: sum(times for _, times in network(name)) for name in network_names()}
    layers = [name for name in names if name.startswith(("vgg16-", "resnet50-", "mobilenetv2-"))]
    assert len(layers) == sum(counts.values()) - counts["alexnet"]
    assert workload("vgg16-conv5_3").hash == workload("vgg16-conv5_1").hash


def test_every_preset_is_found_in_any_spelling() -> None:
    names = workload_names()
    assert len(set(names)) == len(names)
    for name in names:
        assert workload(name).name == name
        assert workload(name.upper().replace("-", "_")).name == name


@pytest.mark.parametrize("spelling", ["ResNet_Conv_4", "resnet conv4", "RESNET-CONV-4"])
def test_spellings(spelling: str) -> None:
    assert workload(spelling).name == "resnet-conv4"


def test_unknown_network() -> None:
    assert network("VGG_16")[0][0].name == "vgg16-conv1_1"
    with pytest.raises(ConfigError, match=r"^Unknown network 'vgg19'; did you mean vgg16\? "):
        network("vgg19")


def test_unknown_workload_names_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"^Unknown workload 'resnet-conv9'; did you mean resn"
    ) as e:
        workload("resnet-conv9")
    assert "`mapspace list workloads`" in str(e.value)
    with pytest.raises(ConfigError, match=r"^Unknown workload 'zzzz'\. Expected a preset "):
        workload("zzzz")
