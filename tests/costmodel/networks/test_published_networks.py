"""Networks by their published shapes: parameters, multiply-accumulates, words, and their names."""

from __future__ import annotations

import pytest
from commands import call

from costmodel.networks.network import load_network, words_without_macs
from costmodel.networks.published_networks import PUBLISHED, dlrm, published_network, unet


def macs(name: str) -> int:
    return sum(layer.macs * count for layer, count in load_network(name)[1])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # As torchvision publishes them with its weights, normalisation included.
        ("mobilenetv3-large", 5_483_032),
        ("efficientnet-b0", 5_288_548),
    ],
)
def test_parameters_are_those_published(name: str, parameters: int) -> None:
    assert PUBLISHED[name]().parameters == parameters


def test_multiply_accumulates_are_those_published() -> None:
    # The papers: 219 M and 0.39 G; torchvision: 0.22 G and 0.39 G.
    assert macs("mobilenetv3-large") == pytest.approx(219e6, rel=0.012)
    assert macs("efficientnet-b0") == pytest.approx(0.39e9, rel=0.012)


def test_unet_has_the_layers_and_sizes_of_the_paper() -> None:
    layers = dict(unet().layers)
    assert len(layers) == 23  # "in total the network has 23 convolutional layers"
    assert layers["down1-1"]["cnn"]["P"] == 570
    assert layers["down5-2"]["cnn"]["P"] == 28
    assert layers["up4"]["cnn"] == {"N": 1, "K": 2048, "C": 1024, "P": 28, "Q": 28, "R": 1, "S": 1}
    assert layers["classes"]["cnn"]["P"] == 388


def test_unet_has_the_parameters_of_a_published_implementation() -> None:
    """31,031,685: Keras's summary of the U-Net of zhixuhao, which ends with two more layers.

    In place of the paper's classes of 64 x 2 weights it has a window of 3 to two channels and one
    weight of each of these to the only class; up-convolutions have as many weights.
    """
    classes = 64 * 2 + 2
    ends = (9 * 64 * 2 + 2) + (2 + 1)
    assert unet().parameters - classes + ends == 31_031_685


def test_dlrm_by_hand() -> None:
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = 479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert dlrm().parameters == bottom + top + biases
    assert macs("dlrm") == bottom + top + 27 * 27 * 128
    # 26 vectors read and written; 128 of the tower and 351 products, copied side by side.
    assert words_without_macs("dlrm")["look-up"].both == 2 * 26 * 128
    assert words_without_macs("dlrm")["copy"].both == 2 * (128 + 27 * 26 // 2)


def test_names_are_found_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert published_network("EfficientNet_B0") == published_network("efficientnet-b0")
    assert published_network("efficientnet") is None
    assert call("list", "networks") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in PUBLISHED)
