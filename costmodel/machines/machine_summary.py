"""A machine as numbers and as a tree of text: levels, fan-outs, who holds what, totals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field, create_model

from costmodel.machines.levels import Level, SpatialRules
from costmodel.machines.machine import Machine
from costmodel.machines.machine_units import (
    MACS,
    area_mm2,
    has_real_units,
    leakage_w,
    parts,
    unit_lines,
    unusual_units,
)
from costmodel.machines.transfers import EVERY
from mapspace.strict_yaml import StrictModel

ROLES = ("input", "weight", "output")


def _others(file: type[StrictModel], said: type[StrictModel]) -> dict[str, Any]:
    """The keys of a file that a summary does not always have: files say what differs."""
    return {
        name: (field.annotation, Field(None, description=field.description))
        for name, field in file.model_fields.items()
        if name not in said.model_fields
    }


@dataclass(frozen=True)
class Boundary:
    """What can cross between a level and the next one inwards, all instances together.

    Attributes:
        outer: the level outside.
        inner: the level inside, or `MAC`.
        children: instances of `inner` below one of `outer`.
        down: words per cycle that `outer` can read; None: without limit.
        into: words per cycle that `inner` can take in from both sides; None: without limit.
    """

    outer: str
    inner: str
    children: int
    down: float | None
    into: float | None


@dataclass(frozen=True)
class Totals:
    """A machine's totals.

    Attributes:
        capacity_bits: of all levels with a limit, all instances.
        macs_per_cycle: multiply-accumulates per cycle with every unit at work.
        boundaries: outermost first.
        area_mm2: of memories and units on the chip, mm2; None: not known of all of them.
        leakage_w: with everything on, W.
    """

    capacity_bits: int
    macs_per_cycle: float
    boundaries: tuple[Boundary, ...]
    area_mm2: float | None
    leakage_w: float


class _OfLevel(StrictModel):
    """A level: what its file says, and what follows."""

    name: str
    instances: int
    capacity_bits: int | None
    """Of an instance; null: without limit."""
    holds: list[str]
    """Roles, and tensors by name, that it always holds."""
    may_hold: list[str]
    """Roles of which the mapping decides."""


class _OfMachine(StrictModel):
    """A machine: what its file says, and what follows."""

    name: str
    hash: str
    levels: list[Any]
    totals: Totals


_LevelSummary = create_model("Level", __base__=_OfLevel, **_others(Level, _OfLevel))
MachineSummary = create_model(
    "Machine",
    __base__=_OfMachine,
    **{**_others(Machine, _OfMachine), "levels": (list[_LevelSummary], ...)},
)
"""What `summary` returns, for its schema."""


def instances(machine: Machine) -> tuple[int, ...]:
    """Instances of every level, outermost first, and of the MACs."""
    found = [1]
    for level in machine.levels:
        found.append(found[-1] * level.fanout)
    return tuple(found)


def capacity_bits(machine: Machine, level: Level) -> int:
    """Bits of one instance; 0 where it has no limit."""
    return (level.capacity_words or 0) * (level.word_bits or machine.word_bits)


def totals(machine: Machine) -> Totals:
    """Capacity, peak multiply-accumulates, and peak words per cycle at every boundary."""
    count, levels = instances(machine), machine.levels
    names = [*machine.level_names, MACS]
    boundaries = []
    for index, level in enumerate(levels):
        inner = levels[index + 1] if index + 1 < len(levels) else None
        boundaries.append(
            Boundary(
                level.name,
                names[index + 1],
                level.fanout,
                _least(count[index], level.read_bandwidth, level.bandwidth),
                None
                if inner is None
                else _least(count[index + 1], inner.write_bandwidth, inner.bandwidth),
            )
        )
    return Totals(
        sum(
            n * capacity_bits(machine, level)
            for n, level, above in zip(count, levels, [None, *levels], strict=False)
            # Levels that share a room are one memory.
            if level.shares is None or above is None or above.shares != level.shares
        ),
        machine.processing_elements / machine.cycles_per_mac,
        tuple(boundaries),
        area_mm2(machine),
        leakage_w(machine),
    )


def _least(count: int, *rates: float | None) -> float | None:
    limits = [rate for rate in rates if rate is not None]
    return count * min(limits) if limits else None


def summary(machine: Machine) -> dict[str, Any]:
    """All of it for JSON: every number of the machine, instances, and the totals."""
    whole = totals(machine)
    levels = [
        {
            **level.model_dump(mode="json"),
            "word_bits": level.word_bits or machine.word_bits,
            "instances": count,
            "capacity_bits": capacity_bits(machine, level) if level.capacity_words else None,
            "holds": list(holds(machine, level)),
            "may_hold": list(may_hold(machine, level)),
        }
        for level, count in zip(machine.levels, instances(machine), strict=False)
    ]
    origins: dict[str, Any] = {}
    if has_real_units(machine):
        *of_levels, of_units = (part.sources for part in parts(machine))
        for level, found in zip(levels, of_levels, strict=True):
            level["sources"] = dict(
                zip(("energy_pj", "leakage_pj", "area_mm2"), found, strict=True)
            )
        keys = ("mac_energy_pj", "mac_leakage_pj", "mac_area_mm2")
        origins["sources"] = dict(zip(keys, of_units, strict=True))
    return {
        **machine.model_dump(mode="json"),
        **origins,
        "hash": machine.hash,
        "levels": levels,
        "totals": {**vars(whole), "boundaries": [vars(one) for one in whole.boundaries]},
    }


def holds(machine: Machine, level: Level) -> tuple[str, ...]:
    """Roles, and tensors by name, that a level always holds."""
    always = list(level.keep)
    if machine.bypass == "none" or level is machine.levels[0]:
        always += [role for role in ROLES if role not in (*level.bypass, *always)]
    return tuple(sorted(always, key=lambda name: (*ROLES, name).index(name)))


def may_hold(machine: Machine, level: Level) -> tuple[str, ...]:
    """Roles of which the mapping decides."""
    return tuple(r for r in ROLES if r not in (*holds(machine, level), *level.bypass))


def tree(machine: Machine) -> str:
    """The machine as text: a line of totals, the levels inwards, the boundaries."""
    whole = totals(machine)
    lines, indent, outer = [f"{machine.name}: {headline(machine)}", ""], "", None
    for level, count in zip(machine.levels, instances(machine), strict=False):
        # Levels side by side stand below each other.
        if outer is not None and (level.beside is None or outer.beside != level.beside):
            indent += "  "
        lines += [indent + text for text in level_lines(machine, level, count)]
        outer = level
    each = "" if machine.cycles_per_mac == 1 else f", {machine.cycles_per_mac} cycles each"
    macs = f"{MACS} x {machine.processing_elements:,}: {machine.mac_energy_pj:g} pJ{each}"
    lines += [f"{indent}  {macs}"]
    limited = [one for one in whole.boundaries if one.down is not None or one.into is not None]
    if limited:
        lines += ["", "peak words per cycle, all instances together"]
        lines += [f"  {boundary_text(one)}" for one in limited]
        without = len(whole.boundaries) - len(limited)
        if without:
            lines.append(f"  the other {without}: without limit")
    else:
        lines += ["", "peak words per cycle: without limit at every boundary"]
    real = list(unit_lines(machine))
    real += [f"warning: {line}" for line in unusual_units(machine)]
    return "\n".join([*lines, "", *real] if real else lines)


def headline(machine: Machine) -> str:
    """Peak rate, capacity and word in one line."""
    whole = totals(machine)
    rate = whole.macs_per_cycle * machine.clock_ghz
    return (
        f"{whole.macs_per_cycle:,g} MACs per cycle ({rate:,g} GMAC/s at {machine.clock_ghz:g} "
        f"GHz), {size_text(whole.capacity_bits)} on the chip, words of {machine.word_bits} bits"
    )


def size_text(bits: int) -> str:
    """Bits as bytes, KiB or MiB."""
    for unit, scale in (("MiB", 8 << 20), ("KiB", 8 << 10), ("B", 8)):
        if bits >= scale:
            return f"{bits / scale:,.5g} {unit}"
    return f"{bits} bits"


def boundary_text(one: Boundary) -> str:
    """What crosses a boundary, in words."""
    down = "without limit" if one.down is None else f"{one.down:,g} read"
    into = "without limit" if one.into is None else f"{one.into:,g} written"
    return f"{one.outer} > {one.inner}: {down if one.inner == MACS else f'{down}, {into}'}"


def level_lines(machine: Machine, level: Level, count: int) -> Iterator[str]:
    """A level in one to three lines: what it is, what it serves, what its network costs."""
    where = f" x {count:,}" if count > 1 else ""
    beside = f" (beside: {level.beside})" if level.beside else ""
    beside += f" (shares: {level.shares})" if level.shares else ""
    beside += " (tiles: apart)" if machine.has_tiles_apart(level) else ""
    held = holds(machine, level)
    may = may_hold(machine, level)
    parts = [capacity_text(machine, level, count)]
    parts.append(f"holds {', '.join(held)}" if held else "holds nothing" if not may else "")
    parts.append(f"may hold {', '.join(may)}" if may else "")
    yield f"{level.name}{where}{beside}: {'; '.join(part for part in parts if part)}"
    yield f"  {', '.join([_energy(level), *_rates(level), *_conditions(level)])}"
    if level.fanout > 1:
        width, height = level.width_height
        mesh = f" = {width} x {height}" if height > 1 else ""
        mesh += ", a dimension along both axes at once" if machine.takes_both_axes(level) else ""
        mesh += ", words handed to neighbours" if machine.link_transfers else ""
        yield f"  serves {level.fanout:,}{mesh}{_spread(level.spatial, height > 1)}"
        network = _network(level)
        if network:
            yield f"  network: {network}"


def capacity_text(machine: Machine, level: Level, count: int) -> str:
    """Words and bytes of an instance, and of all of them."""
    if level.capacity_words is None:
        return "without limit"
    if level.capacity_words == 0:
        return "no storage"
    bits = capacity_bits(machine, level)
    whole = f", {size_text(count * bits)} in all" if count > 1 else ""
    own = f" of {level.word_bits} bits" if level.word_bits not in (None, machine.word_bits) else ""
    banks = f" in {level.banks} banks" if level.banks else ""
    words = "word" if level.capacity_words == 1 else "words"
    return f"{level.capacity_words:,} {words}{own}{banks} ({size_text(bits)}{whole})"


def _energy(level: Level) -> str:
    read, fill, update = level.energies
    block = f" per {level.block_words} words" if level.block_words > 1 else ""
    if read == fill == update:
        return f"{read:.4g} pJ{block}"
    wrote = f"write {fill:.4g}" if fill == update else f"fill {fill:.4g}, update {update:.4g}"
    return f"read {read:.4g}, {wrote} pJ{block}"


def _rates(level: Level) -> Iterator[str]:
    for what, rate in (
        ("reads", level.read_bandwidth),
        ("writes", level.write_bandwidth),
        ("reads or writes", level.bandwidth),
    ):
        if rate is not None:
            yield f"{what} {rate:g} words per cycle"


def _conditions(level: Level) -> Iterator[str]:
    if level.cluster_size > 1:
        yield f"one access serves {level.cluster_size} instances"
    if level.multiple_buffering > 1:
        yield f"holds every tile {level.multiple_buffering:g} times"
    for name, cycles in level.startup:
        yield f"{cycles} cycles before {'every tile' if name == EVERY else f'a tile of {name}'}"
    for name, buffering in level.buffering:
        if buffering == "single":
            yield f"work waits for {'tiles' if name == EVERY else f'tiles of {name}'}"
    if level.min_utilisation > 0:
        yield f"at least {100 * level.min_utilisation:g} % full"
    if level.address_pj:
        yield f"address {level.address_pj:g} pJ per word"
    if level.leakage_pj:
        yield f"leakage {level.leakage_pj:g} pJ per cycle"


def _spread(rules: SpatialRules | None, two: bool) -> str:
    """What may run along which axis, in words."""
    if rules is None:
        return ""
    parts = []
    for axis, named, reused in (
        ("x", rules.x, rules.x_reuse),
        ("y", rules.y, rules.y_reuse),
    ):
        if (axis == "y" and not two) or (named is None and reused is None):
            continue
        lacks = f"what {' or '.join(reused)} lacks" if reused else ""
        allowed = " and ".join(part for part in (", ".join(named or ()), lacks) if part)
        parts.append(f"{f'along {axis} ' if two else ''}{allowed or 'nothing'}")
    parts += [] if rules.multicast else ["no multicast"]
    parts += [] if rules.reduction else ["no spatial reduction"]
    return f": {'; '.join(parts)}" if parts else ""


def _network(level: Level) -> str:
    parts = [
        f"{value:g} pJ per {what}"
        for what, value in (
            ("hop", level.hop_energy_pj),
            ("router", level.router_pj),
            ("word that enters", level.ingress_pj),
        )
        if value
    ]
    if level.fill_latency or level.drain_latency:
        parts.append(f"{level.fill_latency} + {level.drain_latency} cycles to fill and drain")
    if level.array is not None:
        load, fill, drain = level.array.parts(*level.width_height[::-1])
        names = " or ".join(level.array.stationary)
        parts.append(f"{load} + {fill} + {drain} cycles to load, fill and drain per {names}")
    return ", ".join(parts)
