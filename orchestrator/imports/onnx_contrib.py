"""Operators of `com.microsoft`, which ONNX Runtime's optimiser and quantiser write.

Most of them are one of ONNX's own with a scale, a zero point, a bias or an activation beside: read
as that one, without these, they have its shapes and its multiply-accumulates. Source: ONNX
Runtime's page of contrib operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

DOMAIN = "com.microsoft"

ShapeOf = Callable[[str], tuple[int | None, ...] | None]


class _Like(NamedTuple):
    """The operator that one is like, and which of its inputs that one takes."""

    operator: str
    inputs: slice


_ALONE = slice(0, 1)
_BOTH = slice(0, 2)
_QUANTISED = slice(0, 6, 3)
"""Each input has its scale and its zero point after it."""

_LIKE: Mapping[str, _Like] = {
    "FusedConv": _Like("Conv", _BOTH),
    "FusedGemm": _Like("Gemm", _BOTH),
    "QGemm": _Like("Gemm", _QUANTISED),
    "DynamicQuantizeMatMul": _Like("MatMul", _BOTH),
    "MatMulIntegerToFloat": _Like("MatMul", _BOTH),
    "DynamicQuantizeLSTM": _Like("LSTM", slice(0, 7)),
    "QLinearAdd": _Like("Add", _QUANTISED),
    "QLinearMul": _Like("Mul", _QUANTISED),
    "QLinearSigmoid": _Like("Sigmoid", _ALONE),
    "QLinearLeakyRelu": _Like("LeakyRelu", _ALONE),
    "QLinearSoftmax": _Like("Softmax", _ALONE),
    "QLinearGlobalAveragePool": _Like("GlobalAveragePool", _ALONE),
    "QLinearAveragePool": _Like("AveragePool", _ALONE),
    "QLinearConcat": _Like("Concat", slice(2, None, 3)),
    "BiasGelu": _Like("Add", _BOTH),
    "FastGelu": _Like("Relu", _ALONE),
    "QuickGelu": _Like("Relu", _ALONE),
    "Gelu": _Like("Relu", _ALONE),
    "SkipLayerNormalization": _Like("Add", _BOTH),
    "SkipSimplifiedLayerNormalization": _Like("Add", _BOTH),
}

NORMALISED = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
"""Of these all outputs have the shape of the first, as far as anybody reads them."""


def as_standard(node: Any, shape: ShapeOf) -> Any:
    """A node as one of ONNX's own domain; itself where there is none like it.

    Args:
        node: of ONNX.
        shape: the shape of a tensor by its name, as far as it is known.
    """
    if node.domain != DOMAIN:
        return node
    attributes = {one.name: one for one in node.attribute}
    if "channels_last" in attributes and attributes["channels_last"].i:
        return node
    if node.op_type == "FusedMatMul":
        return _transposed_product(node, attributes, shape)
    like = _LIKE.get(node.op_type)
    if like is None:
        return node
    return _made(node, like.operator, list(node.input)[like.inputs], list(attributes.values()))


def outputs_of(node: Any, standard: Any, types: Mapping[str, Any], found: Mapping[str, Any]) -> Any:
    """The types of a node's outputs, where those of the one that it is like are known.

    Args:
        node: the node.
        standard: the one that it is like.
        types: of tensors by name.
        found: those of the outputs of the standard one, of floating-point numbers.
    """
    given = dict(found)
    first = found.get(node.output[0])
    if first is not None and node.op_type in NORMALISED:
        given |= {name: first for name in node.output if name}
    if node.op_type.startswith("QLinear") and standard.input[0] in types:
        for kind in given.values():
            kind.tensor_type.elem_type = types[standard.input[0]].tensor_type.elem_type
    return given


def _transposed_product(node: Any, attributes: Mapping[str, Any], shape: ShapeOf) -> Any:
    """A product of which an operand's last two axes may be the other way round."""
    flags = {name: one.i for name, one in attributes.items()}
    names = list(node.input)
    if not flags.get("transA") and not flags.get("transB"):
        return _made(node, "MatMul", names, [])
    ranks = {len(found) for found in map(shape, names) if found is not None}
    if flags.get("transBatchA") or flags.get("transBatchB") or len(ranks) != 1:
        return node
    batch = "abcdefghij"[: ranks.pop() - 2]
    left = batch + ("km" if flags.get("transA") else "mk")
    right = batch + ("nk" if flags.get("transB") else "kn")
    from onnx import helper

    equation = helper.make_attribute("equation", f"{left},{right}->{batch}mn")
    return _made(node, "Einsum", names, [equation])


def _made(node: Any, operator: str, inputs: list[str], attributes: list[Any]) -> Any:
    """A node of ONNX's own with the name and the first output of another."""
    from onnx import defs, helper

    # The others are statistics, or the sum that was normalised, of the same shape.
    outputs = list(node.output)[: 3 if operator == "LSTM" else 1]
    made = helper.make_node(operator, inputs, outputs, node.name)
    known = defs.get_schema(operator).attributes
    made.attribute.extend(one for one in attributes if one.name in known)
    return made
