"""A network that was read: its layers, what it moves, and what is not known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from costmodel.networks.network_files import ReadLayer, ReadNetwork, distinct_layers, network_text
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from mapspace.arguments import checked
from mapspace.errors import ConfigError
from mapspace.storage import Place, place, write_atomically
from orchestrator.imports.layers import layers_of, softmax_words
from orchestrator.imports.operators import Attention, Moved, Node, Unknown

# Unknown operators that an error names.
MOST_NAMED = 5


class MovedWords(NamedTuple):
    """A node that costs no multiply-accumulates."""

    node: str
    operator: str
    words: int
    """Words that it reads and writes; 0 for another view of the same words."""

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}) moves {self.words:,} words"


class UnknownNode(NamedTuple):
    """A node of whose multiply-accumulates nothing is known."""

    node: str
    operator: str
    why: str
    follows: bool = False
    """Whether another node's being unknown may be the reason."""

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}): {self.why}"


@dataclass(frozen=True)
class ImportedNetwork:
    """A network of another tool as layers that can be searched."""

    name: str
    source: str
    """What it was read from."""
    nodes: tuple[ReadLayer, ...]
    """Its layers in its order, equal ones too."""
    moved: tuple[MovedWords, ...]
    """Nodes without multiply-accumulates."""
    unknown: tuple[UnknownNode, ...]
    """Nodes of which nothing is known: no figure has them."""

    @property
    def network(self) -> ReadNetwork:
        """What the network's file says."""
        return ReadNetwork(
            name=self.name,
            layers=self.nodes,
            source=self.source,
            without_macs=tuple(map(str, self.moved)),
            left_out=tuple(map(str, self.unknown)),
        )

    @property
    def content(self) -> dict[str, Any]:
        """What the network's file holds, as `search_network` takes it."""
        network = self.network
        return {
            "name": self.name,
            "layers": distinct_layers(network),
            "left_out": list(network.left_out),
        }

    @cached_property
    def layers(self) -> tuple[tuple[Workload, int], ...]:
        """Each distinct layer, under the name of its first node, and how often it occurs."""
        entries = distinct_layers(self.network)
        counts = [entry.pop("count") for entry in entries]
        return tuple(zip(map(workload, entries), counts, strict=True))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(count * layer.macs for layer, count in self.layers)

    @property
    def moved_words(self) -> int:
        """Words read and written by the nodes without multiply-accumulates."""
        return sum(node.words for node in self.moved)

    def to_yaml(self) -> str:
        """The network's file, which `search --network` reads."""
        return network_text(self.network)

    @checked
    def save(self, path: str | Place) -> None:
        """Writes the network's file."""
        write_atomically(place(path), self.to_yaml().encode())

    def __str__(self) -> str:
        count = sum(count for _, count in self.layers)
        lines = [
            f"{self.name}: {self.macs:,} multiply-accumulates in {count:,} layers, "
            f"{len(self.layers):,} of them distinct",
            f"{len(self.moved):,} nodes without multiply-accumulates move "
            f"{self.moved_words:,} words",
        ]
        return "\n".join([*lines, *(f"not known: {one}" for one in self.unknown)])


def build_network(name: str, nodes: Iterable[Node], source: str) -> ImportedNetwork:
    """Opens nodes into layers.

    Args:
        name: the network's.
        nodes: in the order of the network.
        source: what it is read from, which error messages start with.

    Raises:
        ConfigError: a node's sizes make no workload, or no node is a layer.
    """
    layers: list[ReadLayer] = []
    moved: list[MovedWords] = []
    unknown: list[UnknownNode] = []
    for node in nodes:
        title, operator, work = _line(node.name), _line(node.operator), node.work
        if isinstance(work, Unknown):
            unknown.append(UnknownNode(title, operator, _line(work.why), work.follows))
            continue
        if isinstance(work, Moved):
            moved.append(MovedWords(title, operator, work.words))
            continue
        if isinstance(work, Attention):
            moved.append(MovedWords(f"{title}.softmax", operator, softmax_words(work)))
        where = f"{source}: node {title} ({operator})"
        try:
            parts = layers_of(work)
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{where}: its sizes do not fit: {error}.") from error
        for layer in parts:
            called = f"{title}.{layer.suffix}" if layer.suffix else title
            layers.append(ReadLayer(called, layer.content, where, layer.count))
    if not layers:
        named = f"; not known: {unknown[0]}" if unknown else ""
        raise ConfigError(f"{source}: no node has multiply-accumulates that are known{named}.")
    found = ImportedNetwork(_line(name), _line(source), tuple(layers), tuple(moved), tuple(unknown))
    assert found.layers  # sizes that make no workload are refused here
    return found


def refuse_unknown(found: ImportedNetwork, switch: str) -> None:
    """Refuses operators that no rule knows: totals would lack them.

    Args:
        found: what was read.
        switch: what leaves them out.

    Raises:
        ConfigError: the first of them, and what would be counted.
    """
    if not found.unknown:
        return
    # Who mends the first may mend those that follow.
    causes = sorted(found.unknown, key=lambda one: one.follows)
    named = "; ".join(map(str, causes[:MOST_NAMED]))
    more = len(found.unknown) - MOST_NAMED
    raise ConfigError(
        f"{found.source}: unknown operators: {named}{f' (and {more:,} more)' if more > 0 else ''}; "
        f"with {switch} {len(found.nodes):,} layers of {found.macs:,} multiply-accumulates are "
        f"counted, and {found.moved_words:,} words that others move."
    )


def _line(text: str) -> str:
    """Text that a network's file takes for a name."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"\s+", " ", printable).strip()[:200].strip() or "unnamed"
