"""PyTorch modules: `torch.export` traces them, with fake tensors, so no weight is looked at."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

from mapspace.arguments import checked, wrong_type
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown, unknown_name
from orchestrator.imports.imported import ImportedNetwork, build_network, refuse_unknown
from orchestrator.imports.operators import (
    Convolution,
    Moved,
    Node,
    Recurrent,
    Shape,
    Unknown,
    Work,
    attention,
    einsum_product,
    matrix_product,
    words_of,
)

# Another view of the same words.
_VIEWS = frozenset(
    """
    view reshape _unsafe_view flatten unflatten squeeze unsqueeze transpose permute t expand
    expand_as slice select narrow split split_with_sizes chunk unbind alias detach contiguous
    movedim swapaxes numpy_T mT view_as dropout dropout_ feature_dropout identity
    lift_fresh_copy diagonal as_strided unfold_copy tensor_split getitem real imag
    """.split()  # noqa: SIM905 - a list of hundreds of lines otherwise
)
# Elementwise, along an axis, or in windows without weights; in-place ones (`relu_`) likewise.
_MOVING = frozenset(
    """
    add sub rsub mul div neg abs exp log sqrt rsqrt pow reciprocal square sin cos tanh sigmoid
    erf relu relu6 gelu silu mish elu leaky_relu prelu hardswish hardsigmoid hardtanh softplus
    clamp clamp_min clamp_max maximum minimum where masked_fill eq ne lt le gt ge logical_not
    logical_and logical_or bitwise_not bitwise_and floor_divide remainder floor ceil softmax
    _softmax log_softmax batch_norm layer_norm group_norm instance_norm rms_norm mean sum amax
    amin max min var std any all prod cumsum argmax argmin topk sort max_pool1d max_pool2d
    max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool2d cat stack concat pad constant_pad_nd roll flip tril
    triu clone to _to_copy type_as copy arange zeros ones full zeros_like ones_like full_like
    empty_like new_zeros new_ones repeat repeat_interleave upsample_nearest2d
    upsample_bilinear2d pixel_shuffle scalar_tensor glu scatter scatter_add gather index_put
    linspace outer_ tile
    """.split()  # noqa: SIM905 - a list of hundreds of lines otherwise
)
# Rows are looked up: the table as a whole is not read.
_LOOKUPS = frozenset({"embedding", "index", "index_select"})


@checked
def from_torch(
    module: Any,
    example_inputs: Annotated[Sequence[Any], "a list of tensors"] = (),
    *,
    keywords: Mapping[str, Any] | None = None,
    name: str | None = None,
    sizes: Mapping[str, int] | None = None,
    skip_unknown: bool = False,
) -> ImportedNetwork:
    """Reads the layers of a PyTorch module, by `torch.export`.

    No weight is looked at: a module on the device `meta` will do.

    Args:
        module: a `torch.nn.Module`, or a `torch.export.ExportedProgram` as it is.
        example_inputs: tensors whose shapes the network is to have.
        keywords: such inputs by name.
        name: the network's; None: the module's class.
        sizes: of axes that an export left open, by place (`x.0`) or by its symbol (`s17`).
        skip_unknown: leave out operators that no rule knows, which `unknown` then lists.

    Raises:
        ConfigError: it cannot be traced, has dynamic shapes or unknown operators, or has no layer.
    """
    import torch

    called = name or type(module).__name__
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    elif isinstance(module, torch.nn.Module):
        try:
            with warnings.catch_warnings(), _unlogged("torch._subclasses.fake_tensor"):
                # Of recurrent modules it warns of weights that it lays out anew.
                warnings.filterwarnings("ignore", "The tensor attributes", UserWarning)
                program = torch.export.export(module, tuple(example_inputs), dict(keywords or {}))
        except Exception as error:  # whatever the module's own code raises
            reason = str(error).strip().splitlines()[:1] or [""]
            raise ConfigError(
                f"{called}: torch.export cannot trace it: {type(error).__name__}: {reason[0]}"
            ) from error
    else:
        raise wrong_type("module", "a torch.nn.Module or ExportedProgram", module)
    fixed = _Fixed(called, _values(program, called, sizes or {}))
    found = build_network(called, _nodes(program, fixed), called)
    if not skip_unknown:
        refuse_unknown(found, "skip_unknown=True")
    return found


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Keeps a library's traceback of an error off the screen, which is raised as well."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


class _Fixed(NamedTuple):
    """What a network is called, and its open sizes by symbol."""

    name: str
    values: Mapping[str, int]


def _values(program: Any, called: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes by symbol, of places of inputs too.

    Raises:
        ConfigError: no axis is open that a size was given for.
    """
    places = {}
    for node in program.graph.nodes:
        for tensor in _tensors(node) if node.op == "placeholder" else ():
            for axis, size in enumerate(tensor.shape):
                if not isinstance(size, int):
                    places[f"{node.name}.{axis}"] = str(size)
    known = {*places, *places.values()}
    found = {}
    for key, size in sizes.items():
        if key not in known:
            raise ConfigError(f"{called}: sizes: {unknown_name('open axis', key, sorted(known))}")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"{called}: sizes[{key}]: expected at least 1, got {shown(size)}.")
        found[places.get(key, key)] = size
    return found


def _nodes(program: Any, where: _Fixed) -> Iterator[Node]:
    for node in program.graph.nodes:
        title = _path(node) or node.name
        if node.op == "placeholder":
            _shapes([node], where)
        if node.op != "call_function":
            continue
        target = getattr(node.target, "__name__", str(node.target))
        operator = target.split(".")[0]
        if operator.endswith("_") and not operator.startswith("__"):
            operator = operator[:-1]
        if not hasattr(node.target, "_schema") and operator != "getitem":
            # Assertions and sizes of Python have no tensor.
            if _tensors(node):
                yield Node(node.name, target, Unknown("no rule for this operator"))
            continue
        if not _tensors(node):
            continue
        try:
            work = _work(operator, node, where)
        except (ValueError, IndexError, TypeError) as error:
            if isinstance(error, ConfigError):
                raise
            work = Unknown(str(error) or type(error).__name__)
        layer = not isinstance(work, Moved | Unknown)
        yield Node(title if layer else node.name, target, work)


def _path(node: Any) -> str:
    """Where in the module a node comes from, such as `layer1.0.conv1`."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return str(stack[-1][0]) if stack else ""


def _tensors(node: Any) -> list[Any]:
    """The tensors that a node gives."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if hasattr(one, "shape")]


def _shapes(nodes: Sequence[Any], where: _Fixed) -> list[Shape]:
    """Shapes of what nodes give.

    Raises:
        ConfigError: a size is not fixed.
    """
    found = []
    for node in nodes:
        for tensor in _tensors(node):
            sizes = []
            for axis, size in enumerate(tensor.shape):
                fixed = size if isinstance(size, int) else _fixed(size, where.values)
                if fixed is None:
                    raise ConfigError(
                        f"{where.name}: dynamic shape: axis {axis} of {node.name} is {size}; give "
                        f'sizes={{"{node.name}.{axis}": N}}, or export it with fixed shapes.'
                    )
                sizes.append(fixed)
            found.append(tuple(sizes))
    return found


def _fixed(size: Any, values: Mapping[str, int]) -> int | None:
    """What a size that was left open comes to; None where it stays open."""
    worth = size.node.expr.subs({one: values.get(str(one), one) for one in size.node.expr.atoms()})
    return int(worth) if worth.is_Integer else None


def _work(operator: str, node: Any, where: _Fixed) -> Work:
    given = _shapes(node.all_input_nodes, where)
    made = _shapes([node], where)
    if operator in _VIEWS:
        return Moved(0)
    if operator in _MOVING:
        return Moved(words_of(given) + words_of(made))
    if operator in _LOOKUPS:
        # Indices, the rows that are read, and the same rows written.
        return Moved(
            words_of(given[1:] if operator != "embedding" else given[1:2]) + 2 * words_of(made)
        )
    arguments = _arguments(node)

    def shape(key: str) -> Shape:
        return _shapes([arguments[key]], where)[0]

    if operator.startswith(("conv", "_convolution")):
        return _convolution(operator, arguments, shape, made[0])
    if operator == "linear":
        weight = shape("weight")
        return matrix_product(shape("input"), weight[::-1])
    if operator in ("matmul", "mm", "bmm", "mv", "dot"):
        left, right = _shapes(node.all_input_nodes * (2 if len(given) == 1 else 1), where)
        return matrix_product(left, right)
    if operator in ("addmm", "baddbmm"):
        first, second = ("mat1", "mat2") if operator == "addmm" else ("batch1", "batch2")
        return matrix_product(shape(first), shape(second))
    if operator == "einsum":
        return einsum_product(arguments["equation"], _shapes(arguments["tensors"], where))
    if operator in ("lstm", "gru", "rnn_tanh", "rnn_relu") and "params" in arguments:
        weights = _shapes(arguments["params"], where)
        return _recurrent(arguments, shape("input"), weights)
    if operator in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"):
        (gates, inputs), state = shape("w_ih"), shape("w_hh")[1]
        cell = (inputs, gates, state, 0)
        return Recurrent(1, words_of([shape("input")]) // inputs, (cell,))
    if operator == "scaled_dot_product_attention":
        return attention(shape("query"), shape("key"), shape("value"))
    return Unknown("no rule for this operator")


def _recurrent(arguments: Mapping[str, Any], source: Shape, weights: Sequence[Shape]) -> Work:
    """Cells of all layers and directions, of weights of the inputs, the state, a projection."""
    matrices = [weight for weight in weights if len(weight) == 2]
    cells = arguments["num_layers"] * (2 if arguments["bidirectional"] else 1)
    each = len(matrices) // cells
    found = []
    for first in range(0, len(matrices), each):
        (gates, inputs), (_, state), *projection = matrices[first : first + each]
        found.append((inputs, gates, state, projection[0][0] if projection else 0))
    steps, batch = source[1::-1] if arguments["batch_first"] else source[:2]
    return Recurrent(steps, batch, tuple(found))


def _arguments(node: Any) -> dict[str, Any]:
    """Arguments of an operator by name, defaults too."""
    found = {}
    for index, argument in enumerate(node.target._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        if index < len(node.args):
            found[argument.name] = node.args[index]
        else:
            found[argument.name] = node.kwargs.get(argument.name, default)
    return found


def _convolution(operator: str, arguments: Mapping[str, Any], shape: Any, made: Shape) -> Work:
    source, weight = shape("input"), shape("weight")
    axes = len(weight) - 2
    transposed = "transpose" in operator or bool(arguments.get("transposed"))
    groups = int(arguments["groups"])

    def each(key: str) -> Shape:
        value = arguments[key]
        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        return values * axes if len(values) == 1 else values

    batched = len(source) == axes + 2
    return Convolution(
        images=source[0] if batched else 1,
        groups=groups,
        outputs=weight[1] if transposed else weight[0] // groups,
        inputs=weight[0] // groups if transposed else weight[1],
        sizes=made[-axes:],
        kernel=weight[2:],
        strides=each("stride"),
        dilations=each("dilation"),
        padding=each("padding") if transposed else (),
        transposed=transposed,
    )
