"""Workloads: families, files, inline text, and every refusal."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.problems.workloads import Axis, Workload, cnn, conv1d, einsum, gemm, mttkrp, workload
from mapspace.errors import ConfigError

LAYER = {"N": 2, "K": 4, "C": 3, "P": 5, "Q": 6, "R": 3, "S": 2}
PRODUCT: dict[str, Any] = {
    "dimensions": {"M": 2, "N": 3, "K": 4},
    "tensors": {"A": ["M", "K"], "B": ["K", "N"], "Z": ["M", "N"]},
    "output": "Z",
}


def written(found: Workload) -> list[str]:
    return [str(tensor) for tensor in found.tensors]


def refusal(source: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        workload(source)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Families


def test_cnn() -> None:
    layer = cnn("layer", **LAYER)
    assert (layer.name, layer.family) == ("layer", "cnn")
    assert layer.dimension_names == ("N", "K", "C", "P", "Q", "R", "S")
    assert layer.dimensions == LAYER
    assert written(layer) == [
        "Weights[K, C, R, S]",
        "Inputs[N, C, P + R, Q + S]",
        "Outputs[N, K, P, Q]",
    ]
    assert [tensor.output for tensor in layer.tensors] == [False, False, True]
    assert layer.macs == 2 * 4 * 3 * 5 * 6 * 3 * 2
    assert layer.tensor_names == ("Weights", "Inputs", "Outputs")
    # Inputs are (5 - 1) + 3 = 7 wide and (6 - 1) + 2 = 7 high.
    assert [layer.words(tensor) for tensor in range(3)] == [4 * 3 * 3 * 2, 2 * 3 * 7 * 7, 240]
    assert layer.words(-1) == 240


def test_stride_and_dilation() -> None:
    layer = cnn(**LAYER, stride=2, dilation=3)
    assert written(layer)[1] == "Inputs[N, C, 2*P + 3*R, 2*Q + 3*S]"
    # 2 (5 - 1) + 3 (3 - 1) + 1 = 15 wide, 2 (6 - 1) + 3 (2 - 1) + 1 = 14 high.
    assert layer.words(1) == 2 * 3 * 15 * 14


def test_stride_beyond_the_filter_counts_the_gaps() -> None:
    layer = cnn(N=1, K=1, C=1, P=4, Q=1, R=1, S=1, stride=3)
    assert layer.words(1) == 10


def test_groups_and_depthwise() -> None:
    grouped = cnn(**LAYER, groups=5)
    assert grouped.dimension_names == ("N", "G", "K", "C", "P", "Q", "R", "S")
    assert grouped.dimensions["G"] == 5
    assert written(grouped) == [
        "Weights[G, K, C, R, S]",
        "Inputs[N, G, C, P + R, Q + S]",
        "Outputs[N, G, K, P, Q]",
    ]
    assert grouped.macs == 5 * cnn(**LAYER).macs
    depthwise = cnn(N=1, K=1, C=1, P=7, Q=7, R=3, S=3, groups=32)
    assert [depthwise.words(tensor) for tensor in range(3)] == [32 * 9, 32 * 81, 32 * 49]


def test_fully_connected_is_a_cnn_of_ones() -> None:
    layer = cnn(N=1, K=10, C=20, P=1, Q=1, R=1, S=1)
    assert [layer.words(tensor) for tensor in range(3)] == [200, 20, 10]


def test_conv1d() -> None:
    line = conv1d(P=12, R=3, stride=2)
    assert line.family == "conv1d"
    assert line.dimensions == {"N": 1, "K": 1, "C": 1, "P": 12, "R": 3}
    assert written(line) == ["Weights[K, C, R]", "Inputs[N, C, 2*P + R]", "Outputs[N, K, P]"]
    assert line.words(1) == 2 * 11 + 3


def test_gemm() -> None:
    product = gemm(M=2, N=3, K=4)
    assert product.dimension_names == ("M", "N", "K")
    assert written(product) == ["A[M, K]", "B[K, N]", "Z[M, N]"]


def test_mttkrp() -> None:
    product = mttkrp(I=2, J=3, K=4, L=5)
    assert product.dimension_names == ("I", "J", "K", "L")
    assert written(product) == ["A[I, K, L]", "B[K, J]", "C[L, J]", "O[I, J]"]
    assert product.macs == 120


def test_residual_addition_is_an_einsum() -> None:
    addition = einsum(
        "add",
        dimensions={"C": 2, "P": 3, "Q": 3},
        tensors={"Sum": ["C", "P", "Q"], "X": ["C", "P", "Q"], "Y": ["C", "P", "Q"]},
        output="Sum",
    )
    assert addition.tensor_names == ("X", "Y", "Sum")
    assert addition.macs == 18


def test_a_scalar_output_has_no_axes() -> None:
    dot = einsum("dot", dimensions={"K": 9}, tensors={"A": ["K"], "B": ["K"], "Z": []}, output="Z")
    assert dot.words(-1) == 1


def test_sizes_is_an_array_in_order() -> None:
    sizes = cnn(**LAYER).sizes
    assert sizes.dtype == np.int64
    assert sizes.tolist() == list(LAYER.values())


def test_numpy_sizes_are_accepted() -> None:
    drawn = {key: np.int64(value) for key, value in LAYER.items()}
    assert cnn(**drawn) == cnn(**LAYER)  # type: ignore[arg-type]
    json.dumps(cnn(**drawn).dimensions)  # type: ignore[arg-type]


def test_a_builder_refuses_what_a_file_may_not_hold() -> None:
    with pytest.raises(ConfigError, match=r"^cnn: K: expected at least 1, got 0\.$"):
        cnn(**{**LAYER, "K": 0})
    with pytest.raises(ConfigError, match=r"^odd: missing N, K\. Known keys: M, N, K\.$"):
        gemm("odd", M=3)


@given(
    sizes=st.fixed_dictionaries({name: st.integers(1, 4) for name in "PRX"}),
    factors=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_words_are_the_box_around_all_indices(
    sizes: dict[str, int], factors: tuple[int, int]
) -> None:
    found = einsum(
        "box",
        dimensions=sizes,
        tensors={"I": [f"{factors[0]}*P + R*{factors[1]}", "X"], "O": ["P"]},
        output="O",
    )
    points = itertools.product(*(range(sizes[name]) for name in "PRX"))
    touched = [(factors[0] * p + factors[1] * r, x) for p, r, x in points]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*touched, strict=True)]
    assert found.words(0) == math.prod(extents)
    assert found.macs == len(touched)


# Identity


def test_hash_ignores_the_name_only() -> None:
    layer = cnn("a", **LAYER)
    assert len(layer.hash) == 16
    assert cnn("b", **LAYER).hash == layer.hash
    others = [
        cnn(**{**LAYER, "K": 5}),
        cnn(**LAYER, stride=2),
        cnn(**LAYER, dilation=2),
        cnn(**LAYER, groups=2),
    ]
    assert len({layer.hash, *(other.hash for other in others)}) == 5


def test_the_family_is_part_of_the_content() -> None:
    assert einsum("x", **PRODUCT).hash != gemm("x", **PRODUCT["dimensions"]).hash


def test_the_order_of_dimensions_is_part_of_the_content() -> None:
    turned = {**PRODUCT, "dimensions": {"K": 4, "N": 3, "M": 2}}
    first, second = einsum("x", **PRODUCT), einsum("x", **turned)
    assert first != second
    assert first.hash != second.hash


def test_equality_and_pickling() -> None:
    layer = cnn("a", **LAYER)
    assert layer == cnn("a", **LAYER)
    assert layer != cnn("b", **LAYER)
    again = pickle.loads(pickle.dumps(layer))
    assert again == layer
    assert hash(again) == hash(layer)
    assert again.hash == layer.hash


def test_hash_is_the_same_in_another_process() -> None:
    code = "from costmodel.problems.workloads import workload; print(workload('resnet-conv4').hash)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == workload("resnet-conv4").hash


def test_text() -> None:
    assert str(gemm("small", M=2, N=3, K=4)) == "small: M=2 N=3 K=4: Z[M, N] += A[M, K] x B[K, N]"


# Inline text


def test_inline() -> None:
    found = workload("cnn:N=4,K=320,C=960,P=7,Q=7,R=1,S=1,stride=1")
    assert found.hash == cnn(N=4, K=320, C=960, P=7, Q=7, R=1, S=1).hash
    assert found.name == "cnn:N=4,K=320,C=960,P=7,Q=7,R=1,S=1"
    assert workload(" GEMM : M = 384, N=4096 ,K=1024").hash == gemm(M=384, N=4096, K=1024).hash
    assert workload("conv1d:P=12,R=3").hash == conv1d(P=12, R=3).hash
    sizes = {"I": 512, "J": 256, "K": 1536, "L": 640}
    assert workload("mttkrp:I=512,J=256,K=1536,L=640").hash == mttkrp(**sizes).hash


@pytest.mark.parametrize(
    "found",
    [
        cnn(**LAYER, stride=2, dilation=3, groups=4),
        cnn(**{**LAYER, "K": 1}),
        conv1d(P=3, R=2, C=4),
        gemm(M=1, N=1, K=1),
        mttkrp(I=1, J=2, K=3, L=4),
    ],
    ids=str,
)
def test_a_builders_default_name_is_inline_text_for_the_same(found: Workload) -> None:
    assert workload(found.name) == found


def test_absurd_names_are_unknown_names() -> None:
    assert refusal("x" * 5000).startswith("Unknown workload 'xxx")
    assert refusal("a\0b.yaml").startswith("'a\\x00b.yaml': is no path")


CNN_KEYS = "Known keys: N, K, C, P, Q, R, S, stride, dilation, groups."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cnn:N=4,K=320", f"missing C, P, Q, R, S. {CNN_KEYS}"),
        ("cnn:N=1,K=1,C=1,P=1,Q=1,R=1,S=1,strid=2", "strid: unknown key; did you mean stride? "),
        ("gemm:M=1,N=1,K=1,L=1", "L: unknown key. Known keys: M, N, K."),
        ("gemm:M=0,N=1,K=1", "M: expected at least 1, got 0."),
        ("gemm:M=-3,N=1,K=1", "M: expected at least 1, got -3."),
        ("gemm:M=2.5,N=1,K=1", "M: expected a whole number, got '2.5'."),
        ("gemm:M=,N=1,K=1", "M: expected a whole number, got ''."),
        ("gemm:M=1e3,N=1,K=1", "M: expected a whole number, got '1e3'."),
        ("gemm:M,N=1,K=1", "expected key=value, got 'M'."),
        ("cnn:N=1,K=1,C=1,W=3", "expected P and Q, the width and height of the output, in place"),
        ("conv1d:L=3,R=1", "expected P, the length of the output, in place of L."),
        ("gemm:", "expected key=value, got ''."),
        ("gemm:M=1,M=2,N=1,K=1", "the key 'M' is given twice."),
        ("gemm:M=99999999999999999999,N=1,K=1", "M: expected less than 4611686018427387904, "),
        ("gem:M=1,N=1,K=1", "expected one of cnn, conv1d, gemm, mttkrp before the colon, got 'g"),
        (":M=1", "expected one of cnn, conv1d, gemm, mttkrp before the colon, got ''."),
    ],
)
def test_inline_refusals(text: str, message: str) -> None:
    assert refusal(text).startswith(f"{text}: {message}")


# Files


def test_file_with_a_nest(tmp_path: Path) -> None:
    path = tmp_path / "strided.yaml"
    path.write_text(
        "dimensions: {N: 2, C: 3, K: 4, P: 5, R: 3}\n"
        "tensors:\n"
        "  Y: [N, K, P]\n"
        "  W: [K, C, R]\n"
        "  X: [N, C, 2*P + R]\n"
        "output: Y\n"
    )
    found = workload(path)
    assert (found.name, found.family) == ("strided", "einsum")
    assert found.dimension_names == ("N", "C", "K", "P", "R")
    assert written(found) == ["W[K, C, R]", "X[N, C, 2*P + R]", "Y[N, K, P]"]
    assert found == workload(str(path))


def test_file_with_a_family(tmp_path: Path) -> None:
    path = tmp_path / "layer.yml"
    path.write_text("name: mine\ncnn: {N: 2, K: 4, C: 3, P: 5, Q: 6, R: 3, S: 2, stride: 2}\n")
    assert workload(path) == cnn("mine", **LAYER, stride=2)


def test_mapping() -> None:
    assert workload({"cnn": LAYER}).name == cnn(**LAYER).name
    assert workload({"name": "mine", "gemm": {"M": 2, "N": 3, "K": 4}}).name == "mine"
    assert workload(PRODUCT).name == "einsum"


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "layer.yaml"
    path.write_text("gemm: {M: 2.5, N: 3, K: 4}\n")
    assert refusal(path) == f"{path}: gemm.M: expected a whole number, got 2.5."
    path.write_text("gemm: {M: 2147483648, N: 2147483648, K: 4}\n")
    assert refusal(path).startswith(f"{path}: dimensions: 1.84e+19 multiply-accumulates are ")
    assert refusal(tmp_path / "absent.yaml").endswith("cannot be read: No such file or directory.")
    assert refusal("absent.yaml").startswith("absent.yaml: cannot be read")


def nest(**changes: Any) -> dict[str, Any]:
    return {**PRODUCT, **changes}


def tensors(**changes: Any) -> dict[str, Any]:
    return nest(tensors={**PRODUCT["tensors"], **changes})


MANY = {f"D{number}": 2 for number in range(10)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "expected either one of cnn, conv1d, gemm, mttkrp with its sizes, or dimensions, ten"),
        (
            {**PRODUCT, "gemm": {"M": 2, "N": 3, "K": 4}},
            "expected either one of cnn, conv1d, gemm, mttkrp with its sizes, or dimensions, "
            "tensors, output together; got gemm, dimensions, tensors, output.",
        ),
        (
            {"cnn": {**LAYER, "stide": 2}},
            f"cnn.stide: unknown key; did you mean stride? {CNN_KEYS}",
        ),
        (
            {"dimension": {"M": 2}},
            "dimension: unknown key; did you mean dimensions? Known keys: name, cnn, conv1d, gemm,",
        ),
        ({"cnn": LAYER, "stride": 2}, "stride: unknown key"),
        ({"gemm": {"M": 2, "N": 3}}, "gemm: missing K. Known keys: M, N, K."),
        ({"gemm": {"M": 0, "N": 3, "K": 4}}, "gemm.M: expected at least 1, got 0."),
        ({"gemm": {"M": -2, "N": 3, "K": 4}}, "gemm.M: expected at least 1, got -2."),
        ({"gemm": {"M": 2.5, "N": 3, "K": 4}}, "gemm.M: expected a whole number, got 2.5."),
        ({"gemm": {"M": 2.0, "N": 3, "K": 4}}, "gemm.M: expected a whole number, got 2.0."),
        ({"gemm": {"M": True, "N": 3, "K": 4}}, "gemm.M: expected a whole number, got true."),
        ({"gemm": {"M": None, "N": 3, "K": 4}}, "gemm.M: expected a whole number, got nothing"),
        ({"gemm": [2, 3, 4]}, "gemm: expected a mapping, got [2, 3, 4]."),
        (nest(dimensions={"M": 0, "N": 3, "K": 4}), "dimensions.M: expected at least 1, got 0."),
        (nest(dimensions={"M": 1.5, "N": 3, "K": 4}), "dimensions.M: expected a whole number, "),
        (nest(dimensions={}), "dimensions: expected 1 or more entries, got {}."),
        (
            nest(dimensions={"M M": 1}),
            "dimensions.M M: expected a letter followed by letters, digits and underscores, got",
        ),
        (
            tensors(A=["M", "X"]),
            "tensors.A: the axis 'X' names the unknown dimension 'X'; known dimensions: M, N, K.",
        ),
        (
            tensors(A=["M", "2*K + X"]),
            "tensors.A: the axis '2*K + X' names the unknown dimension 'X'; known dimensions: M, ",
        ),
        (
            tensors(A=["M", "K", "M"]),
            "tensors.A: the axis 'M' uses the dimension 'M' a second time; a dimension may index",
        ),
        (
            tensors(A=["M", "K + K"]),
            "tensors.A: the axis 'K + K' uses the dimension 'K' a second time; a dimension may ",
        ),
        (
            nest(dimensions={"M": 2, "N": 3, "K": 4, "L": 5}),
            "dimensions.L: no tensor has an axis over 'L'.",
        ),
        (
            tensors(Z=["M + N"]),
            "tensors.Z: the axis 'M + N' belongs to the output, whose axes must each be one dime",
        ),
        (
            tensors(Z=["2*M", "N"]),
            "tensors.Z: the axis '2*M' belongs to the output, whose axes must each be one dimens",
        ),
        (tensors(A=["M", "0*K"]), "tensors.A[1]: expected a sum of dimensions with positive whole"),
        (tensors(A=["M", "-K"]), "tensors.A[1]: expected a sum of dimensions with positive whole"),
        (tensors(A=["M", "-2*K"]), "tensors.A[1]: expected a sum of dimensions with positive who"),
        (tensors(A=["M", "1.5*K"]), "tensors.A[1]: expected a sum of dimensions with positive wh"),
        (tensors(A=["M", "2*K*3"]), "tensors.A[1]: expected a sum of dimensions with positive wh"),
        (tensors(A=["M", "K +"]), "tensors.A[1]: expected a sum of dimensions with positive whol"),
        (tensors(A=["M", ""]), "tensors.A[1]: expected a sum of dimensions with positive whole c"),
        (tensors(A=["M", 4]), "tensors.A[1]: expected a sum of dimensions with positive whole co"),
        (tensors(A="M, K"), "tensors.A: expected a list, got 'M, K'."),
        (
            nest(dimensions=MANY, tensors={"A": list(MANY), "Z": ["D0"]}),
            "dimensions: expected at most 9, got 10.",
        ),
        (nest(output=None), "missing output beside dimensions, tensors."),
        (nest(output=["Z", "A"]), "output: expected the name of exactly one tensor, got ['Z', 'A"),
        (nest(output=[]), "output: expected the name of exactly one tensor, got []; oper"),
        (nest(output="Y"), "output: expected one of the tensors A, B, Z, got 'Y'."),
        (
            nest(dimensions={"M": 2, "N": 2}, tensors={"Z": ["M", "N"]}),
            "tensors: expected at least one input, then exactly one output, got 0 inputs and 1 ",
        ),
        ({**PRODUCT, "name": ""}, "name: expected one line of text, neither empty nor surrounded"),
        (
            {"cnn": {**LAYER, "stride": 2**30, "P": 2**20, "Q": 2**20}},
            "dimensions: 1.58e+14 multiply-accumulates are too many: accesses are counted exactly, "
            "in 64 bits, which hold those of at most",
        ),
    ],
)
def test_refusals(data: dict[str, Any], message: str) -> None:
    assert refusal(data).startswith(f"workload: {message}")


def test_the_limit_of_exact_counting_is_where_it_is_said_to_be() -> None:
    # 8 bytes per count: macs x 8 must stay below 2**62.
    sizes = {"M": 2**30, "N": 2**29, "K": 1}
    with pytest.raises(ConfigError, match=r"at most 5.76e\+17 multiply-accumulates of such"):
        gemm(**sizes)
    assert gemm(**{**sizes, "N": 2**29 - 1}).macs == 2**59 - 2**30
    # An axis 2*P + R of total coefficient 3 lowers the limit threefold.
    line = {"R": 2, "K": 2**28, "stride": 2}
    largest = (2**62 - 1) // (8 * 3 * 2 * 2**28)
    assert conv1d(P=largest, **line).macs == 2 * 2**28 * largest
    with pytest.raises(ConfigError, match=r"at most 1.92e\+17 multiply"):
        conv1d(P=largest + 1, **line)


@pytest.mark.parametrize("size", [2**32 + 1, 36_028_797_018_963_913])
def test_sizes_whose_divisors_take_long_are_refused(size: int) -> None:
    """The second is near 2**55 and has no small factors: trial division would take hours."""
    expected = rf"dimensions\.M: expected at most 2\*\*32 = 4,294,967,296, got {size:,}\."
    for make in (lambda: gemm(M=size, N=1, K=1), lambda: workload(f"gemm:M={size},N=1,K=1")):
        with pytest.raises(ConfigError, match=expected):
            make()
    assert gemm(M=2**32, N=1, K=1).macs == 2**32


# The written form of an axis


@given(
    st.lists(
        st.tuples(st.sampled_from("MNKPQRS"), st.integers(1, 10**6)),
        min_size=1,
        unique_by=lambda t: t[0],
    )
)
def test_axes_are_read_back_as_written(terms: list[tuple[str, int]]) -> None:
    axis = Axis(terms=tuple(terms))
    assert Axis.model_validate(str(axis)) == axis


def test_axis_spellings() -> None:
    expected = Axis(terms=(("P", 2), ("R", 1)))
    for text in ("2*P+R", " 2 * P + R ", "P*2 + 1*R"):
        assert Axis.model_validate(text) == expected


def test_direct_construction_checks_the_same() -> None:
    layer = cnn(**LAYER)
    content = {"name": "x", "family": "einsum", "dimensions": layer.dimensions}
    turned = (layer.tensors[2], *layer.tensors[:2])
    with pytest.raises(ValueError, match="output not last"):
        Workload(**content, tensors=turned)
    with pytest.raises(ValueError, match="2 outputs"):
        Workload(**content, tensors=(layer.tensors[2], layer.tensors[2]))
    with pytest.raises(ValueError, match="given to two tensors"):
        Workload(**content, tensors=(layer.tensors[0], *layer.tensors))


def test_looking_up_a_preset_imports_nothing_slow() -> None:
    code = (
        "import sys; from costmodel.problems.workloads import workload; workload('vgg16-conv1_1');"
        "slow = {'ray', 'torch', 'mlflow', 'pandas', 'matplotlib'};"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
