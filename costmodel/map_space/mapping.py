"""A mapping for people and files: factors, loop orders, kept tensors, banks; prints its nest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from typing import Any

from costmodel.map_space.record_models import HasMapping, LevelPart
from mapspace.errors import ConfigError, ContractError
from mapspace.strict_yaml import shown, validate


@dataclass(frozen=True)
class LevelMapping:
    """The part of a mapping at one memory level.

    Attributes:
        name: the level.
        temporal: trip count per dimension of the loops that step through this level's tile.
        order: all dimensions, outermost loop first.
        spatial: factor per dimension spread over the instances below; empty without fan-out.
        spatial_order: dimensions of the spatial loops, outermost first; empty without fan-out.
        spatial_axis: mesh axis (`X` or `Y`) per dimension; empty where the mesh is a row.
        spatial_height: of dimensions along both axes the factor along the height, a divisor of
            that in `spatial`; their axis is `X`.
        keep: tensors kept at this level, the others bypass it.
        banks: banks per tensor; empty where the buffer is not banked.
        temporal_rests: how often temporal loops run in the last pass over their dimension; empty
            where no pass is shorter.
        spatial_rests: likewise of spatial loops.
    """

    name: str
    temporal: dict[str, int]
    order: tuple[str, ...]
    spatial: dict[str, int] = field(default_factory=dict)
    spatial_order: tuple[str, ...] = ()
    spatial_axis: dict[str, str] = field(default_factory=dict)
    spatial_height: dict[str, int] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    banks: dict[str, int] = field(default_factory=dict)
    temporal_rests: dict[str, int] = field(default_factory=dict)
    spatial_rests: dict[str, int] = field(default_factory=dict)

    @property
    def spatial_loops(self) -> list[tuple[str, int, str]]:
        """Dimension, factor above 1 and axis of the spatial loops; empty axes where in a row.

        In their order; where a dimension runs along both axes, those along the height first.
        """
        found = []
        for name in self.spatial_order:
            tall = self.spatial_height.get(name, 1)
            axis = self.spatial_axis.get(name, "")
            found += [(name, tall, "Y"), (name, self.spatial[name] // tall, axis)]
        loops = [loop for loop in found if loop[1] > 1]
        return sorted(loops, key=lambda loop: loop[2] == "X") if self.spatial_height else loops


@dataclass(frozen=True)
class Mapping:
    """A mapping of one workload: its levels, outermost first. `str()` prints the loop nest."""

    levels: tuple[LevelMapping, ...]
    tensors: tuple[str, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        for level in self.levels:
            bypassed = [name for name in self.tensors if name not in level.keep]
            note = f" (bypassed by {', '.join(bypassed)})" if bypassed else ""
            if level.banks:
                split = ", ".join(f"{name} {count}" for name, count in level.banks.items())
                note += f" (banks: {split})"
            lines.append(f"{'  ' * len(lines)}{level.name}{note}")
            for name in level.order:
                if level.temporal[name] > 1:
                    trips = _trips(level.temporal[name], level.temporal_rests.get(name))
                    lines.append(f"{'  ' * len(lines)}for {name} in {trips}")
            for name, factor, axis in level.spatial_loops:
                trips = _trips(factor, level.spatial_rests.get(name))
                along = f" along {axis}" if axis else ""
                lines.append(f"{'  ' * len(lines)}parallel for {name} in {trips}{along}")
        lines.append(f"{'  ' * len(lines)}multiply-accumulate")
        return "\n".join(lines)

    def to_record(self) -> dict[str, Any]:
        """The `mapping` part of a mapping record; orders are lists, outermost first.

        Raises:
            ContractError: several levels have a mesh, of which such a record names one, or a
                dimension runs along both axes.
        """
        if any(level.spatial_height for level in self.levels):
            raise ContractError("A dimension along both axes needs the record of a whole nest.")
        if sum(bool(level.spatial_axis) for level in self.levels) > 1:
            raise ContractError("A mapping across several meshes needs the record of a whole nest.")
        record: dict[str, Any] = {}
        axes: dict[str, str] = {}
        for level in self.levels:
            entry: dict[str, Any] = {
                "temporal": dict(level.temporal),
                "perm": _write_order(level.order),
            }
            if level.spatial:
                entry["spatial"] = dict(level.spatial)
                entry["spatial_perm"] = _write_order(level.spatial_order)
            if level.banks:
                entry["banks"] = dict(level.banks)
            axes |= level.spatial_axis
            record[level.name] = entry
        if axes:
            record["spatial_axis"] = axes
        if any(level.keep != self.tensors for level in self.levels):
            record["keep"] = {level.name: list(level.keep) for level in self.levels}
        return record


def renamed(
    mapping: Mapping,
    dimensions: MappingType[str, str],
    tensors: MappingType[str, str],
    order: tuple[str, ...],
) -> Mapping:
    """A mapping under other names of dimensions and tensors.

    Args:
        mapping: the mapping.
        dimensions: new names by old ones.
        tensors: likewise.
        order: the new names of the tensors, in the order that the workload has them in.
    """

    def keys(values: MappingType[str, Any], names: MappingType[str, str]) -> dict[str, Any]:
        return {names[name]: value for name, value in values.items()}

    def listed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dimensions[name] for name in names)

    levels = tuple(
        LevelMapping(
            name=level.name,
            temporal=keys(level.temporal, dimensions),
            order=listed(level.order),
            spatial=keys(level.spatial, dimensions),
            spatial_order=listed(level.spatial_order),
            spatial_axis=keys(level.spatial_axis, dimensions),
            spatial_height=keys(level.spatial_height, dimensions),
            keep=tuple(sorted((tensors[name] for name in level.keep), key=order.index)),
            banks=keys(level.banks, tensors),
            temporal_rests=keys(level.temporal_rests, dimensions),
            spatial_rests=keys(level.spatial_rests, dimensions),
        )
        for level in mapping.levels
    )
    return Mapping(levels, order)


def _trips(factor: int, rest: int | None) -> str:
    """How often a loop runs, and in its last pass where that is shorter."""
    return str(factor) if rest is None or rest == factor else f"{factor} ({rest} at last)"


def _write_order(order: tuple[str, ...]) -> str | list[str]:
    """A string where every dimension has one letter, as the records have it, else a list."""
    return "".join(order) if all(len(name) == 1 for name in order) else list(order)


def mapping_from_record(
    record: MappingType[str, Any],
    level_names: tuple[str, ...],
    dimensions: tuple[str, ...],
    tensors: tuple[str, ...],
    fans_out: tuple[bool, ...],
) -> Mapping:
    """Reads the `mapping` part of a mapping record.

    Args:
        record: per level that has loops `temporal` and `perm`, where it fans out also `spatial` and
            `spatial_perm`; optional `banks` per level, `keep` and `spatial_axis` beside them.
        level_names: the accelerator's levels, outermost first.
        dimensions: the workload's dimensions.
        tensors: the workload's tensors.
        fans_out: per level, whether it has several instances below it.

    Raises:
        ConfigError: a value of another type, a level, dimension or tensor that is unknown or
            missing, an order that is no permutation; the message starts with the key's path.
    """
    part = validate(HasMapping, {"mapping": record}, "").mapping
    entries, keep, axes = part.__pydantic_extra__, part.keep, part.spatial_axis or {}
    _known(entries, level_names, "mapping")
    for name, kept in (keep or {}).items():
        _known([name], level_names, "mapping.keep")
        _known(kept, tensors, f"mapping.keep.{name}")
    _known(axes, dimensions, "mapping.spatial_axis")
    levels = []
    for name, spreads in zip(level_names, fans_out, strict=True):
        entry, where = entries.get(name, LevelPart()), f"mapping.{name}"
        given = entry.model_fields_set
        if not spreads and given & {"spatial", "spatial_perm"}:
            raise ConfigError(f"{where}: spatial loops, but there is one instance below {name}.")
        orders = {
            key: _order(
                getattr(entry, key) if key in given else dimensions, dimensions, loops, where, key
            )
            for key, loops in (("perm", entry.temporal), ("spatial_perm", entry.spatial))
        }
        levels.append(
            LevelMapping(
                name=name,
                temporal=_factors(entry.temporal, dimensions, f"{where}.temporal"),
                order=orders["perm"],
                spatial=_factors(entry.spatial, dimensions, f"{where}.spatial") if spreads else {},
                spatial_order=orders["spatial_perm"] if spreads else (),
                spatial_axis={d: axes.get(d, "X") for d in dimensions} if spreads and axes else {},
                keep=tuple(t for t in tensors if keep is None or t in keep.get(name, tensors)),
                banks={}
                if entry.banks is None
                else _factors(entry.banks, tensors, f"{where}.banks"),
            )
        )
    return Mapping(tuple(levels), tensors)


def _known(names: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: unknown {name!r}; known: {', '.join(sorted(known))}.")


def _factors(entry: MappingType[str, int], names: tuple[str, ...], where: str) -> dict[str, int]:
    """A factor per name; a name left out counts 1."""
    _known(entry, names, where)
    return {name: entry.get(name, 1) for name in names}


def _order(
    entry: str | Sequence[str],
    dimensions: tuple[str, ...],
    loops: MappingType[str, int],
    where: str,
    key: str,
) -> tuple[str, ...]:
    """An order of all dimensions; those without a loop may be left out, and stand innermost."""
    order = tuple(entry)
    order += tuple(name for name in dimensions if name not in order and loops.get(name, 1) == 1)
    if sorted(order) != sorted(dimensions):
        raise ConfigError(
            f"{where}.{key}: expected a permutation of {', '.join(dimensions)}, got {shown(entry)}."
        )
    return order
