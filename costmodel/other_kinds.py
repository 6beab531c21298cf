"""Machines, networks and workloads in each other's place: what came, and where it belongs."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any, Literal

from mapspace.errors import ConfigError

Kind = Literal["workload", "network", "machine"]

_KEYS: Mapping[Kind, frozenset[str]] = {
    "workload": frozenset({"cnn", "conv1d", "gemm", "mttkrp", "dimensions", "tensors"}),
    "network": frozenset({"layers"}),
    "machine": frozenset({"levels", "extends"}),
}
"""What the file of one says, and that of no other."""
_BELONGS: Mapping[Kind, str] = {
    "workload": "`mapspace search {}` takes it, in Python `search`",
    "network": "`mapspace search --network {}` takes it, in Python `search_network`",
    "machine": "`--accelerator {}` takes it, in Python `accelerator=`",
}

# Looked up when they are needed: what has the names looks here before it says that it knows none.
_NAMES: Mapping[Kind, tuple[str, ...]] = {
    "workload": (
        "costmodel.problems.workloads:workload_names",
        "costmodel.problems.workload_families:FAMILIES",
    ),
    "network": (
        "costmodel.problems.workloads:network_names",
        "costmodel.networks.published_networks:PUBLISHED",
        "costmodel.networks.transformers:TRANSFORMERS",
    ),
    "machine": ("costmodel.machines.accelerators:accelerator_names",),
}


def refuse_other_kind(
    expected: Kind, source: str, content: Mapping[str, Any] | None = None
) -> None:
    """Refuses what is of another kind than is expected there.

    Args:
        expected: what is expected.
        source: a name, or what messages call the content.
        content: what a file says; None: `source` is a name that is none of the expected kind.

    Raises:
        ConfigError: it is of another kind: which, and what takes it.
    """
    if content is None:
        kinds = (kind for kind in _KEYS if kind != expected and _is_name(kind, source))
    elif _KEYS[expected] & content.keys():
        return
    else:
        kinds = (kind for kind, keys in _KEYS.items() if keys & content.keys())
    for kind in kinds:
        raise ConfigError(
            f"{source}: expected a {expected}, got a {kind}; {_BELONGS[kind].format(source)}."
        )


def _is_name(kind: Kind, name: str) -> bool:
    known: list[str] = []
    for place in _NAMES[kind]:
        found = pkgutil.resolve_name(place)
        known += found() if callable(found) else found
    plain = name.partition(":")[0].strip().lower().replace("_", "-")
    return plain in {one.lower().replace("_", "-") for one in known}
