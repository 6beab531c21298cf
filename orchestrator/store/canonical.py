"""One form for all workloads that differ in names and orders alone.

Dimensions are told apart by their sizes and by the axes they stand in, over and over until nothing
changes (colour refinement, Weisfeiler and Leman 1968). Where several still look alike each of them
is tried as the first, and the least form counts. Two equal forms are the same workload under other
names, whichever order was found: equality needs no trust in the search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.problems.affine import Workload

Colours = dict[str, int]
# A tensor without names: whether it is the output, its role with the bits of a value where they are
# said, its axes as (dimension, coefficient).
_Written = tuple[bool, str, tuple[tuple[tuple[int, int], ...], ...]]


@dataclass(frozen=True)
class Canonical:
    """A workload without names.

    Attributes:
        dimensions: the workload's own names, in canonical order.
        tensors: likewise.
        form: sizes in that order, then the tensors; equal for workloads that differ in names and
            orders alone.
    """

    dimensions: tuple[str, ...]
    tensors: tuple[str, ...]
    form: tuple[Any, ...]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the form."""
        return digest(self.form)[:16]


@lru_cache(maxsize=1024)
def canonical(workload: Workload) -> Canonical:
    """The form of a workload, and its names in the order of the form."""
    roles = {
        tensor.name: role if tensor.bits is None else f"{role} of {tensor.bits} bits"
        for tensor, role in zip(workload.tensors, workload.roles.values(), strict=True)
    }
    tensors = {
        tensor.name: (tensor.output, roles[tensor.name], [axis.terms for axis in tensor.axes])
        for tensor in workload.tensors
    }
    sizes = workload.dimensions
    order = _order(tensors, sizes, _ranked(dict(sizes)))
    form, names = _form(tensors, sizes, order)
    return Canonical(order, names, form)


def digest(value: Any) -> str:
    """64 hexadecimal digits of the SHA-256 of a value of JSON types."""
    return digest_of(json_text(value))


def json_text(value: Any) -> str:
    """A value of JSON types as the one text that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest_of(text: str) -> str:
    """64 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _form(
    tensors: Mapping[str, Any], sizes: Mapping[str, int], order: tuple[str, ...]
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """A workload written with positions for names, and its tensors in the order of that."""
    at = {name: position for position, name in enumerate(order)}
    written = sorted((_written(tensor, at), name) for name, tensor in tensors.items())
    form = (tuple(sizes[name] for name in order), tuple(entry for entry, _ in written))
    return form, tuple(name for _, name in written)


def _written(tensor: Any, at: Mapping[str, int]) -> _Written:
    output, role, axes = tensor
    terms = (tuple(sorted((at[name], factor) for name, factor in axis)) for axis in axes)
    return output, role, tuple(sorted(terms))


def _order(
    tensors: Mapping[str, Any], sizes: Mapping[str, int], colours: Colours
) -> tuple[str, ...]:
    """The order of the dimensions that gives the least form."""
    colours = _refined(tensors, colours)
    classes: dict[int, list[str]] = {}
    for name, colour in colours.items():
        classes.setdefault(colour, []).append(name)
    alike = next((classes[colour] for colour in sorted(classes) if len(classes[colour]) > 1), None)
    if alike is None:
        return tuple(sorted(colours, key=colours.__getitem__))
    tried: list[str] = []
    found: list[tuple[tuple[Any, ...], tuple[str, ...]]] = []
    for name in alike:
        # What changes place with one that was tried and leaves everything as it was adds nothing.
        if any(_interchangeable(tensors, colours, name, other) for other in tried):
            continue
        tried.append(name)
        first = {other: 2 * colour + 1 for other, colour in colours.items()}
        order = _order(tensors, sizes, _ranked({**first, name: first[name] - 1}))
        found.append((_form(tensors, sizes, order)[0], order))
    return min(found)[1]


def _refined(tensors: Mapping[str, Any], colours: Colours) -> Colours:
    while True:
        seen: dict[str, list[Any]] = {name: [] for name in colours}
        for output, role, axes in tensors.values():
            whole = _written((output, role, axes), colours)
            for axis in axes:
                beside = tuple(sorted((colours[name], factor) for name, factor in axis))
                for name, factor in axis:
                    seen[name].append((whole, beside, factor))
        finer = _ranked({name: (colours[name], sorted(seen[name])) for name in colours})
        if len(set(finer.values())) == len(set(colours.values())):
            return colours
        colours = finer


def _interchangeable(tensors: Mapping[str, Any], colours: Colours, one: str, other: str) -> bool:
    """Whether two dimensions of a colour can change names without changing the workload."""
    at = {name: position for position, name in enumerate(colours)}
    swapped = {**at, one: at[other], other: at[one]}

    def written(places: Mapping[str, int]) -> list[_Written]:
        return sorted(_written(tensor, places) for tensor in tensors.values())

    return written(at) == written(swapped)


def _ranked(values: Mapping[str, Any]) -> Colours:
    """Every value's rank among the different ones."""
    ranks = {value: rank for rank, value in enumerate(_different(values.values()))}
    return {name: ranks[_frozen(value)] for name, value in values.items()}


def _different(values: Iterable[Any]) -> list[Any]:
    return sorted({_frozen(value) for value in values})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
