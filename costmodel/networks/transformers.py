"""Transformers by their published shapes: the matrix products of a prefill or of one decoded token.

`bert-base:sequence=512`, `llama3-8b:phase=decode,sequence=2048,batch=4`. Attention is its two
batched products, keys and values shared by groups of heads where the model shares them. Softmax,
normalisation, activations and additions multiply nothing: `Transformer.moved_words` says the words
that they move, which are in no layer's costs. Masked scores are counted like all others, logits for
the last token of a sequence only, and tokens go to experts in equal shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from costmodel.networks.moves import Words
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from mapspace.bounded_reading import LONGEST_NUMBER
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Size, StrictModel, shown, unknown_name, validate


class Run(StrictModel):
    """What is computed: `phase`, `sequence` and `batch` behind the network's name."""

    phase: Literal["prefill", "decode"] = "prefill"
    """All tokens of a sequence at once, or one token after `sequence` that are there already."""
    sequence: Size
    """Tokens; of a decoded token those that it attends to, itself included."""
    batch: Size = 1
    """Sequences."""


class _Layer(NamedTuple):
    """A layer, how often the network has it, and the words of its weights, all copies counted."""

    name: str
    content: dict[str, Any]
    times: int
    weights: int


@dataclass(frozen=True)
class Transformer:
    """A published network.

    Attributes:
        source: where the shapes are published.
        blocks: how many blocks.
        width: of the residual stream.
        heads: query heads.
        shared: heads that share their keys and values.
        depth: of a head.
        hidden: of the feed-forward layer.
        gated: whether it has a gate beside the way up.
        experts: feed-forward layers side by side.
        active: of them for a token.
        vocabulary: rows of the output layer; 0: it has none.
        tied: whether the output layer's weights are the embedding's.
        sequence: tokens where nothing is said.
        embedded: further rows of learnt embeddings, such as positions.
        image: whether 16 x 16 patches of a 224 x 224 image are its tokens.
        decodes: whether it writes token by token.
    """

    source: str
    blocks: int
    width: int
    heads: int
    shared: int
    depth: int
    hidden: int
    gated: bool
    vocabulary: int
    sequence: int
    experts: int = 1
    active: int = 1
    tied: bool = True
    embedded: int = 0
    image: bool = False
    decodes: bool = True

    def layers(self, run: Run) -> Iterator[_Layer]:
        """The layers with multiply-accumulates, in the order of the network."""
        queries = run.sequence if run.phase == "prefill" else 1
        tokens, keys = run.batch * queries, run.sequence
        inner, outer = self.heads * self.depth, self.heads // self.shared * self.depth
        groups, rows = run.batch * self.heads // self.shared, self.shared * queries
        if self.image:
            patches = {"N": run.batch, "K": self.width, "C": 3, "P": 14, "Q": 14, "R": 16, "S": 16}
            cnn = {"cnn": {**patches, "stride": 16}}
            yield _Layer("patches", cnn, 1, self.width * 3 * 16 * 16)
        yield self._linear("query", tokens, inner, self.width)
        yield self._linear("key-value", tokens, outer, self.width, 2)
        yield _Layer("scores", _products(groups, rows, keys, self.depth), self.blocks, 0)
        yield _Layer("context", _products(groups, rows, self.depth, keys), self.blocks, 0)
        yield self._linear("projection", tokens, self.width, inner)
        if self.experts > 1:
            yield self._linear("router", tokens, self.experts, self.width)
        # A token goes to `active` experts; of few tokens only so many experts have any.
        used = min(self.experts, tokens * self.active)
        share = math.ceil(tokens * self.active / used)
        up = 2 if self.gated else 1
        yield self._linear("up", share, self.hidden, self.width, up * used, up * self.experts)
        yield self._linear("down", share, self.width, self.hidden, used, self.experts)
        if self.vocabulary:
            weights = 0 if self.tied else self.vocabulary * self.width
            yield _Layer("logits", _gemm(run.batch, self.vocabulary, self.width), 1, weights)

    def _linear(
        self, name: str, m: int, n: int, k: int, times: int = 1, stored: int | None = None
    ) -> _Layer:
        """A product of every block."""
        copies = times if stored is None else stored
        return _Layer(name, _gemm(m, n, k), self.blocks * times, self.blocks * copies * n * k)

    def parameters(self) -> int:
        """Weights of all matrices and embeddings, without biases and normalisation."""
        run = Run(sequence=self.sequence)
        embedding = 0 if self.image else self.vocabulary * self.width
        stored = sum(layer.weights for layer in self.layers(run))
        return stored + embedding + self.embedded * self.width

    def moved_words(self, run: Run) -> dict[str, Words]:
        """Words that operators without multiply-accumulates read and write, by operator."""
        queries = run.sequence if run.phase == "prefill" else 1
        tokens = run.batch * queries
        scores = run.batch * self.heads * queries * run.sequence
        hidden = tokens * self.active * self.hidden
        found = {
            "softmax": Words(scores, scores),
            "normalisation": Words(tokens * self.width, tokens * self.width).times(2),
            "activation": Words((2 if self.gated else 1) * hidden, hidden),
            "addition": Words(2 * tokens * self.width, tokens * self.width).times(2),
        }
        return {name: words.times(self.blocks) for name, words in found.items()}


TRANSFORMERS: Mapping[str, Transformer] = {
    "bert-base": Transformer(
        source="Devlin et al., BERT, NAACL 2019, section 3; 110 M parameters",
        blocks=12, width=768, heads=12, shared=1, depth=64, hidden=3072, gated=False,
        vocabulary=0, embedded=30522 + 512 + 2, sequence=128, decodes=False,
    ),
    "bert-large": Transformer(
        source="Devlin et al., BERT, NAACL 2019, section 3; 340 M parameters",
        blocks=24, width=1024, heads=16, shared=1, depth=64, hidden=4096, gated=False,
        vocabulary=0, embedded=30522 + 512 + 2, sequence=128, decodes=False,
    ),
    "gpt2": Transformer(
        source="Radford et al., 2019, table 2, the smallest model; 124 M parameters",
        blocks=12, width=768, heads=12, shared=1, depth=64, hidden=3072, gated=False,
        vocabulary=50257, embedded=1024, sequence=1024,
    ),
    "llama3-8b": Transformer(
        source="The Llama 3 herd of models, 2024, table 3; 8.03 G parameters",
        blocks=32, width=4096, heads=32, shared=4, depth=128, hidden=14336, gated=True,
        vocabulary=128256, tied=False, sequence=2048,
    ),
    "mixtral-8x7b": Transformer(
        source="Jiang et al., Mixtral of Experts, 2024, table 1; 46.7 G parameters",
        blocks=32, width=4096, heads=32, shared=4, depth=128, hidden=14336, gated=True,
        experts=8, active=2, vocabulary=32000, tied=False, sequence=2048,
    ),
    "vit-b16": Transformer(
        source="Dosovitskiy et al., ICLR 2021, table 1, ViT-Base of 16 x 16; 86 M parameters",
        blocks=12, width=768, heads=12, shared=1, depth=64, hidden=3072, gated=False,
        vocabulary=1000, tied=False, embedded=197 + 1, sequence=197, image=True, decodes=False,
    ),
}  # fmt: skip
"""By name. Sizes are those of the source; parameters are held against it in a test."""


def transformer(source: str) -> tuple[str, list[tuple[Workload, int]]] | None:
    """The layers of a published transformer.

    Args:
        source: its name, perhaps with `phase`, `sequence` and `batch`: `gpt2:phase=decode`.

    Returns:
        The text that names it, and each distinct layer with how often it occurs; None: no
        transformer has that name.

    Raises:
        ConfigError: an option that there is not, or that this one has not.
    """
    layers = transformer_layers(source)
    if layers is None:
        return None
    found: dict[str, tuple[Workload, int]] = {}
    for work, count in layers:
        first, times = found.get(work.hash, (work, 0))
        found[work.hash] = first, times + count
    return source.strip(), list(found.values())


def transformer_layers(source: str) -> list[tuple[Workload, int]] | None:
    """As `transformer`, in the order of the network and with equal layers by themselves."""
    name, _, options = source.strip().lower().replace("_", "-").partition(":")
    if name not in TRANSFORMERS:
        return None
    return [
        (
            workload(layer.content).model_copy(update={"name": f"{name}-{layer.name}"}),
            layer.times,
        )
        for layer in TRANSFORMERS[name].layers(_run(source, name, options))
    ]


def is_one_sequence(source: str) -> bool:
    """Whether a transformer, as `transformer` takes it, computes one sequence at a time."""
    name, _, options = source.strip().lower().replace("_", "-").partition(":")
    return name in TRANSFORMERS and _run(source, name, options).batch == 1


def uncounted_words(source: str) -> dict[str, Words]:
    """Words that a network's operators without multiply-accumulates move, by operator.

    Args:
        source: as `transformer` takes it; of any other network nothing is known.
    """
    name, _, options = source.strip().lower().replace("_", "-").partition(":")
    if name not in TRANSFORMERS:
        return {}
    return TRANSFORMERS[name].moved_words(_run(source, name, options))


def _run(source: str, name: str, options: str) -> Run:
    """What is computed, of the text behind a name."""
    model = TRANSFORMERS[name]
    given: dict[str, Any] = {"sequence": model.sequence}
    for part in filter(None, options.split(",")):
        key, equals, value = (text.strip() for text in part.partition("="))
        if key not in Run.model_fields:
            raise ConfigError(f"{source}: {unknown_name('option', key, list(Run.model_fields))}")
        if not equals or not value:
            raise ConfigError(f"{source}: expected {key}=VALUE, got {shown(part)}.")
        digits = value.removeprefix("-")
        number = key != "phase" and digits.isdecimal() and len(digits) <= LONGEST_NUMBER
        given[key] = int(value) if number else value
    run = validate(Run, given, source)
    if run.phase == "decode" and not model.decodes:
        raise ConfigError(f"{source}: phase: {name} writes no tokens; expected prefill.")
    if model.image and run.sequence != model.sequence:
        raise ConfigError(f"{source}: sequence: an image has {model.sequence} tokens.")
    return run


def _gemm(m: int, n: int, k: int) -> dict[str, Any]:
    return {"gemm": {"M": m, "N": n, "K": k}}


def _products(batch: int, m: int, n: int, k: int) -> dict[str, Any]:
    """Products of their own operands, one for each head that has keys of its own."""
    return {
        "dimensions": {"H": batch, "M": m, "N": n, "K": k},
        "tensors": {"A": ["H", "M", "K"], "B": ["H", "K", "N"], "Z": ["H", "M", "N"]},
        "output": "Z",
        "roles": {"B": "weight"},
    }
