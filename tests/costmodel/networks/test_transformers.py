"""Transformers by name: published totals, hand-counted layers, prefill and decode, refusals."""

from __future__ import annotations

import pytest
from commands import answer, printed

from costmodel.networks.network import load_network
from costmodel.networks.transformers import TRANSFORMERS, Run, transformer, uncounted_words
from mapspace.errors import ConfigError

# In the sources, with biases and normalisation, which are a per cent of the smallest.
PARAMETERS = {
    "bert-base": 110e6,
    "bert-large": 335e6,
    "gpt2": 124e6,
    "llama3-8b": 8.03e9,
    "mixtral-8x7b": 46.7e9,
    "vit-b16": 86.6e6,
}
MACS = {
    # torchvision/models/vision_transformer.py, ViT_B_16_Weights: _ops 17.564.
    "vit-b16": 17_563_828_224,
    # By hand: twelve layers on 128 tokens, each with two products of attention.
    "bert-base": 12 * (128 * 768 * (4 * 768 + 2 * 3072) + 2 * 128 * 128 * 768),
    "llama3-8b:sequence=64": 32
    * (64 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 2 * 64 * 64 * 4096)
    + 128256 * 4096,
}


def layers(source: str) -> dict[str, tuple[dict[str, int], int]]:
    prefix = f"{source.partition(':')[0]}-"
    return {
        layer.name.removeprefix(prefix): (dict(layer.dimensions), count)
        for layer, count in load_network(source)[1]
    }


def macs(source: str) -> int:
    return sum(layer.macs * count for layer, count in load_network(source)[1])


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_parameters_are_those_published(name: str) -> None:
    assert TRANSFORMERS[name].parameters() == pytest.approx(PARAMETERS[name], rel=0.012)


@pytest.mark.parametrize("source", MACS)
def test_multiply_accumulates_are_those_counted(source: str) -> None:
    assert macs(source) == MACS[source]


def test_a_decoded_token() -> None:
    found = layers("llama3-8b:phase=decode,sequence=2048,batch=4")
    # Four query heads are rows of one product over their shared keys: 8 groups for 4 sequences.
    assert found["scores"] == ({"H": 32, "M": 4, "N": 2048, "K": 128}, 32)
    assert found["context"] == ({"H": 32, "M": 4, "N": 128, "K": 2048}, 32)
    assert found["query"] == ({"M": 4, "N": 4096, "K": 4096}, 64)  # the projection is its equal
    assert found["up"] == ({"M": 4, "N": 14336, "K": 4096}, 64)  # and the gate
    assert found["logits"] == ({"M": 4, "N": 128256, "K": 4096}, 1)


def test_experts() -> None:
    one = layers("mixtral-8x7b:phase=decode")
    assert one["down"] == ({"M": 1, "N": 4096, "K": 14336}, 64)  # two of eight have the token
    assert one["router"] == ({"M": 1, "N": 8, "K": 4096}, 32)
    many = layers("mixtral-8x7b:sequence=512")
    assert many["down"] == ({"M": 128, "N": 4096, "K": 14336}, 256)  # 512 x 2 / 8 each


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b"])
def test_decoding_token_by_token_attends_as_a_prefill_without_a_mask(name: str) -> None:
    """The products of weights are equal in all, and so are scores with every key."""
    whole = layers(f"{name}:sequence=16")
    token = layers(f"{name}:phase=decode,sequence=16")
    for layer in whole.keys() - {"logits"}:
        (sizes, count), (one, same) = whole[layer], token[layer]
        assert count == same
        assert sizes == {**one, "M": 16 * one["M"]}


def test_words_of_what_multiplies_nothing() -> None:
    moved = TRANSFORMERS["bert-base"].moved_words(Run(sequence=128))
    assert moved["softmax"].both == 12 * 2 * 12 * 128 * 128
    assert moved["normalisation"].both == 12 * 2 * 2 * 128 * 768
    assert moved == uncounted_words("bert-base")
    assert uncounted_words("resnet50") == {}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("gpt2:phases=decode", "Unknown option 'phases'; did you mean phase?"),
        ("gpt2:phase=encode", "phase: expected"),
        ("gpt2:sequence=0", "sequence: expected"),
        ("gpt2:sequence", "expected sequence=VALUE"),
        ("gpt2:batch=x", "batch: expected"),
        ("bert-base:phase=decode", "bert-base writes no tokens; expected prefill"),
        ("vit-b16:sequence=5", "an image has 197 tokens"),
        ("gpt3", "Unknown network 'gpt3'; did you mean gpt2?"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(source: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_network(source)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_read_as_presets_are() -> None:
    assert transformer("BERT_base") is not None
    assert transformer("resnet50") is None
    assert load_network("gpt2:phase=decode")[0] == "gpt2:phase=decode"


def test_a_search_says_what_it_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "search", "--network", "gpt2:phase=decode,sequence=16")
    words_of = uncounted_words("gpt2:phase=decode,sequence=16")
    assert found["uncounted_words"] == {name: words.both for name, words in words_of.items()}
    assert all(layer["proven"] for layer in found["layers"])
    words = f"{sum(found['uncounted_words'].values()):,}"
    said = printed(capsys, "search", "--network", "gpt2:phase=decode,sequence=16")
    assert f"move {words} words" in " ".join(said.split())
    assert answer(capsys, "search", "--network", "alexnet")["uncounted_words"] == {}
