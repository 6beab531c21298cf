"""A machine as arrays, beyond what the first machines had: what its levels cost and allow.

Letters: L levels, T tensors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.compiled.by_reference import read_by_reference
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.array_passes import ArrayPasses
from costmodel.machines.levels import Level
from costmodel.machines.packing import Packing, pack
from costmodel.machines.transfers import EVERY, value_of
from mapspace.errors import ConfigError

Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

ROLES = ("input", "weight", "output")


NETWORK_IS_FREE = 0
NETWORK_OF_HOPS = 1
NETWORK_OF_CLASSES = 2


@read_by_reference
class MachineTables(NamedTuple):
    """What the compiled passes need of a machine that keeps separate accounts.

    What is kept and where: always_kept and never_kept `[L]` bit t: tensor t; only_x, only_y and
    barred `[L]` bit d: dimension d runs along the width only, the height only, or not at all;
    both `[L]` 1 where the others may run along both axes of the mesh at once;
    placed_start `[L]` (-1: everything is left) into placed: on a mesh, per set of dimensions the
    nearest one that may run along the height; in a row, per set whether all of it may have loops;
    least_units multiply-accumulate units that must work; room `[L, T]` what a value takes of a
    capacity; least_room `[L]` what a level must hold; sharing `[L, 2]` the first of the levels
    that share one room with a level, and the one past the last: itself alone where none does; mesh
    `[L + 1, 3]` instances of a level, their width and height, the MACs last.

    Energies in pJ: action `[L, 3]` of an access that reads, fills, updates; parts over block
    `[L, T]` accesses of a value; clusters `[L]` groups of instances that one access serves; address
    `[L]` per value; leakage `[L + 1]` per cycle and instance in use, the MACs last; router and
    ingress `[L]` per value; dram `[L]` 1 outside the chip.

    Time: shared `[L]` words per cycle read and written together (inf: unlimited); words `[L, T]`
    of a value on its way; waiting the cycles before the first and after the last word; turns
    `[L, T]` cycles of the array below a level per word of what is stationary that enters an
    element, turning 1 where there is an array; startup `[L, T]` cycles before each tile, single
    `[L, T]` 1 where work waits for it, asking 1 where either is said,
    waited what of waiting is that for tiles; cycles_per_mac; charged 1
    where the first fills of outputs count.

    What there is to do: separate 1 where a level needs `action`, `block`, `address` or `leakage`;
    limited 1 where a bandwidth is, bounded `[L]` at which levels; network `[L]` free, of hops or of
    classes, classed 1 where any is of classes; restricted 1 where a mapping may break more than
    fan-outs and capacities;
    cumulative 1 where fan-outs limit the products of all spatial factors outside, as in
    timeloop-model.
    """

    always_kept: Array
    never_kept: Array
    only_x: Array
    only_y: Array
    barred: Array
    both: Array
    placed_start: Array
    placed: Array
    least_units: int
    room: Array
    least_room: FloatArray
    sharing: Array
    mesh: Array
    action: FloatArray
    parts: Array
    block: Array
    clusters: Array
    address: FloatArray
    leakage: FloatArray
    router: FloatArray
    ingress: FloatArray
    dram: Array
    shared: FloatArray
    words: FloatArray
    waiting: int
    turns: Array
    turning: int
    startup: Array
    single: Array
    asking: int
    waited: int
    cycles_per_mac: int
    charged: int
    separate: int
    limited: int
    bounded: Array
    network: Array
    classed: int
    restricted: int
    cumulative: int


def _is_separate(accelerator: Accelerator) -> bool:
    """Whether reads, fills and updates differ in energy, or something else has a cost."""
    return accelerator.mac_leakage_pj > 0 or any(
        len(set(level.energies)) > 1
        or level.block_words > 1
        or level.cluster_size > 1
        or level.address_pj > 0
        or level.leakage_pj > 0
        for level in accelerator.levels
    )


def machine_tables(
    accelerator: Accelerator,
    roles: Mapping[str, str],
    dimensions: Sequence[str],
    *,
    indexing: Mapping[str, Collection[str]] | None = None,
    as_timeloop: bool = False,
    packing: Packing | None = None,
) -> MachineTables:
    """A machine's arrays for an operation.

    Args:
        accelerator: the machine.
        roles: the operation's tensors, in order, each with its role.
        dimensions: its dimensions, in order.
        indexing: which dimensions index each tensor, where a level's fan-out asks for it.
        as_timeloop: judge and account mappings as timeloop-model does, which does not look at each
            fan-out by itself.
        packing: how values lie in words; None: each is one.

    Raises:
        ConfigError: a level keeps or bypasses, or spreads, something that there is not.
    """
    levels = accelerator.levels
    packing = packing or pack(accelerator, [None] * len(roles))
    shared = sharing(levels)
    always, never = _kept_masks(accelerator, roles)
    lacked = _lacked(roles, dimensions, indexing or {})
    spread = [_axis_masks(level, dimensions, lacked) for level in levels]
    actions = np.array([level.energies for level in levels])
    mesh = _instances(levels)
    leakage = [*(level.leakage_pj for level in levels), accelerator.mac_leakage_pj]
    # Hops alone are the same and quicker, where every level takes part in what passes through it.
    networks = any(level.hop_energy_pj or level.router_pj or level.ingress_pj for level in levels)
    further = accelerator.skips or accelerator.further_key is not None
    classed = as_timeloop or (networks and further)
    least = [
        level.min_utilisation * usable_words(level, int(unit))
        for level, unit in zip(levels, packing.unit, strict=True)
    ]
    turns = _turns(levels, roles)
    startup, single = _transfers(levels, roles)
    bandwidths = [lv.read_bandwidth or lv.write_bandwidth or lv.bandwidth for lv in levels]
    return MachineTables(
        always_kept=np.array(always, dtype=np.int64),
        never_kept=np.array(never, dtype=np.int64),
        only_x=np.array([x for x, _, _ in spread], dtype=np.int64),
        only_y=np.array([y for _, y, _ in spread], dtype=np.int64),
        barred=np.array([barred for _, _, barred in spread], dtype=np.int64),
        both=np.array([accelerator.takes_both_axes(level) for level in levels], dtype=np.int64),
        placed_start=np.full(len(levels), -1, dtype=np.int64),
        placed=np.zeros(0, dtype=np.int64),
        least_units=1,
        room=packing.room,
        least_room=np.array(least, dtype=np.float64),
        sharing=shared,
        mesh=mesh,
        action=actions,
        parts=packing.parts,
        block=packing.block,
        clusters=mesh[:-1, 0] // np.array([level.cluster_size for level in levels], dtype=np.int64),
        address=np.array([level.address_pj for level in levels]),
        leakage=np.array(leakage),
        router=np.array([level.router_pj for level in levels]),
        ingress=np.array([level.ingress_pj for level in levels]),
        dram=np.array([level.is_dram for level in levels], dtype=np.int64),
        shared=np.array([level.bandwidth or math.inf for level in levels]),
        words=_words(levels, packing),
        waiting=sum(level.fill_latency + level.drain_latency for level in levels),
        turns=turns,
        turning=int(turns.any()),
        startup=startup,
        single=single,
        asking=int(startup.any() or single.any()),
        waited=0,
        cycles_per_mac=accelerator.cycles_per_mac,
        charged=int(accelerator.output_fills == "charged"),
        separate=int(as_timeloop or _is_separate(accelerator) or not packing.is_of_words),
        limited=int(any(bandwidths) or turns.any() or startup.any() or single.any()),
        bounded=np.array([bool(bandwidth) for bandwidth in bandwidths], dtype=np.int64),
        network=np.array([_network_kind(level, classed) for level in levels], dtype=np.int64),
        classed=int(classed),
        restricted=int(
            as_timeloop
            or any(least)
            or any(b for _, _, b in spread)
            or bool(never[0])
            or np.diff(shared).max() > 1
        ),
        cumulative=int(as_timeloop),
    )


def _turns(levels: Sequence[Level], roles: Mapping[str, str]) -> Array:
    """`[L, T]` cycles of the array below a level per word that comes to one of its elements."""
    found = np.zeros((len(levels), len(roles)), np.int64)
    for position, level in enumerate(levels):
        if level.array is not None:
            width, height = level.width_height
            for name in level.array.stationary:
                if name not in roles and name not in ROLES:
                    raise ConfigError(
                        f"accelerator.levels[{level.name}].array.stationary: expected a role "
                        f"({', '.join(ROLES)}) or a tensor ({', '.join(roles)}), got {name!r}."
                    )
            stationary = is_stationary(level.array, roles)
            if not any(stationary):
                given = ", ".join(f"{tensor}: {role}" for tensor, role in roles.items())
                raise ConfigError(
                    f"accelerator.levels[{level.name}].array.stationary: no tensor is "
                    f"{' or '.join(level.array.stationary)} ({given})."
                )
            found[position, stationary] = sum(level.array.parts(height, width))
    return found


def _transfers(levels: Sequence[Level], roles: Mapping[str, str]) -> tuple[Array, Array]:
    """`[L, T]` cycles before each tile, and 1 where work waits for it."""
    known = {*roles, *ROLES, EVERY}
    for level in levels:
        for key in ("startup", "buffering"):
            for name, _ in getattr(level, key):
                if name not in known:
                    raise ConfigError(
                        f"accelerator.levels[{level.name}].{key}: expected a role "
                        f"({', '.join(ROLES)}) or a tensor ({', '.join(roles)}), got {name!r}."
                    )
    startup = [[value_of(one.startup, *each, 0) for each in roles.items()] for one in levels]
    single = [
        [value_of(one.buffering, *each, "double") == "single" for each in roles.items()]
        for one in levels
    ]
    return np.array(startup, np.int64), np.array(single, np.int64)


def is_stationary(array: ArrayPasses, roles: Mapping[str, str]) -> list[bool]:
    """Of every tensor, whether elements of an array hold a word of it while others stream."""
    return [name in array.stationary or role in array.stationary for name, role in roles.items()]


def _network_kind(level: Level, classed: bool) -> int:
    """How the energy of the network below a level is counted."""
    if classed:
        return NETWORK_OF_CLASSES
    return NETWORK_OF_HOPS if level.hop_energy_pj > 0 and level.fanout > 1 else NETWORK_IS_FREE


def _kept_masks(accelerator: Accelerator, roles: Mapping[str, str]) -> tuple[list[int], list[int]]:
    """Tensors, as bits, that each level always keeps, and that it never keeps."""
    levels = accelerator.levels
    always = [_tensor_mask(accelerator, i, "keep", roles) for i in range(len(levels))]
    never = [_tensor_mask(accelerator, i, "bypass", roles) for i in range(len(levels))]
    for t, tensor in enumerate(roles):
        if all((mask >> t) & 1 for mask in never):
            raise ConfigError(
                f"accelerator.levels[{levels[0].name}].bypass: every level of {accelerator.name} "
                f"bypasses {tensor}; one at least must hold it: take it out of one of them."
            )
    for position, level in enumerate(levels):
        if always[position] & never[position]:
            t = (always[position] & never[position]).bit_length() - 1
            raise ConfigError(
                f"accelerator.levels[{level.name}].bypass: {list(roles)[t]} is both kept and "
                "bypassed there, by its name and by its role; name it once."
            )
    return always, never


def _words(levels: Sequence[Level], packing: Packing) -> FloatArray:
    """`[L, T]` words of a level that go with a value on its way."""
    blocks = np.array([[level.block_words] for level in levels])
    return np.asarray(packing.parts * blocks / packing.block, dtype=np.float64)


def prices_of_values(machine: MachineTables) -> FloatArray:
    """`[L, T, 3]` energy of reading, filling and updating a value, pJ, its blocks not rounded."""
    accesses = machine.parts / machine.block
    return np.asarray(machine.action[:, None, :] * accesses[:, :, None])


def usable_words(level: Level, unit: int = 1) -> int:
    """Words of tiles that a level takes, each held as often as it is buffered; 0 if unlimited.

    Args:
        level: the level.
        unit: parts of a word to count instead of words.
    """
    if level.capacity_words is None:
        return 0
    if level.multiple_buffering == 1.0:
        return level.capacity_words * unit
    return math.floor(level.capacity_words * unit / level.multiple_buffering)


def sharing(levels: Sequence[Level]) -> Array:
    """`[L, 2]` the first level and the one past the last of those that share a level's room."""
    found: list[tuple[int, int]] = []
    for position, level in enumerate(levels):
        last = position
        while level.shares and last + 1 < len(levels) and levels[last + 1].shares == level.shares:
            last += 1
        first = position
        while level.shares and first and levels[first - 1].shares == level.shares:
            first -= 1
        found.append((first, last + 1))
    return np.array(found, dtype=np.int64)


def _instances(levels: Sequence[Level]) -> Array:
    """`[L + 1, 3]` instances, width and height of every level and of the MACs."""
    rows = [(1, 1, 1)]
    for level in levels:
        width, height = level.width_height
        rows.append((rows[-1][0] * level.fanout, rows[-1][1] * width, rows[-1][2] * height))
    return np.array(rows, dtype=np.int64)


def _tensor_mask(
    accelerator: Accelerator, position: int, key: str, roles: Mapping[str, str]
) -> int:
    """Bit t: the level names tensor t, or its role, under a key."""
    level = accelerator.levels[position]
    mask = 0
    for name in getattr(level, key):
        if name in roles:
            mask |= 1 << list(roles).index(name)
        elif name in ROLES:
            if key == "keep" and name not in roles.values():
                found = ", ".join(f"{tensor}: {role}" for tensor, role in roles.items())
                raise ConfigError(
                    f"accelerator.levels[{level.name}].keep: no tensor has the role {name!r} "
                    f"({found}); give it to one, such as roles: {{{next(iter(roles))}: {name}}}."
                )
            mask |= sum(1 << t for t, role in enumerate(roles.values()) if role == name)
        else:
            raise ConfigError(
                f"accelerator.levels[{level.name}].{key}: expected a role ({', '.join(ROLES)}) or "
                f"a tensor ({', '.join(roles)}), got {name!r}."
            )
    return mask


def _lacked(
    roles: Mapping[str, str], dimensions: Sequence[str], indexing: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """Per role the dimensions that one of its tensors at least is not indexed by."""
    lacked: dict[str, set[str]] = {role: set() for role in ROLES}
    for tensor, role in roles.items():
        lacked[role] |= set(dimensions) - set(indexing.get(tensor, dimensions))
    return lacked


def _axis_masks(
    level: Level, dimensions: Sequence[str], lacked: Mapping[str, set[str]]
) -> tuple[int, int, int]:
    """Dimensions, as bits, that run along the width only, the height only, or not at all."""
    rules = level.spatial
    if rules is None:
        return 0, 0, 0
    everything = (1 << len(dimensions)) - 1
    masks = []
    for named, reused in ((rules.x, rules.x_reuse), (rules.y, rules.y_reuse)):
        if named is None and reused is None:
            masks.append(everything)
            continue
        # What this operation does not have it cannot spread; other operations have it.
        allowed = set(named or ()).union(*(lacked[role] for role in reused or ()))
        masks.append(sum(1 << d for d, name in enumerate(dimensions) if name in allowed))
    along_x, along_y = masks
    if level.width_height[1] == 1:
        along_y = 0
    if level.fanout > 1 and not (along_x | along_y or rules.x_reuse or rules.y_reuse):
        raise ConfigError(
            f"accelerator.levels[{level.name}].spatial: no dimension may run across its "
            f"{level.fanout} children; name one of {', '.join(dimensions)} under x"
            f"{' or y' if level.width_height[1] > 1 else ''}."
        )
    if level.width_height[1] == 1:
        return 0, 0, everything & ~along_x
    return along_x & ~along_y, along_y & ~along_x, everything & ~(along_x | along_y)


def served_apart(accelerator: Accelerator) -> Array:
    """`[L, 2]` 1 where the network below a level serves every child by itself: inputs, outputs."""
    rules = [level.spatial for level in accelerator.levels]
    return np.array(
        [(0, 0) if rule is None else (not rule.multicast, not rule.reduction) for rule in rules],
        dtype=np.int64,
    )
