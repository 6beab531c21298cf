"""Networks by their published shapes: two mobile classifiers, a segmenter, a recommender.

`mobilenetv3-large`, `efficientnet-b0`, `unet` and `dlrm`, each for one image or one sample. What
multiplies nothing (pooling, scaling by squeeze-and-excite, activations, additions, copies of
skipped tensors, look-ups) is in no layer's costs; `PublishedNetwork.moved` says the words it reads
and writes. Batch normalisation is folded into weights, as it is where networks are run;
`parameters` counts its two numbers per channel, as published totals do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from costmodel.networks.moves import Words
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload

Layers = list[tuple[Workload, int]]


@dataclass
class PublishedNetwork:
    """A network in the making.

    Attributes:
        source: where the shapes are published.
        layers: each layer's name and content, in the order of the network.
        parameters: weights, biases and two numbers per normalised channel.
        moved: words that operators without multiply-accumulates read and write.
    """

    source: str
    layers: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    parameters: int = 0
    moved: dict[str, Words] = field(default_factory=dict)

    def move(self, operator: str, reads: int, writes: int) -> None:
        """Counts what an operator without multiply-accumulates reads and writes."""
        before = self.moved.get(operator, Words(0, 0))
        self.moved[operator] = Words(before.reads + reads, before.writes + writes)

    def conv(
        self,
        name: str,
        channels: int,
        inputs: int,
        size: int,
        window: int = 1,
        *,
        stride: int = 1,
        normalised: bool = True,
        active: bool = True,
    ) -> None:
        """A convolution with a square output of `size`; with a bias where it is not normalised.

        Without inputs (0) it is depthwise: every channel is made of its namesake alone.
        """
        depthwise = inputs == 0
        k, c = (1, 1) if depthwise else (channels, inputs)
        sizes = {"N": 1, "K": k, "C": c, "P": size, "Q": size, "R": window, "S": window}
        more = {"stride": stride, **({"groups": channels} if depthwise else {})}
        self.layers.append((name, {"cnn": {**sizes, **more}}))
        self.parameters += window**2 * (channels if depthwise else channels * inputs)
        self.parameters += (2 if normalised else 1) * channels
        if active:
            self.move("activation", channels * size**2, channels * size**2)

    def linear(self, name: str, outputs: int, inputs: int) -> None:
        """A fully connected layer with a bias."""
        self.layers.append((name, {"gemm": {"M": 1, "N": outputs, "K": inputs}}))
        self.parameters += outputs * inputs + outputs

    def squeeze(self, name: str, channels: int, inner: int, size: int) -> None:
        """Squeeze-and-excite: the mean of every channel, two layers, and a factor per channel."""
        self.move("pooling", channels * size**2, channels)
        self.linear(f"{name}-squeeze", inner, channels)
        self.linear(f"{name}-excite", channels, inner)
        self.move("activation", inner + channels, inner + channels)
        self.move("scaling", channels * size**2 + channels, channels * size**2)

    def inverted(
        self,
        name: str,
        channels: int,
        inputs: int,
        inner: int,
        size: int,
        window: int,
        *,
        stride: int,
        squeezed: int,
    ) -> None:
        """An inverted residual block with an output of `size`; squeezed: channels, 0: without."""
        if inner != inputs:
            self.conv(f"{name}-expand", inner, inputs, size * stride)
        self.conv(f"{name}-depthwise", inner, 0, size, window, stride=stride)
        if squeezed:
            self.squeeze(name, inner, squeezed, size)
        self.conv(f"{name}-project", channels, inner, size, active=False)
        if stride == 1 and channels == inputs:
            self.move("addition", 2 * channels * size**2, channels * size**2)


# window, inner channels, outputs, squeeze-and-excite, stride
_MOBILENET_V3 = (
    (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2),
    (5, 120, 40, 1, 1), (5, 120, 40, 1, 1), (3, 240, 80, 0, 2), (3, 200, 80, 0, 1),
    (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1), (3, 672, 112, 1, 1),
    (5, 672, 160, 1, 2), (5, 960, 160, 1, 1), (5, 960, 160, 1, 1),
)  # fmt: skip
# expansion, window, stride, outputs, repetitions
_EFFICIENTNET_B0 = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip


def _eighths(number: float) -> int:
    """The multiple of eight next to a number, at least nine tenths of it: the papers' rounding."""
    found = max(8, int(number + 4) // 8 * 8)
    return found + 8 if found < 0.9 * number else found


def mobilenet_v3() -> PublishedNetwork:
    """MobileNetV3-Large."""
    net = PublishedNetwork("Howard et al., Searching for MobileNetV3, ICCV 2019, table 1")
    net.conv("stem", 16, 3, 112, 3, stride=2)
    inputs, size = 16, 112
    for number, (window, inner, outputs, squeezed, stride) in enumerate(_MOBILENET_V3, start=1):
        size //= stride
        within = _eighths(inner / 4) if squeezed else 0
        net.inverted(
            f"block{number}", outputs, inputs, inner, size, window, stride=stride, squeezed=within
        )
        inputs = outputs
    net.conv("head", 960, 160, 7)
    net.move("pooling", 960 * 49, 960)
    net.linear("features", 1280, 960)
    net.move("activation", 1280, 1280)
    net.linear("classifier", 1000, 1280)
    return net


def efficientnet_b0() -> PublishedNetwork:
    """EfficientNet-B0."""
    net = PublishedNetwork("Tan and Le, EfficientNet, ICML 2019, table 1")
    net.conv("stem", 32, 3, 112, 3, stride=2)
    inputs, size, number = 32, 112, 0
    for expansion, window, first, outputs, repetitions in _EFFICIENTNET_B0:
        for repetition in range(repetitions):
            number += 1
            stride = first if repetition == 0 else 1
            size //= stride
            inner, within = expansion * inputs, inputs // 4
            net.inverted(
                f"block{number}", outputs, inputs, inner, size, window,
                stride=stride, squeezed=within,
            )  # fmt: skip
            inputs = outputs
    net.conv("head", 1280, 320, 7)
    net.move("pooling", 1280 * 49, 1280)
    net.linear("classifier", 1000, 1280)
    return net


def unet() -> PublishedNetwork:
    """U-Net: convolutions without padding, and every up-convolution as the one tap it has."""
    net = PublishedNetwork("Ronneberger et al., U-Net, MICCAI 2015, figure 1")
    inputs, size = 1, 572
    skipped = []
    for depth, channels in enumerate((64, 128, 256, 512, 1024), start=1):
        for half in (1, 2):
            size -= 2
            net.conv(f"down{depth}-{half}", channels, inputs, size, 3, normalised=False)
            inputs = channels
        if channels < 1024:
            skipped.append(channels)
            net.move("pooling", channels * size**2, channels * (size // 2) ** 2)
            size //= 2
    for depth, channels in reversed(list(enumerate(skipped, start=1))):
        # Stride 2 and a window of 2: an output has one tap, so it is a layer of 4 x as many.
        shape = {"N": 1, "K": 4 * channels, "C": inputs, "P": size, "Q": size, "R": 1, "S": 1}
        net.layers.append((f"up{depth}", {"cnn": shape}))
        net.parameters += 4 * channels * inputs + channels
        size *= 2
        net.move("copy", channels * size**2, channels * size**2)
        for half in (1, 2):
            size -= 2
            inside = 2 * channels if half == 1 else channels
            net.conv(f"up{depth}-{half}", channels, inside, size, 3, normalised=False)
        inputs = channels
    net.conv("classes", 2, 64, size, normalised=False, active=False)
    return net


def dlrm() -> PublishedNetwork:
    """DLRM as MLPerf trains it: 26 embeddings of 128 numbers, whose tables do not count here."""
    net = PublishedNetwork("Naumov et al., DLRM, 2019; sizes of MLPerf's reference for Criteo 1 TB")
    towers = {"bottom": (13, 512, 256, 128), "top": (479, 1024, 1024, 512, 256, 1)}
    for tower, widths in towers.items():
        for number, (inputs, outputs) in enumerate(itertools.pairwise(widths), start=1):
            net.linear(f"{tower}{number}", outputs, inputs)
            net.move("activation", outputs, outputs)
        if tower == "bottom":
            net.move("look-up", 26 * 128, 26 * 128)
            net.layers.append(("interaction", {"gemm": {"M": 27, "N": 27, "K": 128}}))
            net.move("copy", 479, 479)
    return net


PUBLISHED: Mapping[str, Callable[[], PublishedNetwork]] = {
    "mobilenetv3-large": mobilenet_v3,
    "efficientnet-b0": efficientnet_b0,
    "unet": unet,
    "dlrm": dlrm,
}
"""By name; parameters and multiply-accumulates are held against published totals in a test."""


def _key(source: str) -> str:
    return source.strip().lower().replace("_", "-")


def published_network(source: str) -> tuple[str, Layers] | None:
    """Name and distinct layers, each with how often it occurs; None: no network of that name."""
    name = _key(source)
    if name not in PUBLISHED:
        return None
    found: dict[str, tuple[Workload, int]] = {}
    for layer, content in PUBLISHED[name]().layers:
        work = workload(content).model_copy(update={"name": f"{name}-{layer}"})
        first, times = found.get(work.hash, (work, 0))
        found[work.hash] = first, times + 1
    return name, list(found.values())


def moved_words(source: str) -> dict[str, Words]:
    """Words that a network's operators without multiply-accumulates move; none where unknown."""
    name = _key(source)
    return dict(PUBLISHED[name]().moved) if name in PUBLISHED else {}
