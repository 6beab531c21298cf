"""What one mapping costs, counted in plain Python by the formulas of docs/inside/cost-model.md.

Letters: n dimensions, L levels, outermost first. A tile's *extent* is a length per dimension.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from costmodel.independent.added_cycles import transfers, turning
from costmodel.independent.links import count_linked
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.mapping import Mapping
from costmodel.problems.affine import Tensor, Workload

Cost = tuple[Fraction, int]
"""Energy, pJ, and cycles."""

Loop = tuple[int, int, int]
"""Dimension, trip count, and how far one step goes in the dimension."""


@dataclass(frozen=True)
class Tiling:
    """A mapping but for the orders of its temporal loops.

    Attributes:
        temporal: `[L][n]` trip counts.
        spatial: `[L][n]` factors over the instances below a level.
        keep: `[L]` the tensors that a level keeps.
        spatial_order: `[L][n]` dimensions of the spatial loops, outermost first.
        upwards: `[L]` dimensions that run along the mesh's height.
    """

    temporal: tuple[tuple[int, ...], ...]
    spatial: tuple[tuple[int, ...], ...]
    keep: tuple[frozenset[int], ...]
    spatial_order: tuple[tuple[int, ...], ...]
    upwards: tuple[frozenset[int], ...]

    def extent(self, level: int, *, children: bool = False) -> tuple[int, ...]:
        """`[n]` of the tile of a level; with `children` that of one of its children."""
        first = level + 1 if children else level
        inner = (*self.temporal[first:], *self.spatial[first:])
        return tuple(math.prod(factors) for factors in zip(*inner, strict=True)) or tuple(
            1 for _ in self.temporal[0]
        )


Orders = tuple[tuple[int, ...], ...]
"""`[L]` the dimensions whose temporal loops turn at all, outermost first."""


def tiling_of(mapping: Mapping, workload: Workload) -> tuple[Tiling, Orders]:
    """The tiling and the orders of a mapping.

    Args:
        mapping: a mapping of the workload.
        workload: the operation.
    """
    names, tensors = workload.dimension_names, workload.tensor_names
    place = {name: d for d, name in enumerate(names)}
    levels = mapping.levels
    tiling = Tiling(
        tuple(tuple(level.temporal[name] for name in names) for level in levels),
        tuple(tuple(level.spatial.get(name, 1) for name in names) for level in levels),
        tuple(frozenset(tensors.index(name) for name in level.keep) for level in levels),
        tuple(tuple(place[name] for name in (level.spatial_order or names)) for level in levels),
        tuple(
            frozenset(place[name] for name, axis in level.spatial_axis.items() if axis == "Y")
            for level in levels
        ),
    )
    orders = tuple(
        tuple(place[name] for name in level.order if level.temporal[name] > 1) for level in levels
    )
    return tiling, orders


def why_not_counted(workload: Workload, accelerator: Accelerator) -> str | None:
    """Why the costs of mappings cannot be counted here, in one line; None if they can.

    Args:
        workload: the operation.
        accelerator: the machine.
    """
    levels = accelerator.levels
    further = accelerator.further_key is not None or len(levels) != 3
    if accelerator.constraints:
        return f"{accelerator.name} has constraints"
    if accelerator.factors == "imperfect":
        return f"{accelerator.name} has factors: imperfect"
    if further and any(len(axis.terms) > 1 for axis in workload.tensors[-1].axes):
        return f"the output of {workload.name} has windows"
    return None


@dataclass
class Counter:
    """The costs of mappings of one workload on one machine.

    Attributes:
        workload: the operation.
        accelerator: the machine.
    """

    workload: Workload
    accelerator: Accelerator
    _axes: list[list[list[tuple[int, int]]]] = field(init=False)
    _unit: int = field(init=False)
    _energy: list[tuple[int, int, int]] = field(init=False)
    _address: list[int] = field(init=False)
    _leakage: list[int] = field(init=False)
    ways: list[tuple[int, int, int]] = field(init=False)
    _mac: int = field(init=False)
    _instances: list[int] = field(init=False)
    _bits: list[int] = field(init=False)
    _shares: list[list[tuple[int, int]]] = field(init=False)

    def __post_init__(self) -> None:
        self.axes = [self._terms(tensor) for tensor in self.workload.tensors]
        levels = self.accelerator.levels
        said = [self.accelerator.mac_energy_pj, self.accelerator.mac_leakage_pj]
        for level in levels:
            said += [*level.energies, level.address_pj, level.leakage_pj]
            said += [level.hop_energy_pj, level.router_pj, level.ingress_pj]
        # Sums of fractions took half of the time: energies are whole multiples of this part of a
        # picojoule, and those of half a hop.
        self._unit = 2 * math.lcm(*(Fraction(repr(energy)).denominator for energy in said))
        self._mac = self._units(self.accelerator.mac_energy_pj)
        self._energy = []
        for level in levels:
            read, fill, update = (self._units(energy) for energy in level.energies)
            self._energy.append((read, fill, update))
        self._address = [self._units(level.address_pj) for level in levels]
        leaks = [*(level.leakage_pj for level in levels), self.accelerator.mac_leakage_pj]
        self._leakage = [self._units(leakage) for leakage in leaks]
        self.ways = []
        for level in levels:
            way = (level.hop_energy_pj, level.router_pj, level.ingress_pj)
            hop, router, ingress = map(self._units, way)
            self.ways.append((hop, router, ingress))
        tensors = self.workload.tensors
        self._bits = [
            (level.word_bits or self.accelerator.word_bits) if any(t.bits for t in tensors) else 1
            for level in levels
        ]
        self.shares = [
            [self._share(tensor.bits, index).as_integer_ratio() for index in range(len(levels))]
            for tensor in tensors
        ]
        fanouts = [level.fanout for level in levels]
        self._instances = [math.prod(fanouts[:index]) for index in range(len(levels))]

    def _units(self, energy: float) -> int:
        """An energy, pJ, in parts of which it is a whole multiple."""
        return int(Fraction(repr(energy)) * self._unit)

    def _terms(self, tensor: Tensor) -> list[list[tuple[int, int]]]:
        names = self.workload.dimension_names
        return [
            [(names.index(name), factor) for name, factor in axis.terms] for axis in tensor.axes
        ]

    def box(self, t: int, extent: Sequence[int]) -> list[int]:
        """Lengths of a tensor's tile along its axes."""
        return [1 + sum(c * (extent[d] - 1) for d, c in terms) for terms in self.axes[t]]

    def why_not(self, tiling: Tiling, banks: Sequence[dict[str, int]] = ()) -> str | None:
        """What does not fit, in one line; None if the tiling is feasible.

        Args:
            tiling: factors and kept tensors.
            banks: `[L]` banks by tensor where they are given; else any division of them counts.
        """
        for index, level in enumerate(self.accelerator.levels):
            width, height = level.mesh or (level.fanout, 1)
            spatial = tiling.spatial[index]
            if self.accelerator.takes_both_axes(level):
                if not self._fits_both(index, spatial):
                    return f"the spatial loops of {level.name} do not fit"
                spatial = (1,) * len(spatial)
            along = [1, 1]
            for d, factor in enumerate(spatial):
                along[d in tiling.upwards[index]] *= factor
            if (
                (along[0] > width or along[1] > height)
                if height > 1
                else (math.prod(along) > level.fanout)
            ):
                return f"the spatial loops of {level.name} do not fit"
            if not self._may_spread(index, spatial, tiling.upwards[index]):
                return f"{level.name} may not spread so"
            if level.capacity_words is None:
                continue
            extent = tiling.extent(index)
            tiles = {
                t: math.prod(self.box(t, extent)) * self._width(t, index)
                for t in tiling.keep[index]
            }
            if level.banks is None:
                room = level.capacity_words * self._parts_of(index)
                most = math.floor(room / level.multiple_buffering)
                held = sum(tiles.values())
                alone = all(index not in members for members in self._rooms().values())
                fits = (level.min_utilisation * most if alone else 0) <= held <= most
            else:
                words = level.capacity_words // level.banks * self._parts_of(index)
                names = self.workload.tensor_names
                needed = [-(-tiles.get(t, 1) // words) for t in range(len(names))]
                given = banks[index] if banks else {}
                fits = (
                    all(given[name] >= needed[t] for t, name in enumerate(names))
                    if given
                    else sum(needed) <= level.banks
                )
            if not fits:
                return f"the tiles of {level.name} do not fit"
        for name, members in self._rooms().items():
            level = self.accelerator.levels[members[0]]
            if level.capacity_words is None:
                continue
            held = sum(
                math.prod(self.box(t, tiling.extent(index))) * self._width(t, index)
                for index in members
                for t in tiling.keep[index]
            )
            room = level.capacity_words * self._parts_of(members[0])
            most = math.floor(room / level.multiple_buffering)
            if not level.min_utilisation * most <= held <= most:
                return f"the tiles of {name} do not fit together"
        return None

    def _rooms(self) -> dict[str, list[int]]:
        """The rooms that several levels share, and these levels."""
        found: dict[str, list[int]] = {}
        for index, level in enumerate(self.accelerator.levels):
            if level.shares is not None:
                found.setdefault(level.shares, []).append(index)
        return {name: members for name, members in found.items() if len(members) > 1}

    def _may_spread(self, index: int, spatial: tuple[int, ...], upwards: frozenset[int]) -> bool:
        """Whether the machine's rules let dimensions run across the children of a level so."""
        return all(
            factor == 1 or self._may_run(index, d, d in upwards) for d, factor in enumerate(spatial)
        )

    def _may_run(self, index: int, d: int, upwards: bool) -> bool:
        """Whether a dimension may run along the width below a level, or upwards."""
        rules = self.accelerator.levels[index].spatial
        if rules is None:
            return True
        named, reused = (rules.y, rules.y_reuse) if upwards else (rules.x, rules.x_reuse)
        if named is None and reused is None:
            return True
        lacked = any(
            role in (reused or ()) and all(e != d for terms in self.axes[t] for e, _ in terms)
            for t, role in enumerate(self.workload.roles.values())
        )
        return self.workload.dimension_names[d] in (named or ()) or lacked

    def _fits_both(self, index: int, spatial: tuple[int, ...]) -> bool:
        """Whether factors, each along one axis of a level's mesh or split over both, fit it."""
        width, height = self.accelerator.levels[index].mesh or (1, 1)
        parts = [
            [
                (wide, factor // wide)
                for wide in range(1, factor + 1)
                if factor % wide == 0
                and (wide == 1 or self._may_run(index, d, False))
                and (wide == factor or self._may_run(index, d, True))
            ]
            for d, factor in enumerate(spatial)
        ]
        return any(
            math.prod(wide for wide, _ in chosen) <= width
            and math.prod(tall for _, tall in chosen) <= height
            for chosen in itertools.product(*parts)
        )

    def cost(self, tiling: Tiling, orders: Orders, known: dict[object, int]) -> Cost:
        """Energy and cycles of a feasible mapping.

        Args:
            tiling: factors and kept tensors.
            orders: of its temporal loops.
            known: what was counted for this tiling's factors before; filled here.
        """
        levels = self.accelerator.levels
        cycles = math.prod(itertools.chain(*tiling.temporal))
        instances = [
            math.prod(itertools.chain(*tiling.spatial[:index])) for index in range(len(levels) + 1)
        ]
        energy: Fraction | int = self.workload.macs * self._mac
        steps = cycles * self.accelerator.cycles_per_mac
        read, written = [0.0] * len(levels), [0.0] * len(levels)
        # Those that share a room pass the same ports.
        ports = {index: members[0] for members in self._rooms().values() for index in members}
        for t in range(len(self.axes)):
            counted: Iterable[tuple[int, int, int, int]]
            if self.accelerator.link_transfers:
                networks, counted = count_linked(self, tiling, orders, t, instances)
                energy += networks
            else:
                counted = self._accesses(tiling, orders, t, cycles, known)
                if any(map(any, self.ways)):
                    energy += self._networks(tiling, orders, t, cycles, instances, known)
            for index, reads, fills, updates in counted:
                energy += self._charge(t, index, (reads, fills, updates), instances[index])
                # The model rounds here, in this order, and so does Timeloop.
                accesses, values = self.shares[t][index]
                width = accesses * levels[index].block_words / values
                port = ports.get(index, index)
                read[port] += width * float(reads) / float(steps)
                written[port] += width * float(fills + updates) / float(steps)
        slowest = steps + turning(self, tiling, orders, cycles, known)
        waited = 0
        if any(level.startup or level.buffering for level in levels):
            asked, waited = transfers(self, tiling, orders, (steps, read, written), known)
            slowest = max(slowest, asked)
        for level, reading, writing in zip(levels, read, written, strict=True):
            rates = [1.0]
            if level.read_bandwidth is not None and reading > 0:
                rates.append(level.read_bandwidth / reading)
            if level.write_bandwidth is not None and writing > 0:
                rates.append(level.write_bandwidth / writing)
            if level.bandwidth is not None and reading + writing > 0:
                rates.append(level.bandwidth / (reading + writing))
            slowest = max(slowest, math.ceil(steps / min(rates)))
        slowest += waited
        slowest += sum(level.fill_latency + level.drain_latency for level in levels)
        for leakage, working in zip(self._leakage, instances, strict=True):
            energy += leakage * slowest * working
        return Fraction(energy, self._unit), slowest

    def _charge(self, t: int, index: int, words: tuple[int, int, int], working: int) -> int:
        """Energy of what one of so many working instances of a level reads, fills and updates."""
        level, energy = self.accelerator.levels[index], 0
        clusters = min(working, self._instances[index] // level.cluster_size)
        accesses, values = self.shares[t][index]
        for count, price in zip(words, self._energy[index], strict=True):
            # A block is read or written as a whole.
            energy += -(-count * accesses // values) * price
        reads, fills, updates = words
        addressed = fills + (updates if t == len(self.axes) - 1 else reads)
        return clusters * (energy + self._address[index] * addressed)

    def _by_word(self, index: int) -> bool:
        """Whether each word of a level holds whole values alone."""
        level = self.accelerator.levels[index]
        return (level.packing or self.accelerator.packing) == "word"

    def _parts_of(self, index: int) -> int:
        """Parts of a word, of which a value of any tensor takes a whole number."""
        word = self._bits[index]
        if not self._by_word(index):
            return word
        widths = [tensor.bits for tensor in self.workload.tensors]
        return math.lcm(*(word // bits for bits in widths if bits and bits <= word))

    def _width(self, t: int, index: int) -> int:
        """What a value of a tensor takes of a level's capacity, in parts of a word."""
        bits, word = self.workload.tensors[t].bits, self._bits[index]
        if bits is None:
            return self._parts_of(index)
        return (
            int(self._words_of(bits, word) * self._parts_of(index))
            if self._by_word(index)
            else bits
        )

    def _words_of(self, bits: int, word: int) -> Fraction:
        """Words that a value takes where it is not split and words hold whole ones alone."""
        return Fraction(1, word // bits) if bits <= word else Fraction(-(-bits // word))

    def _share(self, bits: int | None, index: int) -> Fraction:
        """Accesses of a level that a value of so many bits takes, before a run's are rounded up."""
        level = self.accelerator.levels[index]
        access = level.block_words * self._bits[index]
        if bits is None:
            return Fraction(1, level.block_words)
        if self._by_word(index):
            return self._words_of(bits, self._bits[index]) / level.block_words
        if (level.packing or self.accelerator.packing) == "dense":
            return Fraction(bits, access)
        return Fraction(1, access // bits) if bits <= access else Fraction(-(-bits // access))

    def _accesses(
        self, tiling: Tiling, orders: Orders, t: int, cycles: int, known: dict[object, int]
    ) -> Iterator[tuple[int, int, int, int]]:
        """Level, reads, fills and updates per instance, for the levels that keep a tensor."""
        output = t == len(self.axes) - 1
        keepers = [level for level in range(len(tiling.keep)) if t in tiling.keep[level]]
        inner = len(tiling.keep)
        for position in reversed(range(len(keepers))):
            index = keepers[position]
            passing = cycles if inner == len(tiling.keep) else self.entering(
                tiling, orders, t, inner, known
            )  # fmt: skip
            served = passing * self._copies(tiling, t, (index, inner), known)
            own = self.entering(tiling, orders, t, index, known) if position else 0
            if output:
                first = self.first_words(tiling, index)
                elided = 0 if self.accelerator.output_fills == "charged" else first
                yield index, served - first, own - elided if position else 0, served
            else:
                yield index, served, own, 0
            inner = index

    def loops(self, tiling: Tiling, orders: Orders, level: int) -> Iterator[Loop]:
        """The temporal loops above a level's tile, innermost first."""
        for above in reversed(range(level)):
            inside = [
                extent * factor
                for extent, factor in zip(
                    tiling.extent(above, children=True), tiling.spatial[above], strict=True
                )
            ]
            for d in reversed(orders[above]):
                yield d, tiling.temporal[above][d], inside[d]
                inside[d] *= tiling.temporal[above][d]

    def entering(
        self, tiling: Tiling, orders: Orders, t: int, level: int, known: dict[object, int]
    ) -> int:
        """Words that enter a tensor's tile at one instance of a level over the whole run."""
        key = ("entering", t, level, orders[:level])
        if key not in known:
            known[key] = self._count_entering(tiling, orders, t, level)
        return known[key]

    def _copies(
        self, tiling: Tiling, t: int, levels: tuple[int, int], known: dict[object, int]
    ) -> int:
        """Distinct tiles of the second level below one instance of the first."""
        key = ("copies", t, levels)
        if key not in known:
            known[key] = math.prod(
                self._distinct(tiling, t, level) for level in range(levels[0], levels[1])
            )
        return known[key]

    def _count_entering(self, tiling: Tiling, orders: Orders, t: int, level: int) -> int:
        box = self.box(t, tiling.extent(level))
        whole = math.prod(box)
        loops = list(self.loops(tiling, orders, level))
        moves = [
            [sum(c for e, c in terms if e == d) * step for terms in self.axes[t]]
            for d, _, step in loops
        ]
        words = whole
        gone = [0] * len(box)
        for index, (_, trips, _) in enumerate(loops):
            further = [m - g for m, g in zip(moves[index], gone, strict=True)]
            new = whole
            if further == moves[0]:
                # What the step shares with the tile before it is not fetched again.
                new -= math.prod(max(0, b - m) for b, m in zip(box, moves[0], strict=True))
            words += (trips - 1) * math.prod(n for _, n, _ in loops[index + 1 :]) * new
            gone = [g + m for g, m in zip(gone, moves[index], strict=True)]
        return words

    def _distinct(self, tiling: Tiling, t: int, level: int) -> int:
        """Distinct tiles among the children of one instance of a level."""
        factors, extent = tiling.spatial[level], tiling.extent(level, children=True)
        rules, output = self.accelerator.levels[level].spatial, t == len(self.axes) - 1
        if rules is not None and not (rules.reduction if output else rules.multicast):
            return math.prod(factors)  # every child is served by itself
        tiles = 1
        for terms in self.axes[t]:
            offsets = {0}
            for d, c in terms:
                steps = [c * extent[d] * i for i in range(factors[d])]
                offsets = {offset + step for offset in offsets for step in steps}
            tiles *= len(offsets)
        return tiles

    def _networks(
        self,
        tiling: Tiling,
        orders: Orders,
        t: int,
        cycles: int,
        instances: Sequence[int],
        known: dict[object, int],
    ) -> Fraction:
        """Energy of what the networks below the levels carry of a tensor."""
        energy = Fraction(0)
        keepers = [level for level in range(len(tiling.keep)) if t in tiling.keep[level]]
        last = len(tiling.keep) - 1
        for index, level in enumerate(self.accelerator.levels):
            hop, router, ingress = self.ways[index]
            if index < keepers[0] or not (hop or router or ingress):
                continue
            classes = self._classes(tiling, t, index)
            # Into the tiles right below, also where the tensor passes them by.
            delivered = cycles
            if index < last:
                delivered = self.entering(tiling, orders, t, index + 1, known)
            scale = 1.0
            if index < last and t not in tiling.keep[index + 1]:
                below = next((keeper for keeper in keepers if keeper > index), last + 1)
                through = cycles if below > last else self.entering(tiling, orders, t, below, known)
                through *= self._copies(tiling, t, (index + 1, below), known)
                served = sum(members * groups * delivered for members, groups, _ in classes)
                scale = float(through) * math.prod(tiling.spatial[index]) / served
            routed, carried = 0.0, Fraction(0)
            for _, groups, halves in classes:
                hops, accesses = halves * delivered / 2, groups * delivered * scale
                if t == len(self.axes) - 1 and level.is_dram:
                    # What lies there is read before it is updated, but for what is new.
                    first = self.first_words(tiling, index) if index in keepers else 0
                    accesses = 2 * accesses - first
                carried += hop * Fraction(halves * delivered, 2) + ingress * Fraction(accesses)
                if accesses > 0:
                    # Timeloop cuts the hops of an access off, and then the sum.
                    routed = math.floor(routed + (1 + math.floor(hops / accesses)) * accesses)
            energy += (carried + router * Fraction(routed)) * instances[index]
        return energy

    def first_words(self, tiling: Tiling, index: int) -> int:
        """Words of the output that one instance of a level is the first to see."""
        words = self.workload.words(len(self.axes) - 1)
        for spatial in tiling.spatial[:index]:
            words //= math.prod(spatial[d] for terms in self.axes[-1] for d, _ in terms)
        return words

    def _classes(self, tiling: Tiling, t: int, index: int) -> list[tuple[int, int, int]]:
        """Children per group with one tile, such groups, and twice the hops to each, ascending."""
        factors, order = tiling.spatial[index], tiling.spatial_order[index]
        level = self.accelerator.levels[index]
        rules, output = level.spatial, t == len(self.axes) - 1
        apart = rules is not None and not (rules.reduction if output else rules.multicast)
        width, height = level.mesh or (level.fanout, 1)
        rows = math.prod(factors[d] for d in tiling.upwards[index])
        width, height = max(width, math.prod(factors) // rows), max(height, rows)
        # Loops along the height stand outside those along the width.
        order = (
            *(d for d in order if d in tiling.upwards[index]),
            *(d for d in order if d not in tiling.upwards[index]),
        )
        extent = tiling.extent(index, children=True)
        groups: dict[object, dict[int, list[int]]] = {}
        for number, at in enumerate(itertools.product(*(range(factors[d]) for d in order))):
            where = dict(zip(order, at, strict=True))
            tile = tuple(sum(c * extent[d] * where[d] for d, c in ts) for ts in self.axes[t])
            columns = groups.setdefault(number if apart else tile, {})
            columns.setdefault(number % width, []).append(number // width)
        found: dict[int, tuple[int, int]] = {}
        alone = math.prod(factors) == 1
        for columns in groups.values():
            halves = 2 * max(columns) + sum(
                max(0, height - 1 - 2 * min(ys)) + max(0, 2 * max(ys) - (height - 1))
                for ys in columns.values()
            )
            members = sum(map(len, columns.values()))
            count, hops = found.get(members, (0, 0))
            found[members] = count + 1, hops + (0 if alone else halves)
        return [(members, *found[members]) for members in sorted(found)]
