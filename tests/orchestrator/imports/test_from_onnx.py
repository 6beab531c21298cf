"""ONNX models: layers counted by hand, the same rules as for PyTorch, and files that are none."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
from commands import call
from onnx import TensorProto, helper

from costmodel.networks.network import load_network
from costmodel.problems.workloads import network
from mapspace.errors import ConfigError
from orchestrator.imports.from_onnx import from_onnx

Capture = pytest.CaptureFixture[str]
Size = int | str | None


class Model:
    """A graph that grows node by node; weights lie in files that are not there."""

    def __init__(self, **inputs: list[Size]) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ]

    def weight(self, *shape: int) -> str:
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/nowhere/weights.bin")
        self.weights.append(tensor)
        return tensor.name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def conv(self, source: str, inputs: int, outputs: int, size: int, **more: Any) -> str:
        weight = self.weight(outputs, inputs // more.get("group", 1), size, size)
        return self.add("Conv", source, weight, pads=[size // 2] * 4, **more)

    def save(self, path: Path) -> Path:
        last = self.nodes[-1].output[0]
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "graph", self.inputs, [output], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        path.write_bytes(model.SerializeToString())
        return path


def resnet50() -> Model:
    """As in the paper: the first pointwise layer of a stage has the stride."""
    model = Model(image=["N", 3, 224, 224])
    x = model.add("Relu", model.conv("image", 3, 64, 7, strides=[2, 2]))
    x = model.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(depth):
            stride = [2, 2] if index == 0 and width > 64 else [1, 1]
            y = model.add("Relu", model.conv(x, inputs, width, 1, strides=stride))
            y = model.add("Relu", model.conv(y, width, width, 3))
            y = model.conv(y, width, 4 * width, 1)
            x = model.conv(x, inputs, 4 * width, 1, strides=stride) if index == 0 else x
            x = model.add("Relu", model.add("Add", x, y))
            inputs = 4 * width
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    model.add("Gemm", x, model.weight(1000, 2048), transB=1)
    return model


def test_resnet50_is_the_preset(tmp_path: Path, capsys: Capture) -> None:
    source = resnet50().save(tmp_path / "resnet50.onnx")
    written = tmp_path / "network.yaml"
    assert call("import", source, "--batch", 1, "-o", written) == 0
    told = capsys.readouterr()
    # 3 x 224 x 224 -> 64 x 112 x 112, which a relu reads and writes.
    moved = "no multiply-accumulates: relu1 (Relu) moves 1,605,632 words"
    assert f"# {moved}\n" in written.read_text()
    # So many are counted on the screen.
    assert moved not in told.err
    (line,) = [line for line in told.err.splitlines() if "no multiply-accumulates" in line]
    assert "operators: Relu 49, Add 16, " in line
    name, layers = load_network(str(written))
    assert name == "resnet50"
    ours = Counter({layer.hash: count for layer, count in layers})
    theirs = Counter({layer.hash: count for layer, count in network("resnet50")})
    assert not theirs - ours
    assert sum((ours - theirs).values()) == 1
    gemm = layers[-1][0]
    assert (gemm.family, gemm.dimensions) == ("gemm", {"M": 1, "N": 1000, "K": 2048})


def test_batch_and_sequence_fill_what_is_open(tmp_path: Path, capsys: Capture) -> None:
    model = Model(x=["rows", "length", 8], mask=["rows", "length", "length"])
    y = model.add("MatMul", "x", model.weight(8, 8))
    y = model.add("Add", model.add("MatMul", y, model.add("Transpose", y, perm=[0, 2, 1])), "mask")
    model.add("MatMul", model.add("Softmax", y), "x")
    path = model.save(tmp_path / "open.onnx")
    found = from_onnx(path, batch=3, sequence=5)
    assert [(dict(layer.dimensions), count) for layer, count in found.layers] == [
        ({"M": 15, "N": 8, "K": 8}, 1),
        ({"H": 3, "M": 5, "N": 5, "K": 8}, 1),
        ({"H": 3, "M": 5, "N": 8, "K": 5}, 1),
    ]
    assert call("import", path, "--batch", 3) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "dynamic shape: axis 1 of input x is length; give" in line
    fixed = resnet50().save(tmp_path / "fixed.onnx")
    with pytest.raises(ConfigError, match="--sequence: no input leaves the size of axis 1 open"):
        from_onnx(fixed, batch=1, sequence=2)


def test_operators_of_all_kinds(tmp_path: Path) -> None:
    model = Model(x=[1, 4, 8, 8])
    y = model.add("ConvTranspose", "x", model.weight(4, 6, 4, 4), strides=[2, 2], pads=[1] * 4)
    y = model.conv(y, 6, 6, 3, group=6, dilations=[2, 1])
    y = model.add("Einsum", y, y, equation="nchw,nchv->ncwv")
    y = model.add("Attention", y, y, y)
    model.add("Det", y)
    found = from_onnx(model.save(tmp_path / "all.onnx"), skip_unknown=True)
    # Transposed: 4 phases of 8 x 8 outputs with 2 x 2 taps. The rows of the next shrink to 14.
    phase, depthwise, products, *_ = found.layers
    assert phase[1] == 4
    assert phase[0].macs == 8 * 8 * 2 * 2 * 4 * 6
    assert (depthwise[0].family, depthwise[0].macs) == ("einsum", 6 * 14 * 16 * 9)
    assert dict(products[0].dimensions) == {"H": 6, "M": 16, "N": 16, "K": 14}
    # Equal heads: scores and context of 16 x 16 by 16 are one layer.
    assert found.layers[3][1] == 2
    assert [(one.node, one.operator) for one in found.unknown] == [("det4", "Det")]


def test_unknown_operators_are_named_with_what_would_be_counted(
    tmp_path: Path, capsys: Capture
) -> None:
    model = Model(x=[2, 4, 4])
    y = model.add("MatMul", "x", model.weight(4, 4))
    for _ in range(7):
        model.add("Det", y)
    model.add("Relu", y)
    path = model.save(tmp_path / "model.onnx")
    assert call("import", path) == 2
    told = capsys.readouterr()
    assert not told.out
    (line,) = told.err.splitlines()
    assert "unknown operators: det1 (Det): no rule for this operator; det2 (Det)" in line
    # 8 rows by 4 by 4; the relu reads and writes 32 words.
    assert "(and 2 more); with --skip-unknown 1 layers of 128 multiply-accumulates" in line
    assert "64 words that others move" in line
    assert call("import", path, "--skip-unknown", "-o", tmp_path / "network.yaml") == 0
    assert "left out: det1 (Det): no rule" in capsys.readouterr().err
    ((layer, count),) = load_network(str(tmp_path / "network.yaml"))[1]
    assert (layer.macs, count) == (128, 1)


def test_a_table_that_is_looked_up_is_not_read_as_a_whole(tmp_path: Path) -> None:
    model = Model()
    model.inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["rows", 4])]
    y = model.add("Gather", model.weight(1000, 8), "ids")
    model.add("MatMul", y, model.weight(8, 8))
    # 8 indices, 64 words read, 64 written.
    ((_, _, words),) = from_onnx(model.save(tmp_path / "table.onnx"), batch=2).moved
    assert words == 136


def test_files_that_are_none(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.onnx"
    relu = Model(x=[2])
    relu.add("Relu", "x")
    wrong = Model(x=[2, 3])
    wrong.add("MatMul", "x", wrong.weight(4, 5))
    contents = (b"", b"layers: []\n", b"\x00" * 40, b"PK\x03\x04" + b"a" * 99)
    for content in (*contents, onnx.ModelProto(ir_version=8).SerializeToString()):
        path.write_bytes(content)
        assert call("import", path) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "model.onnx: expected an ONNX model" in line
    for model, why in ((relu, "no node has multiply-accumulates"), (wrong, "cannot be inferred")):
        model.save(path)
        assert call("import", path) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert why in line
    assert call("import", tmp_path / "absent.onnx") == 2
    assert call("import", path, "--lenient") == 2
    assert call("import", tmp_path / "some.m", "--batch", 1) == 2


def test_every_cut_of_a_model_is_refused_or_read(tmp_path: Path, capsys: Capture) -> None:
    model = Model(x=[1, 3, 8, 8])
    model.conv("x", 3, 4, 3)
    path = model.save(tmp_path / "model.onnx")
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        assert call("import", path) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def with_functions(path: Path, *bodies: list[Any], call_of: str = "f0") -> Path:
    """A model that calls the first of some functions, each of which is a list of nodes."""
    model = onnx.load(resnet50().save(path), load_external_data=False)
    model.graph.node.append(helper.make_node(call_of, [], ["made"], domain="own"))
    model.opset_import.append(helper.make_opsetid("own", 1))
    used = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    for index, nodes in enumerate(bodies):
        model.functions.append(helper.make_function("own", f"f{index}", [], ["y"], nodes, used))
    path.write_bytes(model.SerializeToString())
    return path


def calls(name: str, count: int = 1) -> list[Any]:
    outputs = [f"y{i}" if i else "y" for i in range(count)]
    return [helper.make_node(name, [], [output], domain="own") for output in outputs]


def constant(size: int = 1) -> list[Any]:
    tensor = helper.make_tensor("c", TensorProto.FLOAT, [size], b"\0" * 4 * size, raw=True)
    return [helper.make_node("Constant", [], ["y"], value=tensor)]


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ([*(calls(f"f{i + 1}", 10) for i in range(9)), constant()], "expected at most 100,000 nod"),
        ([calls("f0")], "the function f0 calls itself"),
        ([calls("f1"), calls("f0")], "the function f0 calls itself"),
        ([*(calls(f"f{i + 1}") for i in range(200)), constant()], "at most 100 levels of functi"),
        ([calls("f1", 1000), constant(100_000)], "expected at most 268,435,456 bytes of what its"),
    ],
    ids=["ten deep", "itself", "each other", "a chain", "a constant"],
)
def test_functions_are_counted_before_they_are_written_out(
    tmp_path: Path, bodies: list[list[Any]], message: str
) -> None:
    path = with_functions(tmp_path / "x.onnx", *bodies)
    with pytest.raises(ConfigError, match=message) as caught:
        from_onnx(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_functions_are_written_out(tmp_path: Path) -> None:
    path = with_functions(tmp_path / "x.onnx", calls("f1", 3), constant())
    plain = resnet50().save(tmp_path / "y.onnx")
    assert from_onnx(path, batch=1).macs == from_onnx(plain, batch=1).macs


def test_calls_in_branches_count(tmp_path: Path) -> None:
    branch = helper.make_graph(
        calls("f0"), "branch", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
    )
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    path = with_functions(tmp_path / "x.onnx", [chosen])
    with pytest.raises(ConfigError, match="the function f0 calls itself"):
        from_onnx(path)


@pytest.mark.parametrize("strides", [[2**40, 1], [1, 2**40], [33, 32], [2**62, 2**62]])
def test_strides_of_a_transposed_convolution_have_a_bound(
    tmp_path: Path, strides: list[int]
) -> None:
    model = Model(x=[1, 4, 1, 1])
    model.add("ConvTranspose", "x", model.weight(4, 6, 2, 2), strides=strides)
    with pytest.raises(ConfigError, match=r"strides of a product of at most 1,024, got \["):
        from_onnx(model.save(tmp_path / "x.onnx"))


@pytest.mark.parametrize("kernel", [2**33, 2**62])
def test_taps_of_a_transposed_convolution_have_a_bound(tmp_path: Path, kernel: int) -> None:
    model = Model(x=[1, 1, 1, 1])
    model.add("ConvTranspose", "x", model.weight(1, 1, kernel, 1), strides=[2, 2])
    with pytest.raises(ConfigError):
        from_onnx(model.save(tmp_path / "x.onnx"))


@pytest.mark.parametrize("functions", [False, True])
def test_a_model_takes_twice_its_size_of_memory(functions: bool, tmp_path: Path) -> None:
    model, words = Model(x=[1, 4096]), 4096 * 4096
    model.add("MatMul", "x", "w0")
    held = TensorProto(name="w0", data_type=TensorProto.FLOAT, dims=[4096, 4096])
    held.raw_data = bytes(4 * words)
    model.weights.append(held)
    path = model.save(tmp_path / "held.onnx")
    if functions:
        whole, opset = onnx.load(path), helper.make_opsetid("", 21)
        relu = helper.make_node("Relu", ["a"], ["b"])
        whole.functions.append(helper.make_function("own", "f", ["a"], ["b"], [relu], [opset]))
        whole.opset_import.append(helper.make_opsetid("own", 1))
        path.write_bytes(whole.SerializeToString())
    # Not by `resource`: what a child has had at most begins with what its parent has.
    look = (
        "import onnx, onnx.inliner, re, sys; from mapspace import from_onnx;"
        "from orchestrator.imports import onnx_rules;"
        "most = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]);"
        "before = most(); from_onnx(sys.argv[1]); print(1024 * (most() - before))"
    )
    asked = [sys.executable, "-c", look, str(path)]
    taken = int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    assert 1.5 * 4 * words < taken < 2.3 * 4 * words


def quantised(name: str) -> tuple[Model, Model]:
    """A model of ONNX Runtime's operators, and the one that it was made from."""
    made, plain = Model(x=[2, 4, 6, 6], y=[5, 2, 8]), Model(x=[2, 4, 6, 6], y=[5, 2, 8])
    scale = "scale", "zero"

    def own(operator: str, *inputs: str, **attributes: Any) -> str:
        return made.add(operator, *inputs, domain="com.microsoft", **attributes)

    if name == "convolution":
        found = own("FusedConv", "x", made.weight(3, 4, 3, 3), activation="Relu", pads=[1] * 4)
        added = own("QLinearAdd", found, *scale, found, *scale, *scale)
        made.add("Conv", own("QLinearSigmoid", added, *scale, *scale), made.weight(7, 3, 1, 1))
        found = plain.add("Conv", "x", plain.weight(3, 4, 3, 3), pads=[1] * 4)
        plain.add("Conv", found, plain.weight(7, 3, 1, 1))
    elif name == "products":
        made.weights.append(helper.make_tensor("w", TensorProto.INT8, [6, 9], b"\0" * 54, raw=True))
        found = own("DynamicQuantizeMatMul", "x", "w", "scale")
        found = own("SkipLayerNormalization", found, found, "gamma")
        # [2, 4, 6, 9] by [2, 4, 6, 9], the second the other way round.
        found = own("FusedMatMul", found, found, transB=1, alpha=0.5)
        own("QGemm", made.weight(3, 7), *scale, made.weight(7, 2), *scale)
        made.add("MatMul", own("BiasGelu", found, made.weight(6)), made.weight(6, 2))
        found = plain.add("MatMul", "x", plain.weight(6, 9))
        turned = plain.add("Transpose", found, perm=[0, 1, 3, 2])
        found = plain.add("MatMul", found, turned)
        plain.add("Gemm", plain.weight(3, 7), plain.weight(7, 2))
        plain.add("MatMul", found, plain.weight(6, 2))
    else:
        inputs = made.weight(1, 8, 12), made.weight(1, 3, 12)
        found = own("DynamicQuantizeLSTM", "y", *inputs, hidden_size=3)
        made.add("MatMul", found, made.weight(3, 2))
        inputs = plain.weight(1, 12, 8), plain.weight(1, 12, 3)
        plain.add("MatMul", plain.add("LSTM", "y", *inputs, hidden_size=3), plain.weight(3, 2))
    return made, plain


@pytest.mark.parametrize("name", ["convolution", "products", "recurrent"])
def test_what_onnx_runtime_has_made_of_a_model_is_the_same_work(name: str, tmp_path: Path) -> None:
    made, plain = quantised(name)
    own, other = (
        from_onnx(made.save(tmp_path / "a.onnx")),
        from_onnx(plain.save(tmp_path / "b.onnx")),
    )
    assert not own.unknown
    assert [layer.content for layer in own.nodes] == [layer.content for layer in other.nodes]
    assert own.macs == other.macs


def test_what_makes_others_unknown_is_named_first(tmp_path: Path) -> None:
    model = Model(x=[2, 4, 4])
    found = model.add("MatMul", "x", model.weight(4, 4))
    lost = model.add("Odd", found, domain="com.microsoft")
    for _ in range(7):
        lost = model.add("Relu", lost)
    model.add("Det", found)
    with pytest.raises(ConfigError, match=r"unknown operators: odd1 \(Odd\): no rule.*; det9 \(De"):
        from_onnx(model.save(tmp_path / "model.onnx"))
