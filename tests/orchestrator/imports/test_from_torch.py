"""Networks of PyTorch: published totals, presets layer by layer, and forms counted by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_networks import Bert, Llama, ViT, mobilenetv2, resnet50

import mapspace as ms
from costmodel.networks.network import load_network
from costmodel.problems.workloads import network
from mapspace.errors import ConfigError
from orchestrator.imports.from_torch import from_torch
from orchestrator.imports.imported import ImportedNetwork

# 197 tokens; 196 patches of 16 x 16 x 3; twelve layers, each with two products of attention.
VIT = 196 * 768 * 768 + 12 * (197 * 768 * (4 * 768 + 2 * 3072) + 2 * 197 * 197 * 768) + 768 * 1000


def read(build: object, *shape: int, dtype: torch.dtype = torch.float32) -> ImportedNetwork:
    with torch.device("meta"):
        return from_torch(build().eval(), (torch.zeros(*shape, dtype=dtype),), name="network")  # type: ignore[operator]


def check_file(found: ImportedNetwork, folder: Path) -> None:
    found.save(folder / "network.yaml")
    assert load_network(str(folder / "network.yaml")) == (found.name, list(found.layers))


@pytest.mark.parametrize(
    ("preset", "build", "rest"),
    [("resnet50", lambda: resnet50(paper=True), 2048), ("mobilenetv2", mobilenetv2, 1280)],
)
def test_convolutions_are_the_presets(
    preset: str, build: object, rest: int, tmp_path: Path
) -> None:
    found = read(build, 1, 3, 224, 224)
    assert not found.unknown
    ours = Counter({layer.hash: count for layer, count in found.layers})
    theirs = Counter({layer.hash: count for layer, count in network(preset)})
    (head,) = (ours - theirs).elements()
    assert not theirs - ours
    assert next(layer for layer, _ in found.layers if layer.hash == head).macs == rest * 1000
    check_file(found, tmp_path)


@pytest.mark.parametrize(
    ("build", "shape", "dtype", "published", "macs"),
    [
        # torchvision/models/resnet.py, ResNet50_Weights: _ops 4.089.
        (lambda: resnet50(paper=False), (1, 3, 224, 224), torch.float32, 4.089e9, 4_089_184_256),
        # Sandler et al. (2018), table 4: 300 M multiply-adds.
        (mobilenetv2, (1, 3, 224, 224), torch.float32, 0.300e9, 300_774_272),
        # torchvision/models/vision_transformer.py, ViT_B_16_Weights: _ops 17.564.
        (ViT, (1, 3, 224, 224), torch.float32, 17.564e9, VIT),
        # By hand: twelve layers on 128 tokens, each with two products of attention, and the pooler.
        (
            Bert,
            (1, 128),
            torch.int64,
            None,
            12 * (128 * 768 * (4 * 768 + 2 * 3072) + 2 * 128 * 128 * 768) + 768 * 768,
        ),
        # Queries and output 4096 x 4096, keys and values 4096 x 1024, three of 4096 x 14336.
        (
            Llama,
            (1, 64, 4096),
            torch.float32,
            None,
            64 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 2 * 64 * 64 * 4096,
        ),
    ],
    ids=["resnet50", "mobilenetv2", "vit-b-16", "bert-base", "llama-3-8b-block"],
)
def test_totals_are_those_published(
    build: object,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    published: float | None,
    macs: int,
    tmp_path: Path,
) -> None:
    found = read(build, *shape, dtype=dtype)
    assert not found.unknown
    assert found.macs == macs
    assert published is None or macs == pytest.approx(published, rel=3e-3)
    check_file(found, tmp_path)


def test_heads_that_share_keys_are_rows_of_one_product() -> None:
    scores, context = (
        layer for layer, _ in read(Llama, 1, 64, 4096).layers if layer.family == "einsum"
    )
    assert scores.dimensions == {"H": 8, "M": 256, "N": 64, "K": 128}
    assert context.dimensions == {"H": 8, "M": 256, "N": 128, "K": 64}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "groups"),
    [(1, 1, 0, 1), (2, 1, 1, 1), (2, 2, 1, 2), (3, 2, 0, 1), (4, 6, 2, 2), (2, 3, 1, 1)],
)
def test_convolutions_of_all_forms(
    axes: int, stride: int, dilation: int, padding: int, groups: int
) -> None:
    plain, transposed = (
        getattr(nn, f"Conv{kind}{axes}d")(
            4, 6, 3, stride=stride, dilation=dilation, padding=padding, groups=groups
        )
        for kind in ("", "Transpose")
    )
    size = 15 if axes < 3 else 14
    source = torch.zeros(2, 4, *(size,) * axes)
    made = plain(source)
    found = from_torch(plain, (source,))
    assert found.macs == made.numel() * 4 // groups * 3**axes
    # Of a transposed one: which taps reach every output, border or not, counted one by one.
    length = transposed(source).shape[2]
    reached = sum(
        (place + padding - dilation * tap) % stride == 0
        for place in range(length)
        for tap in range(3)
    )
    assert from_torch(transposed, (source,)).macs == 2 * 6 * 4 // groups * reached**axes


def test_phases_of_a_transposed_convolution_by_hand() -> None:
    found = from_torch(nn.ConvTranspose2d(8, 4, 4, 2, 1), (torch.zeros(1, 8, 5, 5),))
    ((layer, count),) = found.layers
    sizes = {"N": 1, "K": 4, "C": 8, "P": 5, "Q": 5, "R": 2, "S": 2}
    assert (count, layer.family, layer.dimensions) == (4, "cnn", sizes)


def test_taps_of_a_dilated_transposed_convolution_by_hand() -> None:
    # Taps reach outputs 2i, 2i + 3 and 2i + 6: even outputs meet the first and the third, whose
    # inputs lie 3 apart; odd ones the second.
    module = nn.ConvTranspose1d(4, 6, 3, stride=2, dilation=3)
    (even, _), (odd, _) = from_torch(module, (torch.zeros(1, 4, 5),)).layers
    assert str(even.tensors[1]) == "Inputs[N, C, P + 3*R]"
    assert (even.dimensions["P"], even.dimensions["R"]) == (8, 2)
    assert (odd.dimensions["P"], odd.dimensions["R"]) == (7, 1)


def test_taps_under_a_stride_that_the_dilation_shares_by_hand() -> None:
    # Taps reach outputs 2i, 2i + 2 and 2i + 4: even outputs alone, from inputs side by side.
    module = nn.ConvTranspose1d(4, 6, 3, stride=2, dilation=2)
    ((layer, count),) = from_torch(module, (torch.zeros(1, 4, 5),)).layers
    assert str(layer.tensors[1]) == "Inputs[N, C, P + R]"
    assert (count, layer.dimensions["P"], layer.dimensions["R"]) == (1, 7, 3)


class Moves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.table(x).relu()
        y = torch.einsum("bij,bkj->bik", y, y) @ y
        return torch.linalg.inv(y.transpose(0, 1).transpose(0, 1)[:, :, :4]) @ y


def test_what_multiplies_nothing_and_what_is_not_known(tmp_path: Path) -> None:
    inputs = (torch.zeros(2, 4, dtype=torch.long),)
    found = from_torch(Moves(), inputs, name="moves", skip_unknown=True)
    words = {node.operator.partition(".")[0]: node.words for node in found.moved}
    # 8 indices, 64 words read, 64 written; a relu reads and writes 64; views none.
    assert (words["embedding"], words["relu"], words["transpose"]) == (136, 128, 0)
    assert [node.node for node in found.unknown] == ["linalg_inv"]
    assert "# left out: linalg_inv (linalg_inv.default): no rule" in found.to_yaml()
    assert found.macs == 3 * 2 * 4 * 4 * 8
    with pytest.raises(ConfigError, match=r"moves: unknown operators: linalg_inv .*with skip_unk"):
        from_torch(Moves(), inputs, name="moves")
    result = ms.search_network(found)
    for text in (str(result), result.picture()):
        assert "left out" in text
        assert "linalg_inv (linalg_inv.default): no rule for this operator" in text
    found.save(tmp_path / "moves.yaml")
    for answer in (result, ms.search_network(tmp_path / "moves.yaml")):
        entry = answer.to_dict()
        assert [line.partition(" ")[0] for line in entry["left_out"]] == ["linalg_inv"]
        assert entry["totals"] is not None
        assert not entry["totals"]["complete"]
        assert entry["totals"]["left_out"] == 1
    with pytest.raises(ConfigError, match=r"jointly: expected a whole network; left out: linalg"):
        ms.search_network(tmp_path / "moves.yaml", jointly=True)


def test_dynamic_shapes_and_untraceable_modules_are_refused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    open_batch = {"input": {0: torch.export.Dim("rows", min=2, max=9)}}
    inputs = (torch.zeros(4, 8),)
    program = torch.export.export(nn.Linear(8, 2), inputs, dynamic_shapes=open_batch)
    with pytest.raises(ConfigError, match="dynamic shape: axis 0 of input is "):
        from_torch(program)
    with pytest.raises(ConfigError, match=r"^Linear: torch.export cannot trace it: [^\n]*$"):
        from_torch(nn.Linear(8, 2), (torch.zeros(4, 3),))
    assert capfd.readouterr().err == ""  # torch logs a traceback of its own
    with pytest.raises(ConfigError, match=r"expected a torch\.nn\.Module"):
        from_torch("model.pt")
    with pytest.raises(ConfigError, match="no node has multiply-accumulates"):
        from_torch(nn.ReLU(), inputs)


@pytest.mark.parametrize("seed", range(5))
def test_products_are_numpys(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = (
        [int(n) for n in random.integers(2, 5, 3)],
        [int(n) for n in random.integers(2, 5, 3)],
    )
    right[1], right[0] = left[2], random.choice([1, left[0]])

    class Multiply(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a @ b

    inputs = torch.zeros(*left), torch.zeros(*map(int, right))
    found = from_torch(Multiply(), inputs)
    assert found.macs == (inputs[0] @ inputs[1]).numel() * left[2]


def test_a_network_that_was_read_is_searched() -> None:
    found = read(lambda: nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)), 2, 8)
    result = ms.search_network(found)
    assert [layer.workload.macs for layer in result.layers] == [256, 128]
    assert result.network == "network"
