"""What the operators of ONNX do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.imports.operators import (
    Convolution,
    Moved,
    Recurrent,
    Shape,
    Unknown,
    Work,
    attention,
    einsum_product,
    matrix_product,
    words_of,
)

ShapeOf = Callable[[str], Shape]

# Nothing happens when the network runs.
SKIPPED = frozenset({"Constant", "Shape", "Size"})
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
_GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})
# Elementwise, along an axis, or in windows without weights.
_MOVING = frozenset(
    """
    Add Sub Mul Div Neg Abs Exp Log Sqrt Reciprocal Pow Sin Cos Tanh Sigmoid Erf Relu LeakyRelu
    PRelu Elu Selu Celu Gelu Mish Swish HardSwish HardSigmoid Softplus Softsign ThresholdedRelu
    Clip Max Min Mean Sum Where Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor Mod
    Floor Ceil Round Sign IsNaN IsInf Softmax LogSoftmax BatchNormalization LayerNormalization
    InstanceNormalization GroupNormalization RMSNormalization LpNormalization
    SimplifiedLayerNormalization MaxPool AveragePool LpPool
    GlobalAveragePool GlobalMaxPool ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL2
    ReduceL1 ReduceSumSquare ReduceLogSumExp CumSum ArgMax ArgMin TopK Concat Split Slice Pad
    Transpose Expand Tile Cast CastLike Resize Upsample DepthToSpace SpaceToDepth Range
    ConstantOfShape Trilu OneHot ScatterND ScatterElements QuantizeLinear DequantizeLinear
    DynamicQuantizeLinear EyeLike NonZero LRN RotaryEmbedding
    """.split()  # noqa: SIM905 - a list of hundreds of lines otherwise
)


def work_of(node: Any, attributes: Mapping[str, Any], shape: ShapeOf) -> Work:
    """What a node does.

    Args:
        node: of ONNX's default domain.
        attributes: the node's, as Python values.
        shape: the shape of a tensor by its name; it raises where that is not fixed.

    Raises:
        ValueError: the shapes of a node do not fit each other.
    """
    operator = node.op_type
    names = list(node.input)
    if operator in _VIEWS:
        return Moved(0)
    if operator in _MOVING or operator in _LOOKUPS:
        made = words_of([shape(name) for name in node.output if name])
        if operator in _LOOKUPS:
            # Indices, the rows that are read, and the same rows written.
            return Moved(math.prod(shape(names[1])) + 2 * made)
        return Moved(words_of([shape(name) for name in names if name]) + made)
    if operator in ("Conv", "ConvInteger", "ConvTranspose", "QLinearConv"):
        weight = names[3] if operator == "QLinearConv" else names[1]
        made_shape = shape(node.output[0])
        return _convolution(operator, attributes, shape(names[0]), shape(weight), made_shape)
    if operator in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        right = names[3] if operator == "QLinearMatMul" else names[1]
        return matrix_product(shape(names[0]), shape(right))
    if operator == "Gemm":
        left, right_shape = shape(names[0]), shape(names[1])
        left = left[::-1] if attributes.get("transA") else left
        return matrix_product(left, right_shape[::-1] if attributes.get("transB") else right_shape)
    if operator == "Einsum":
        equation = attributes["equation"].decode("utf-8", "replace")
        return einsum_product(equation, [shape(name) for name in names])
    if operator == "Attention" and not node.domain:
        return _attention(names, attributes, shape)
    if operator in _GATES:
        return _recurrent(operator, attributes, [shape(name) for name in names[:3]])
    return Unknown("no rule for this operator")


def _recurrent(operator: str, attributes: Mapping[str, Any], shapes: list[Shape]) -> Work:
    """Cells of all directions; the state's weights say how many words it has."""
    source, weight, state = shapes
    steps, batch = source[:2] if not attributes.get("layout") else source[1::-1]
    # What is quantised while it runs has its weights the other way round.
    words = min(state[1:])
    cell = (source[2], _GATES[operator] * words, words, 0)
    return Recurrent(steps, batch, (cell,) * weight[0])


def _attention(names: list[str], attributes: Mapping[str, Any], shape: ShapeOf) -> Work:
    """ONNX's own operator, of heads by axis or side by side in the last axis."""
    if len(names) > 4 and any(names[4:6]):
        return Unknown("keys and values of earlier steps are not followed")
    shapes = [shape(name) for name in names[:3]]
    if len(shapes[0]) == 3:
        heads = [attributes["q_num_heads"], *[attributes["kv_num_heads"]] * 2]
        if any(count < 1 or size[2] % count for count, size in zip(heads, shapes, strict=True)):
            raise ValueError("the heads do not divide the last axis")
        shapes = [
            (size[0], count, size[1], size[2] // count)
            for count, size in zip(heads, shapes, strict=True)
        ]
    return attention(*shapes)


def _convolution(
    operator: str, attributes: Mapping[str, Any], source: Shape, weight: Shape, made: Shape
) -> Work:
    axes = len(weight) - 2
    if not 1 <= axes <= 3:
        return Unknown(f"convolutions have 1 to 3 axes, this one {axes}")
    groups = int(attributes.get("group", 1))
    if groups < 1 or weight[0] % groups:
        raise ValueError(f"{groups} groups do not divide {weight[0]} channels")
    transposed = operator == "ConvTranspose"
    strides = tuple(attributes.get("strides", (1,) * axes))
    dilations = tuple(attributes.get("dilations", (1,) * axes))
    if any(len(one) != axes or min(one) < 1 for one in (strides, dilations)):
        raise ValueError(f"expected {axes} strides and dilations of at least 1")
    kernel = weight[2:]
    padding = tuple(attributes.get("pads", (0,) * (2 * axes)))[:axes]
    automatic = attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    if transposed and (automatic or "output_shape" in attributes):
        upper = attributes.get("auto_pad") == b"SAME_UPPER"
        padding = ()
        for axis in range(axes):
            reach = strides[axis] * (source[2 + axis] - 1) + dilations[axis] * (kernel[axis] - 1)
            more = tuple(attributes.get("output_padding", (0,) * axes))[axis]
            cut = max(0, reach + 1 + more - made[2 + axis])
            # The specification of ConvTranspose: the larger half comes first but for SAME_UPPER.
            padding += (cut // 2 if upper else cut - cut // 2,)
    return Convolution(
        images=source[0],
        groups=groups,
        outputs=weight[1] if transposed else weight[0] // groups,
        inputs=weight[0] // groups if transposed else weight[1],
        sizes=made[-axes:],
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        padding=padding if transposed else (),
        transposed=transposed,
    )
