"""Published networks in plain PyTorch, for reading their layers: no weight has a value."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    pad = size // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, pad, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int, paper: bool) -> None:
        super().__init__()
        self.reduce = conv(inputs, width, 1, stride if paper else 1)
        self.middle = conv(width, width, 3, 1 if paper else stride)
        self.expand = conv(width, 4 * width, 1)
        project = stride != 1 or inputs != 4 * width
        self.shortcut = conv(inputs, 4 * width, 1, stride) if project else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.middle(self.reduce(x).relu()).relu()
        return (self.expand(y) + self.shortcut(x)).relu()


def resnet50(*, paper: bool) -> nn.Module:
    """He et al. (2015); not `paper`: the 3 x 3 layer has the stride, as in torchvision."""
    blocks: list[nn.Module] = []
    inputs = 64
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(depth):
            stride = 2 if index == 0 and width > 64 else 1
            blocks.append(Bottleneck(inputs, width, stride, paper))
            inputs = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, *head)


class Inverted(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        width = inputs * factor
        self.expand = conv(inputs, width, 1) if factor > 1 else nn.Identity()
        self.depthwise = conv(width, width, 3, stride, width)
        self.project = conv(width, outputs, 1)
        self.skip = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self.depthwise(functional.relu6(self.expand(x))))
        return x + self.project(y) if self.skip else self.project(y)


def mobilenetv2() -> nn.Module:
    """Sandler et al. (2018), width 1."""
    rows = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)
    rows += (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    blocks: list[nn.Module] = []
    inputs = 32
    for factor, outputs, depth, first in rows:
        for index in range(depth):
            blocks.append(Inverted(inputs, outputs, first if index == 0 else 1, factor))
            inputs = outputs
    head = [conv(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(conv(3, 32, 3, 2), *blocks, *head)


class Encoder(nn.Module):
    """A layer of a transformer, its norms before or after."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(self.second(x))))


class ViT(nn.Module):
    """ViT-B/16: Dosovitskiy et al. (2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.empty(1, 1, 768))
        self.position = nn.Parameter(torch.empty(1, 197, 768))
        self.blocks = nn.Sequential(*(Encoder(768, 12, 3072) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1) + self.position
        return self.head(self.norm(self.blocks(y))[:, 0])


class Bert(nn.Module):
    """BERT-base: Devlin et al. (2018), with the pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30522, 768), nn.Embedding(512, 768)
        self.blocks = nn.Sequential(*(Encoder(768, 12, 3072) for _ in range(12)))
        self.pooler = nn.Linear(768, 768)

    def forward(self, x: Tensor) -> Tensor:
        y = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return torch.tanh(self.pooler(self.blocks(y)[:, 0]))


class Llama(nn.Module):
    """A block of Llama 3 8B: 32 heads of queries share 8 of keys and values."""

    def __init__(self, width: int = 4096, heads: int = 32, shared: int = 8) -> None:
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, width // heads
        self.norm = nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, shared * self.depth, bias=False)
        self.v = nn.Linear(width, shared * self.depth, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 14336, bias=False)
        self.up = nn.Linear(width, 14336, bias=False)
        self.down = nn.Linear(14336, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (
            part.unflatten(-1, (-1, self.depth)).transpose(1, 2)
            for part in (self.q(y), self.k(y), self.v(y))
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))
