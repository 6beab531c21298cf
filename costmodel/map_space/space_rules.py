"""Which rules bound a map space: what a proof over it is a proof over, in a line."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.side_by_side import free_groups, groups


def space_rules(machine: Accelerator, *, restricted: bool = False) -> str:
    """The rules, those that mean something on a machine, apart by semicolons.

    Args:
        machine: the machine.
        restricted: whether what levels keep was asked for beside it.
    """
    return "; ".join(_rules(machine, restricted))


def _rules(machine: Accelerator, restricted: bool) -> Iterator[str]:
    yield f"{'perfect' if machine.factors == 'perfect' else 'perfect and imperfect'} factors"
    meshes = [level for level in machine.levels if min(level.width_height) > 1]
    both = [level.name for level in meshes if machine.takes_both_axes(level)]
    if both:
        yield f"a dimension along one axis of a mesh, or both below {', '.join(both)}"
    elif meshes:
        yield "a dimension along one axis of a mesh"
    shared = sorted({level.shares for level in machine.levels if level.shares is not None})
    asked = [level.name for level in machine.levels if machine.has_tiles_apart(level)]
    if shared or asked:
        yield f"tiles of {', '.join(shared or asked)} at loops of their own"
    yield f"all tiles of {'another' if shared or asked else 'a'} level at one place in the nest"
    names = {level.shares for level in machine.levels}
    if any(group.name not in names for group in groups(machine)):
        order = "every order" if free_groups(machine) else "the file's order"
        yield f"buffers side by side in {order}"
    if restricted:
        yield "tensors kept as asked"
    elif machine.overflow == "bypass":
        yield "tensors kept where they fit"
    else:
        searched = machine.bypass == "searched"
        yield f"tensors kept {'or not' if searched else 'as the machine says'}"
    if machine.constraints:
        count = len(machine.constraints)
        yield f"{count} constraint{'s' if count > 1 else ''}"
    truly = machine.factors == "imperfect" and machine.counting == "true"
    counting = "every element counted by itself" if truly else "Timeloop's counting"
    fans = any(level.fanout > 1 for level in machine.levels)
    links = "with" if machine.link_transfers else "without"
    yield counting + (f" {links} link transfers" if fans else "")
