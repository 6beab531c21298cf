"""ONNX as exporters write it: sizes that nodes compute, open axes, branches, recurrent layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import call
from onnx import TensorProto, helper, numpy_helper
from test_from_onnx import Model
from torch import nn

from mapspace.errors import ConfigError
from orchestrator.imports.from_onnx import from_onnx
from orchestrator.imports.from_torch import from_torch

Capture = pytest.CaptureFixture[str]


def number(model: Model, value: Any) -> str:
    """A small constant of whole numbers, in the file."""
    name = f"c{len(model.weights)}"
    model.weights.append(numpy_helper.from_array(np.array(value, dtype=np.int64), name))
    return name


def size(model: Model, tensor: str, axis: int) -> str:
    """A size as exporters write it."""
    return model.add("Gather", model.add("Shape", tensor), number(model, axis))


def heads(**axes: Any) -> Model:
    """Attention of four heads, whose sizes are computed: Shape, Gather, Div, Concat, Slice."""
    model = Model(x=[axes.get("batch", 2), axes.get("length", 7), 32])
    together = model.add("MatMul", "x", model.weight(32, 96))
    third = model.add("Div", size(model, together, 2), number(model, 3))
    one = number(model, [0])
    parts = []
    for index in range(3):
        starts = model.add("Mul", third, number(model, [index]))
        ends = model.add("Mul", third, number(model, [index + 1]))
        part = model.add("Slice", together, starts, ends, number(model, [2]))
        whole = [model.add("Unsqueeze", size(model, "x", axis), one) for axis in (0, 1)]
        shape = model.add("Concat", *whole, number(model, [4]), number(model, [-1]), axis=0)
        moved = [0, 2, 3, 1] if index == 1 else [0, 2, 1, 3]
        parts.append(model.add("Transpose", model.add("Reshape", part, shape), perm=moved))
    scores = model.add("Softmax", model.add("MatMul", parts[0], parts[1]))
    model.add("MatMul", scores, parts[2])
    return model


# Of 2 x 7 rows: 32 x 96, and for 4 heads of 8 words two products of 7 x 7.
HEADS = 14 * 32 * 96 + 2 * (2 * 4 * 7 * 7 * 8)


def test_sizes_that_are_computed_are_known(tmp_path: Path) -> None:
    found = from_onnx(heads().save(tmp_path / "fixed.onnx"))
    assert found.macs == HEADS
    assert not found.unknown
    # What computes sizes does not run.
    assert {one.operator for one in found.moved} == {"Slice", "Reshape", "Transpose", "Softmax"}


def test_open_axes_have_names_and_places(tmp_path: Path, capsys: Capture) -> None:
    path = heads(batch="b", length=None).save(tmp_path / "open.onnx")
    for sizes in ({"b": 2, "x.1": 7}, {"x.0": 2, "x.1": 7}):
        assert from_onnx(path, sizes=sizes).macs == HEADS
    assert from_onnx(path, batch=2, sizes={"x.1": 7}).macs == HEADS
    assert call("import", path, "--size", "b=2", "--size", "x.1=7", "-o", tmp_path / "n.yaml") == 0
    capsys.readouterr()
    for options, message in (
        ((), "axis 0 of input x is b, axis 1 of input x is open; give --size b=N --size x.1=N or"),
        (("--size", "x.2=3"), "Unknown open axis 'x.2'; did you mean x.1? Known: b, x.0, x.1"),
        (("--size", "b"), "--size: expected AXIS=N once per axis, got 'b'"),
    ):
        assert call("import", path, *options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    with pytest.raises(ConfigError, match="--size b: expected a whole number of at least 1"):
        from_onnx(path, sizes={"b": 0})


def branches() -> Model:
    """As speech models have it: another network for each rate, which is an input."""
    model = Model(x=[1, 64])
    model.inputs.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    right = model.add("Equal", "sr", number(model, 16000))
    graphs = []
    for width in (8, 4):
        node = helper.make_node("MatMul", ["x", model.weight(64, width)], [f"y{width}"])
        kind = helper.make_tensor_value_info(f"y{width}", TensorProto.FLOAT, None)
        graphs.append(helper.make_graph([node], f"g{width}", [], [kind]))
    y = model.add("If", right, then_branch=graphs[0], else_branch=graphs[1])
    model.add("MatMul", model.add("Transpose", y, perm=[1, 0]), y)
    return model


def test_the_branch_that_runs_is_read(tmp_path: Path) -> None:
    path = branches().save(tmp_path / "rate.onnx")
    assert from_onnx(path, sizes={"sr": 16000}).macs == 64 * 8 + 8 * 8
    assert from_onnx(path, sizes={"sr": 8000}).macs == 64 * 4 + 4 * 4
    with pytest.raises(ConfigError, match="which branch runs depends on sr; give the value"):
        from_onnx(path)


def test_shapes_that_depend_on_data_are_unknown(tmp_path: Path) -> None:
    model = Model(x=[4, 4])
    y = model.add("MatMul", "x", model.weight(4, 4))
    model.add("Relu", model.add("Transpose", model.add("NonZero", y)))
    path = model.save(tmp_path / "data.onnx")
    with pytest.raises(ConfigError, match="the shape of nonzero1_out depends on data"):
        from_onnx(path)
    assert from_onnx(path, skip_unknown=True).macs == 64


def test_what_would_be_large_is_not_computed(tmp_path: Path) -> None:
    model = Model(x=[4, 4])
    model.add("MatMul", "x", model.weight(4, 4))
    zeros = model.add("ConstantOfShape", number(model, [1 << 20, 1 << 20]))
    model.add("ReduceSum", zeros, keepdims=0)
    assert from_onnx(model.save(tmp_path / "large.onnx")).macs == 64


CELLS = (
    (nn.LSTM(8, 16, 2, bidirectional=True), 5 * 3 * 64 * 2 * (8 + 16 + 32 + 16)),
    (nn.LSTM(8, 16, batch_first=True, proj_size=4), 3 * 5 * (64 * 8 + 64 * 4 + 4 * 16)),
    (nn.GRU(8, 16), 5 * 3 * 48 * (8 + 16)),
    (nn.RNN(8, 16), 5 * 3 * 16 * (8 + 16)),
)


@pytest.mark.parametrize(("module", "macs"), CELLS)
def test_recurrent_layers_of_torch(module: nn.Module, macs: int) -> None:
    found = from_torch(module, [torch.zeros(5, 3, 8)])
    assert (found.macs, found.unknown) == (macs, ())


def test_one_cell_of_torch() -> None:
    assert from_torch(nn.LSTMCell(8, 16), [torch.zeros(3, 8)]).macs == 3 * 64 * (8 + 16)


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_onnx(operator: str, gates: int, tmp_path: Path) -> None:
    model = Model(x=[5, 3, 8])
    weights = model.weight(2, 16 * gates, 8), model.weight(2, 16 * gates, 16)
    model.add(operator, "x", *weights, hidden_size=16, direction="bidirectional")
    found = from_onnx(model.save(tmp_path / "cells.onnx"))
    inputs, state = found.layers
    assert (dict(inputs[0].dimensions), inputs[1]) == ({"M": 15, "N": 16 * gates, "K": 8}, 2)
    # In every step, of each direction.
    assert (dict(state[0].dimensions), state[1]) == ({"M": 3, "N": 16 * gates, "K": 16}, 10)


def test_exported_programs_with_open_sizes() -> None:
    inputs = (torch.zeros(4, 8),)
    program = torch.export.export(
        nn.Linear(8, 2), inputs, dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    assert from_torch(program, sizes={"input.0": 6}).macs == 6 * 8 * 2
    with pytest.raises(ConfigError, match=r"""give sizes=\{"input.0": N\}, or export"""):
        from_torch(program)
    with pytest.raises(ConfigError, match=r"Unknown open axis 'inputs.0'; did you mean input\.0"):
        from_torch(program, sizes={"inputs.0": 6})
    with pytest.raises(ConfigError, match=r"sizes\[input.0\]: expected at least 1, got 0"):
        from_torch(program, sizes={"input.0": 0})


def test_a_name_means_one_size_wherever_it_stands(tmp_path: Path) -> None:
    """The state's second axis is the batch, not a sequence; unnamed it is asked for."""
    for batch, length in (("batch", "sequence"), (None, None)):
        model = Model(x=[batch, length, 8], state=[2, batch, 16])
        model.add("MatMul", "x", model.weight(8, 16))
        model.add("MatMul", "state", model.weight(16, 4))
        path = model.save(tmp_path / "state.onnx")
        if batch is None:
            with pytest.raises(ConfigError, match="axis 1 of input state is open"):
                from_onnx(path, batch=3, sequence=50)
        sizes = {} if batch else {"state.1": 3}
        found = from_onnx(path, batch=3, sequence=50, sizes=sizes)
        assert found.macs == 3 * 50 * 8 * 16 + 2 * 3 * 16 * 4


def test_a_question_mark_is_no_name(tmp_path: Path) -> None:
    model = Model(x=[1, 3, "?", "?"])
    model.conv("x", 3, 4, 3)
    path = model.save(tmp_path / "image.onnx")
    assert from_onnx(path, sizes={"x.2": 8, "x.3": 16}).macs == 4 * 3 * 8 * 16 * 9
    with pytest.raises(ConfigError, match=r"give --size x\.2=N --size x\.3=N"):
        from_onnx(path)
