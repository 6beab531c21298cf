"""What a node of a network does: readers make these for each tool, `layers` opens them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """A convolution along one to three axes, or its transpose."""

    images: int
    groups: int
    outputs: int
    """Output channels of one group."""
    inputs: int
    """Input channels of one group."""
    sizes: Shape
    """Of the output, by axis, as the tool has them: height before width."""
    kernel: Shape
    strides: Shape
    dilations: Shape
    padding: Shape = ()
    """Words that a transposed convolution cuts off before the first, by axis."""
    transposed: bool = False


@dataclass(frozen=True)
class Product:
    """`batch` independent products of matrices, `Z[M, N] += A[M, K] B[K, N]`."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Attention:
    """Scaled dot products: queries x keys, a softmax, weights x values."""

    batch: int
    heads: int
    """Of the keys and values."""
    shared: int
    """Heads of the queries that share one of the keys."""
    queries: int
    keys: int
    depth: int
    """Words of a query and of a key."""
    values: int
    """Words of a value."""


@dataclass(frozen=True)
class Recurrent:
    """Cells of a recurrent layer, each a product of all steps' inputs, and one in every step."""

    steps: int
    batch: int
    cells: tuple[tuple[int, int, int, int], ...]
    """Inputs, outputs of all gates, words of the state; words it is projected to, or 0."""


@dataclass(frozen=True)
class Moved:
    """No multiply-accumulates."""

    words: int
    """Words read and written by the node; 0 for another view of the same words."""


@dataclass(frozen=True)
class Unknown:
    """Nothing is known of its multiply-accumulates."""

    why: str
    follows: bool = False
    """Whether another node's being unknown may be the reason."""


Work = Convolution | Product | Attention | Recurrent | Moved | Unknown


@dataclass(frozen=True)
class Node:
    """One node of a network."""

    name: str
    operator: str
    """What its tool calls the operation."""
    work: Work


def matrix_product(left: Sequence[int], right: Sequence[int]) -> Product:
    """A product as NumPy's `matmul` has it: vectors, leading axes, and those that are broadcast.

    An axis of the left operand alone makes more rows, one of the right alone more columns: the
    words of the other operand are the same ones.

    Args:
        left: shape, `[..., M, K]` or `[K]`.
        right: shape, `[..., K, N]` or `[K]`.

    Raises:
        ValueError: the shapes do not fit.
    """
    if not left or not right:
        raise ValueError("an operand of a matrix product has no axis")
    rows = (1, *left) if len(left) == 1 else tuple(left)
    columns = (*right, 1) if len(right) == 1 else tuple(right)
    if rows[-1] != columns[-2]:
        raise ValueError(f"{list(left)} x {list(right)} is no matrix product")
    length = max(len(rows), len(columns)) - 2
    batch, m, n = 1, rows[-2], columns[-1]
    ours = (1,) * (length - len(rows) + 2) + rows[:-2]
    theirs = (1,) * (length - len(columns) + 2) + columns[:-2]
    for one, other in zip(ours, theirs, strict=True):
        if one == other:
            batch *= one
        elif other == 1:
            m *= one
        elif one == 1:
            n *= other
        else:
            raise ValueError(f"{list(left)} x {list(right)} is no matrix product")
    return Product(batch, m, n, rows[-1])


def einsum_product(equation: str, shapes: Sequence[Sequence[int]]) -> Product | Unknown:
    """The matrix product that an einsum of two operands is; others are not known."""
    given, arrow, output = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    plain = all(term.isalpha() and len(set(term)) == len(term) for term in terms)
    if len(terms) != 2 or len(shapes) != 2 or not arrow or not plain:
        return Unknown(f"the einsum {equation} is no product of two tensors without repeats")
    if any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        return Unknown(f"the einsum {equation} does not fit its operands")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return Unknown(f"the einsum {equation} broadcasts {letter}")
    left, right = set(terms[0]), set(terms[1])
    if len(set(output)) != len(output) or not set(output) <= left | right:
        return Unknown(f"the einsum {equation} does not fit its operands")
    if (left ^ right) - set(output):
        return Unknown(f"the einsum {equation} sums over an axis of one operand alone")

    def extent(letters: set[str]) -> int:
        return math.prod(sizes[letter] for letter in letters)

    both = left & right
    return Product(
        batch=extent(both & set(output)),
        m=extent(left - right),
        n=extent(right - left),
        k=extent(both - set(output)),
    )


def attention(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> Attention:
    """Attention over `[..., heads, length, depth]`; heads of the keys may be fewer.

    Raises:
        ValueError: the shapes do not fit.
    """
    fits = len(query) == len(key) == len(value) >= 2
    if not fits or query[-1] != key[-1] or key[-2] != value[-2]:
        raise ValueError("the shapes of queries, keys and values do not fit")
    heads = key[-3] if len(key) > 2 else 1
    ours = query[-3] if len(query) > 2 else 1
    if heads < 1 or ours % heads:
        raise ValueError(f"{ours} heads of queries cannot share {heads} of keys")
    return Attention(
        batch=math.prod(query[:-3]),
        heads=heads,
        shared=ours // heads,
        queries=query[-2],
        keys=key[-2],
        depth=query[-1],
        values=value[-1],
    )


def words_of(shapes: Sequence[Sequence[int]]) -> int:
    """Words of several tensors."""
    return sum(math.prod(shape) for shape in shapes)
