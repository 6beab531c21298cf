"""What one operator reads of another, and what is done to it on the way."""

from __future__ import annotations

from costmodel.networks.moves import Words
from costmodel.problems.affine import Tensor, Workload

GATING = "activation"
"""What may make one column of two: of a gate, and of what it gates, side by side."""


def read_tensor(operator: Workload) -> Tensor:
    """The one tensor of role input that an operator reads."""
    roles = operator.roles
    return next(one for one in operator.tensors if roles[one.name] == "input")


def is_gated(between: str | None, writer: Workload, reader: Workload) -> bool:
    """Whether an activation multiplies half of the columns that are written by the other half.

    Args:
        between: what is done on the way.
        writer: the operator that writes.
        reader: the one that reads.
    """
    own, mine = writer.tensors[-1].axes[-1:], read_tensor(reader).axes[-1:]
    if between != GATING or not own or not mine or len(mine[0].terms) > 1:
        return False
    (name, step), written = mine[0].terms[0], own[0].terms[0][0]
    return step == 1 and writer.dimensions[written] == 2 * reader.dimensions[name]


def changed_words(between: str | None, writer: Workload, reader: Workload) -> Words:
    """Words that an operator between two others reads, and those that it writes."""
    words = writer.words(-1)
    return Words(words, words // 2 if is_gated(between, writer, reader) else words)
