"""A machine some of whose tensors already lie whole in its shared buffer.

A resident tensor is read and written where it lies, at the buffer's energy per access; it costs
nothing outside the chip, and the room for other tiles is smaller by its words. As a machine: a
level in front of all others holds it, the levels behind hold the other tensors. So nothing of
evaluation or proof knows of residency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Level
from mapspace.errors import ConfigError

ROLES = ("input", "weight", "output")
NAME = "resident"


def shared_buffer(machine: Accelerator) -> Level:
    """The buffer in which tensors can stay: the outermost on the chip, of which there is one.

    Raises:
        ConfigError: there is none, or its room is not one that tensors share.
    """
    instances = machine.levels[0].fanout
    for level in machine.levels[1:]:
        if instances == 1 and level.capacity_words and not {"input", "output"} & {*level.bypass}:
            if level.banks is not None or level.min_utilisation > 0:
                key = "banks" if level.banks is not None else "min_utilisation"
                raise ConfigError(
                    f"{machine.name}: {level.name} has {key}; what stays on the chip needs a "
                    "buffer without."
                )
            return level
        instances *= level.fanout
    raise ConfigError(
        f"{machine.name}: nothing can stay on the chip; expected one buffer that takes inputs and "
        "outputs below the outermost level."
    )


def resident_machine(machine: Accelerator, roles: Sequence[str], words: int) -> Accelerator | None:
    """The machine as an operation finds it; None where so many words do not fit.

    Args:
        machine: the whole machine.
        roles: of the operation's own tensors that lie in the shared buffer.
        words: what lies there, tensors of other operations included.

    Raises:
        ConfigError: as `shared_buffer`.
    """
    buffer = shared_buffer(machine)
    room = (buffer.capacity_words or 0) - words
    if not words:
        return machine
    left = [role for role in ROLES if role not in (*roles, *buffer.bypass)]
    required = [name for name in buffer.keep if name not in roles]
    if room < 0 or (not room and (required or (left and machine.bypass != "searched"))):
        return None  # a tensor that the buffer must hold takes a word at least
    others = tuple(role for role in ROLES if role not in roles)
    units: dict[str, Any] = {"capacity_bits": None, "capacity_bytes": None}
    levels = []
    for level in machine.levels:
        said: dict[str, Any] = {}
        if roles and level is machine.levels[0]:
            said = {"keep": others, "bypass": tuple(roles), "technology": "DRAM"}
        elif roles and level is buffer:
            said = {
                "keep": tuple(name for name in level.keep if name not in roles),
                "bypass": tuple(dict.fromkeys((*level.bypass, *roles))),
            }
        if level is buffer:
            said |= units | {"capacity_words": room} | ({} if room else {"bypass": ROLES})
        levels.append(level.model_copy(update=said))
    if roles:
        holding: dict[str, Any] = {
            "name": NAME, "capacity_words": None, "technology": "SRAM", "keep": tuple(roles),
            "bypass": others, "leakage_pj": 0.0, "multiple_buffering": 1.0,
        }  # fmt: skip
        own: dict[str, Any] = {
            "fanout": 1,
            "mesh": None,
            "spatial": None,
            "beside": None,
            "hop_energy_pj": 0.0,
            "array": None,
            "startup": (),
            "buffering": (),
        }
        free: dict[str, Any] = {
            "router_pj": 0.0,
            "ingress_pj": 0.0,
            "fill_latency": 0,
            "drain_latency": 0,
        }
        levels.insert(0, buffer.model_copy(update=holding | units | own | free))
    shown = " and ".join(roles) or "others"
    said_of: dict[str, Any] = {"name": f"{machine.name}, {shown} resident", "levels": tuple(levels)}
    return Accelerator.model_validate(machine.model_copy(update=said_of).model_dump())
