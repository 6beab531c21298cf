"""Shapes of an ONNX model, node by node: what is computed of sizes alone is computed here.

Exporters write sizes as nodes (`Shape`, `Gather`, `Mul`, `Concat`, `Reshape`). Once the inputs'
sizes are fixed these are small constants, and so are conditions of branches that depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mapspace.errors import ConfigError
from orchestrator.imports.onnx_contrib import as_standard, outputs_of

LARGEST_KEPT = 1024
"""Elements of what is computed: shapes and axes are small, what is larger is a weight."""
_RANDOM = frozenset({"RandomNormal", "RandomUniform", "Multinomial", "Bernoulli"})


class Shapes:
    """What is known of each tensor of a graph: its type, its shape, and its words where few."""

    def __init__(self, model: Any, values: Mapping[str, int], where: str) -> None:
        import onnx

        self._onnx = onnx
        self._opsets = list(model.opset_import)
        self._versions = {one.domain: one.version for one in model.opset_import}
        self._where = where
        self._types: dict[str, Any] = {}
        self._words: dict[str, np.ndarray[Any, Any]] = {}
        self._made: dict[str, Any] = {}
        for value in model.graph.input:
            self._types[value.name] = value.type
        for name, number in values.items():
            kind = self._types[name].tensor_type
            shape = [size.dim_value for size in kind.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            self._keep(name, np.full(shape, number, dtype=dtype))

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """The sizes of a tensor, None for those that are not known; None: not even how many."""
        found = self._types.get(name)
        if found is None or not found.HasField("tensor_type"):
            return None
        if not found.tensor_type.HasField("shape"):
            return None
        return tuple(
            size.dim_value if size.HasField("dim_value") else None
            for size in found.tensor_type.shape.dim
        )

    def origins(self, name: str) -> list[str]:
        """The inputs of the graph that a tensor is computed of."""
        left, seen, found = [name], {name}, []
        while left:
            one = left.pop()
            node = self._made.get(one)
            if node is None and one not in self._words:
                found.append(one)
            for inner in () if node is None else node.input:
                if inner and inner not in seen:
                    seen.add(inner)
                    left.append(inner)
        return found

    def walk(self, graph: Any) -> Iterator[Any]:
        """The nodes that run, those of a branch that is known to be taken in its place.

        Raises:
            ConfigError: a node whose shapes do not fit.
        """
        for tensor in graph.initializer:
            self._give(tensor)
        for node in graph.node:
            self._made.update(dict.fromkeys(node.output, node))
            if node.op_type == "If" and node.input[0] in self._words:
                taken = bool(self._words[node.input[0]].reshape(-1)[0])
                name = "then_branch" if taken else "else_branch"
                (branch,) = (one.g for one in node.attribute if one.name == name)
                yield from self.walk(branch)
                for outer, inner in zip(node.output, branch.output, strict=True):
                    self._copy(inner.name, outer)
                continue
            try:
                self._read(node)
            except ConfigError:
                raise
            except Exception as error:  # ONNX's own errors, and those of its C++ code
                reason = " ".join(str(error).split())[:200]
                raise ConfigError(
                    f"{self._where}: its shapes cannot be inferred: node {node.name} "
                    f"({node.op_type}): {reason}"
                ) from error
            if not all(name in self._words for name in node.output if name):
                yield node

    def _read(self, node: Any) -> None:
        """Learns what a node gives."""
        onnx = self._onnx
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self._constant(node)
            return
        found = self.shape(node.input[0]) if node.op_type in ("Shape", "Size") else None
        if found is not None and None not in found:
            ends = {one.name: one.i for one in node.attribute}
            words = np.array(found, dtype=np.int64)[ends.get("start") : ends.get("end")]
            if node.op_type == "Size":
                words = np.array(math.prod(size or 0 for size in found), dtype=np.int64)
            self._keep(node.output[0], words)
            return
        known = [name for name in node.input if name]
        self._infer(node, known)
        graphs = any(one.g.node or one.graphs for one in node.attribute)
        constant = known and all(name in self._words for name in known)
        if constant and not graphs and node.op_type not in _RANDOM and self._small(node):
            model = onnx.helper.make_model(
                onnx.helper.make_graph(
                    [node],
                    "sizes",
                    [onnx.helper.make_value_info(name, self._types[name]) for name in set(known)],
                    [onnx.helper.make_empty_tensor_value_info(name) for name in node.output],
                ),
                opset_imports=self._opsets,
            )
            from onnx.reference import ReferenceEvaluator

            given = {name: self._words[name] for name in known}
            for name, words in zip(
                node.output, ReferenceEvaluator(model).run(None, given), strict=True
            ):
                self._keep(name, np.asarray(words))

    def _small(self, node: Any) -> bool:
        """Whether what a node of constants gives is small, as far as is known."""
        counts = []
        for name in node.output:
            shape = self.shape(name)
            if shape is None or (None in shape and node.op_type != "NonZero"):
                return False
            counts.append(math.prod(size or 0 for size in shape))
        return max(counts, default=0) <= LARGEST_KEPT

    def _infer(self, node: Any, known: list[str]) -> None:
        onnx = self._onnx
        standard = as_standard(node, self.shape)
        if standard is not node:
            self._infer_like(node, standard)
            return
        domain = "" if node.domain == "ai.onnx" else node.domain
        if not onnx.defs.has(node.op_type, self._versions.get(domain, 0), domain):
            return
        if any(name not in self._types for name in known):
            return
        schema = onnx.defs.get_schema(node.op_type, self._versions[domain], domain)
        types = {name: self._types[name] for name in known}
        data = {
            name: onnx.numpy_helper.from_array(self._words[name], name)
            for name in known
            if name in self._words
        }
        graphs = any(one.g.node or one.graphs for one in node.attribute)
        if graphs:  # bodies of loops, which no rule reads
            return
        self._types.update(
            onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._opsets
            )
        )

    def _infer_like(self, node: Any, standard: Any) -> None:
        """Learns what a node gives of one that it is like, which knows no quantised weights."""
        onnx = self._onnx
        shapes = {name: self.shape(name) for name in standard.input if name}
        if any(shape is None or None in shape for shape in shapes.values()):
            return
        version = self._versions[""]
        if not onnx.defs.has(standard.op_type, version, ""):
            return
        types = {
            name: onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        }
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(standard.op_type, version, ""),
            standard,
            types,
            {},
            opset_imports=self._opsets,
        )
        self._types.update(outputs_of(node, standard, self._types, found))

    def _constant(self, node: Any) -> None:
        (given,) = node.attribute
        if given.name == "value":
            given.t.name = node.output[0]
            self._give(given.t)
            return
        value = self._onnx.helper.get_attribute_value(given)
        if given.name in ("value_float", "value_floats"):
            self._keep(node.output[0], np.array(value, dtype=np.float32))
        elif given.name in ("value_int", "value_ints"):
            self._keep(node.output[0], np.array(value, dtype=np.int64))

    def _give(self, tensor: Any) -> None:
        """An initializer: its words where they are few and in the file."""
        onnx = self._onnx
        small = math.prod(tensor.dims) <= LARGEST_KEPT
        if small and tensor.data_location != onnx.TensorProto.EXTERNAL:
            self._keep(tensor.name, onnx.numpy_helper.to_array(tensor))
        else:
            self._types[tensor.name] = onnx.helper.make_tensor_type_proto(
                tensor.data_type, list(tensor.dims)
            )

    def _keep(self, name: str, words: np.ndarray[Any, Any]) -> None:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(words.dtype)
        self._types[name] = self._onnx.helper.make_tensor_type_proto(kind, list(words.shape))
        self._words[name] = words

    def _copy(self, inner: str, outer: str) -> None:
        if inner in self._types:
            self._types[outer] = self._types[inner]
        if inner in self._words:
            self._words[outer] = self._words[inner]
