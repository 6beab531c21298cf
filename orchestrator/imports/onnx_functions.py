"""Local functions of an ONNX model, written out where they are called.

Ten functions that call each other ten times are ten billion nodes, in 2 kB of file: they are
counted first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mapspace.bounded_reading import DEEPEST
from mapspace.errors import ConfigError

MOST_NODES = 100_000
"""Nodes of a model, those that calls of its functions stand for included."""

MOST_BYTES = 1 << 28
"""Bytes that these may take: constants are copied with the function that holds them."""


class _Size(NamedTuple):
    nodes: int
    size: int


class _Functions:
    """The functions of a model by what calls them."""

    def __init__(self, model: Any, where: str) -> None:
        self._found = {(one.domain, one.name): one for one in model.functions}
        self._sizes: dict[tuple[str, str], _Size] = {}
        self._opened: list[tuple[str, str]] = []
        self._where = where

    def size_of(self, nodes: Iterable[Any]) -> _Size:
        """What nodes are once all calls among them are written out.

        Raises:
            ConfigError: a function calls itself, or there are too many levels, nodes or bytes.
        """
        count = size = 0
        for node in _with_branches(nodes):
            key = (node.domain, node.op_type)
            # What stands in the graph itself is copied once.
            own = node.ByteSize() if self._opened else 0
            more = self._called(key) if key in self._found else _Size(1, own)
            count, size = count + more.nodes, size + more.size
            if count > MOST_NODES:
                raise ConfigError(
                    f"{self._where}: expected at most {MOST_NODES:,} nodes, those that calls of "
                    "its functions stand for included."
                )
            if size > MOST_BYTES:
                raise ConfigError(
                    f"{self._where}: expected at most {MOST_BYTES:,} bytes of what its functions "
                    "stand for."
                )
        return _Size(count, size)

    def _called(self, key: tuple[str, str]) -> _Size:
        """What a call is."""
        if key in self._opened:
            raise ConfigError(f"{self._where}: the function {key[1]} calls itself.")
        if len(self._opened) == DEEPEST:
            raise ConfigError(f"{self._where}: expected at most {DEEPEST} levels of functions.")
        if key not in self._sizes:
            self._opened.append(key)
            self._sizes[key] = self.size_of(self._found[key].node)
            self._opened.pop()
        return self._sizes[key]


def _with_branches(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of the graphs that they hold: branches, bodies of loops."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                left.extend(graph.node)


def inlined(model: Any, where: str) -> Any:
    """A model without local functions.

    Args:
        model: of ONNX.
        where: the model's file, which messages start with.

    Raises:
        ConfigError: a function calls itself, or there would be too much of it.
    """
    import onnx.inliner

    _Functions(model, where).size_of(model.graph.node)
    return onnx.inliner.inline_local_functions(model) if model.functions else model
