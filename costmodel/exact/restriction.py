"""What a proof leaves out where the tensors that levels keep were fixed beforehand.

A machine whose bypass is searched has mappings that keep other tensors. A proof that was told what
to keep says nothing of those: the restriction belongs to every sentence about its result, and to
the hash of what was proven.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from costmodel.costs import Objective
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError

Restriction = dict[str, tuple[str, ...]]
"""Tensors kept by level, innermost level first, tensors in the workload's order."""


def restriction(
    workload: Workload, accelerator: Accelerator, keep: Mapping[str, Sequence[str]] | None
) -> Restriction | None:
    """The restriction that a choice of kept tensors is; None where it excludes no mapping.

    Args:
        workload: the operation.
        accelerator: the machine.
        keep: tensors by level, as `costmodel.tile_chains.spatial.keep_choices` allows them.
    """
    if not keep or accelerator.bypass != "searched":
        # Where nothing may be bypassed a level keeps every tensor in any case.
        return None
    keep = by_parts(accelerator, keep)
    chosen = {
        name: tuple(tensor for tensor in workload.tensor_names if tensor in keep[name])
        for name in reversed(accelerator.level_names[1:])
        if name in keep
    }
    return chosen or None


def by_parts(
    accelerator: Accelerator, keep: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """What a level with tiles apart keeps as what its parts do, of which each may keep one tensor.

    Args:
        accelerator: a map space's machine, of parts.
        keep: tensors by level, or by the room that levels share.
    """
    found: dict[str, Sequence[str]] = {}
    for name, kept in keep.items():
        parts = [level for level in accelerator.levels if level.shares == name]
        if not parts:
            found[name] = kept
        for part in parts:
            found[part.name] = [tensor for tensor in kept if tensor not in part.bypass]
    return found


def check_names(space: MapSpace, keep: Mapping[str, Sequence[str]]) -> None:
    """Refuses to keep what does not exist.

    Raises:
        ConfigError: an unknown level or tensor.
    """
    names, tensors = space.accelerator.level_names, space.workload.tensor_names
    rooms = [level.shares for level in space.accelerator.levels if level.shares]
    for name, kept in keep.items():
        if name not in names[1:] and name not in rooms:
            raise ConfigError(f"keep: unknown level {name!r}; known: {', '.join(names[1:])}.")
        for tensor in kept:
            if tensor not in tensors:
                raise ConfigError(
                    f"keep.{name}: unknown tensor {tensor!r}; known: {', '.join(tensors)}."
                )


def among(restricted: Restriction | None, constraints: int = 0) -> str:
    """The mappings that a proof speaks of: `mappings that keep L1: Z; L2: nothing`.

    Args:
        restricted: what `restriction` returned.
        constraints: how many of them the machine has.
    """
    several = "s" if constraints > 1 else ""
    obey = f"obey the machine's {constraints} constraint{several}" if constraints else ""
    if restricted is None:
        return f"mappings that {obey}" if obey else "all mappings"
    kept = [f"{name}: {', '.join(tensors) or 'nothing'}" for name, tensors in restricted.items()]
    return f"mappings that {obey + ' and ' if obey else ''}keep {'; '.join(kept)}"


def problem_hash(
    workload_hash: str,
    accelerator_hash: str,
    objective: Objective,
    restricted: Restriction | None,
    *,
    every_order: bool = False,
) -> str:
    """16 hexadecimal digits of the SHA-256 of all that decides which value is the optimum.

    Args:
        workload_hash: of the operation's content.
        accelerator_hash: of the machine's content.
        objective: what is minimised.
        restricted: what `restriction` returned.
        every_order: whether buffers side by side may stand in every order.
    """
    parts = [workload_hash, accelerator_hash, objective, restricted]
    text = json.dumps([*parts, "every order"] if every_order else parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
