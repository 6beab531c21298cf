"""What a buffer's attributes say, under all the names that Timeloop has for them.

Source: Timeloop v3.0.3, measured; `docs/guide/timeloop.md` lists names and defaults.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from costmodel.timeloop.keys import misspelt
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

Attributes = dict[str, Any]

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "word_bits": ("word-bits", "word_bits", "word_width", "datawidth"),
    "block_size": ("block-size", "block_size", "n_words"),
    "cluster_size": ("cluster-size", "cluster_size"),
    "width": ("width", "memory_width", "data_storage_width"),
    "depth": ("depth", "memory_depth", "data_storage_depth"),
    "entries": ("entries",),
    "size_kb": ("sizeKB",),
    "instances": ("instances",),
    "meshX": ("meshX",),
    "meshY": ("meshY",),
    "read_bandwidth": ("read_bandwidth",),
    "write_bandwidth": ("write_bandwidth",),
    "shared_bandwidth": ("shared_bandwidth",),
    "bandwidth": ("bandwidth",),
    "multiple_buffering": ("multiple-buffering", "multiple_buffering"),
    "min_utilization": ("min-utilization", "min_utilization"),
    "vector_access_pj": ("vector-access-energy", "vector_access_energy"),
    "addr_gen_pj": ("addr-gen-energy", "addr_gen_energy"),
    "energy_per_hop_pj": ("energy-per-hop", "energy_per_hop"),
    "router_pj": ("router-energy", "router_energy"),
    "ingress_pj": ("energy-per-ingress", "energy_per_ingress"),
    "network_fill_latency": ("network_fill_latency",),
    "network_drain_latency": ("network_drain_latency",),
    "technology": ("technology",),
    "energy": ("energy",),
}
_MEANING = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}

_MAY_BE_0 = frozenset({"entries", "depth", "network_fill_latency", "network_drain_latency"})
# At these values they change nothing; at others they are not modelled.
_USUAL: Mapping[str, tuple[Any, ...]] = {
    "reduction_supported": (True,),
    "allow_overbooking": (False,),
    "has_power_gating": (False,),
    "leak": (0,),
    "wire-energy": (0,),
    "wire_energy": (0,),
    "tile-width": (0,),
    "tile_width": (0,),
    "network-type": ("1:1", "1:N"),
}


def read_attributes(
    given: Mapping[str, Any], place: str, variables: Mapping[str, Any], left_out: list[str] | None
) -> tuple[Attributes, list[str]]:
    """Attributes by one name each, and the keys that have no effect on costs.

    Args:
        given: as the file has them; null is as if not given.
        place: what messages start with.
        variables: what a text that is no number may stand for.
        left_out: where to list what is not modelled; None: refuse it.

    Raises:
        ConfigError: two names of one attribute, or what is not modelled.
    """
    found: Attributes = {}
    idle = []
    names = {**given, **variables}
    for key, raw in given.items():
        value = names.get(raw, raw) if isinstance(raw, str) else raw
        name = _MEANING.get(key)
        if value is None:
            continue
        if name is not None:
            if name in found and found[name] != value:
                raise ConfigError(f"{place}.{key}: {name} is given twice.")
            found[name] = value
        elif key in _USUAL and value not in _USUAL[key]:
            usual = " or ".join(map(str, _USUAL[key]))
            if left_out is None:
                raise ConfigError(
                    f"{place}.{key}: only {usual} is modelled, got {shown(value)}; lenient reading "
                    "leaves it out."
                )
            left_out.append(f"{place}.{key}")
        else:
            # In capitals it is a variable, which other attributes may name.
            word = None if key.isupper() or key in _USUAL else misspelt(key, [*_MEANING, *_USUAL])
            if word is not None:
                raise ConfigError(f"{place}.{key}: unknown; did you mean {word}?")
            idle.append(f"{place}.{key}")
    return found, idle


def number(found: Attributes, name: str, place: str, usual: float | None = None) -> Any:
    """A number of an attribute, which a file may write as text.

    Raises:
        ConfigError: it is no finite number of at least 0.
    """
    if name not in found:
        return usual
    value = found[name]
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value) if not value.strip().isdigit() else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{place}.{name}: expected a number, got {shown(found[name])}.")
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"{place}.{name}: expected a number of at least 0, got {shown(value)}.")
    return value


def whole(found: Attributes, name: str, place: str, usual: int | None = None) -> Any:
    """A whole number below 2^31, of at least 1; sizes and latencies may be 0.

    Raises:
        ConfigError: it is none.
    """
    value = number(found, name, place, usual)
    least = 0 if name in _MAY_BE_0 else 1
    if value is None or (float(value).is_integer() and least <= value < 2**31):
        return value if value is None else int(value)
    raise ConfigError(
        f"{place}.{name}: expected a whole number of at least {least}, below 2^31, got "
        f"{shown(found[name])}."
    )


def block_and_cluster(found: Attributes, bits: int, place: str) -> tuple[int, int]:
    """Words per access and instances per access: of the width of the memory where it is given.

    Raises:
        ConfigError: a width that is no multiple, or that the others contradict.
    """
    width = whole(found, "width", place)
    block, cluster = whole(found, "block_size", place), whole(found, "cluster_size", place)
    if width is None:
        return block or 1, cluster or 1
    if block is not None and cluster is not None:
        if width != bits * block * cluster:
            raise ConfigError(
                f"{place}.width: expected word bits x block x cluster size = "
                f"{bits * block * cluster}, got {width}."
            )
        return block, cluster
    if block is not None:
        return block, max(1, width // (bits * block))
    if cluster is not None:
        return max(1, width // cluster // bits), cluster
    return max(1, width // bits), 1


def size_words(found: Attributes, bits: int, block: int, place: str) -> int | None:
    """Words that an instance holds; None: without limit."""
    entries = whole(found, "entries", place)
    if entries is not None:
        return int(entries)
    depth = whole(found, "depth", place)
    if depth is not None:
        return int(depth * block)
    kilobytes = number(found, "size_kb", place)
    return None if kilobytes is None else int(kilobytes * 8192 / bits)
