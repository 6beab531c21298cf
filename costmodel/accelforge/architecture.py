"""AccelForge's architecture files as machines, where they mean what ours mean.

Energies there are joules per action of so many bits, bandwidths bits a second; here they are pJ and
words a cycle, with the cycle of the multiply-accumulate unit. Idle instances leak there, so the
leakage of all stands at the outermost level. Source: its examples (commit 1c1929c2) and what its
loader makes of them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from costmodel.accelforge.expressions import ROLES, number, roles
from costmodel.accelforge.templates import filled
from costmodel.machines.accelerators import accelerator
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Name, StrictModel, load_yaml, shown, validate

_SUM = "sum(a.n_calls/a.throughputforainactions)"
_MAX = "max(a.n_calls/a.throughputforainactions)"
_MOST_FANOUTS = 2
_MOST_BITS = 1024
Value = int | float | str


class _Action(StrictModel):
    name: Name
    energy: Value | None = None
    throughput: Value | None = None
    bits_per_action: Value = 1


class _Tensors(StrictModel):
    keep: Value = "Nothing"
    may_keep: Value = "Nothing"


class _Fanout(StrictModel):
    name: Name
    fanout: Value
    reuse: Value | None = None
    may_reuse: Value = "All"
    min_usage: Value | None = None


class _Node(StrictModel):
    """A memory, a container or a compute unit; each has some of these keys."""

    kind: Literal["Memory", "Container", "Compute"] = Field(alias="!")
    name: Name
    component_class: Name | None = None
    size: Value | None = None
    leak_power: Value | None = None
    area: Value | None = None
    bits_per_value: dict[str, Value] | None = None
    total_latency: Value | None = None
    tensors: _Tensors = _Tensors()
    actions: tuple[_Action, ...] = ()
    spatial: tuple[_Fanout, ...] = ()
    enabled: Value = "len(All) == 3"
    extra_attributes_for_component_model: dict[str, Any] | None = None


class _Arch(StrictModel):
    nodes: tuple[_Node, ...] = Field(min_length=1, max_length=64)
    extra_attributes_for_all_component_models: dict[str, Any] | None = None


class _File(StrictModel):
    arch: _Arch


class ReadMachine(NamedTuple):
    """A machine as AccelForge's file describes it."""

    content: dict[str, Any]
    """What a machine's file holds."""
    unused: tuple[str, ...]
    """Keys that have no effect here, each with its place."""
    fanouts: dict[str, tuple[str, str]]
    """The level and the axis, X or Y, that each of its fan-outs is."""


def read_accelforge_machine(path: Path, word_bits: int) -> ReadMachine:
    """Reads an architecture.

    Args:
        path: YAML with `arch` and `nodes`.
        word_bits: bits of a value, which AccelForge's workloads say (`bits_per_value`).

    Raises:
        ConfigError: `file: key: what`: a key or a node that has no counterpart.
    """
    data = load_yaml(path, tags=True, text=filled(read_text(path), path, {}))
    arch = validate(_File, data, str(path)).arch
    return _Reading(str(path), word_bits).machine(path.stem, arch)


def _tidy(value: float) -> float:
    """Ten digits: what is left of `7.03e-12 * 8 / 1e-12`."""
    return float(f"{value:.10g}")


class _Reading:
    def __init__(self, path: str, word_bits: int) -> None:
        self.path, self.word_bits = path, word_bits
        self.unused: list[str] = []
        self.clock = 0.0
        self.instances = 1
        self.watts = 0.0
        self.held: dict[str, frozenset[str]] = {}
        self.open = False
        self.fanouts: dict[str, tuple[str, str]] = {}

    def place(self, node: _Node) -> str:
        return f"{self.path}: arch.nodes[{node.name}]"

    def number(self, value: object, place: str) -> float:
        return number(value, place, self.word_bits)

    def machine(self, name: str, arch: _Arch) -> ReadMachine:
        compute = self.compute(arch)
        ((energy, throughput),) = self.actions(compute, ("compute",)).values()
        if not 0 < throughput < math.inf:
            raise ConfigError(
                f"{self.place(compute)}.actions[compute].throughput: expected a finite number: "
                "the cycles of the machine."
            )
        self.clock = throughput
        levels: list[dict[str, Any]] = []
        fanouts: list[_Fanout] = []
        for node in arch.nodes:
            if node.kind == "Compute" and node is not compute:
                continue
            for fanout in node.spatial:
                fanouts.append(fanout)
                self.fan_out(levels, fanouts, node)
            if node.kind != "Container":
                self.leakage(node)
            if node.kind == "Memory":
                fanouts = []
                levels.append(self.level(node, outermost=not levels))
            for key in ("area", "extra_attributes_for_component_model"):
                if getattr(node, key) is not None:
                    self.unused.append(f"{self.place(node)}.{key}")
        if not levels:
            raise ConfigError(f"{self.path}: arch.nodes: no !Memory.")
        if self.watts:
            levels[0]["leakage_pj"] = _tidy(self.watts / self.clock * 1e12)
        content = {
            "name": name,
            "word_bits": self.word_bits,
            "clock_ghz": _tidy(self.clock / 1e9),
            "mac_energy_pj": _tidy(energy * 1e12),
            **({"bypass": "searched"} if self.open else {}),
            "levels": levels,
        }
        try:
            accelerator(content)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: as a machine: {error}") from None
        return ReadMachine(content, tuple(self.unused), self.fanouts)

    def compute(self, arch: _Arch) -> _Node:
        """The unit that multiplies two inputs: the last node."""
        enabled = []
        for node in arch.nodes:
            if node.kind != "Compute":
                continue
            match = re.fullmatch(r"len\(All\) == ([0-9]{1,3})", str(node.enabled))
            if match is None:
                raise ConfigError(
                    f"{self.place(node)}.enabled: expected len(All) == 3 or another number, "
                    f"got {shown(node.enabled)}."
                )
            if match[1] == "3":
                enabled.append(node)
            else:
                self.unused.append(self.place(node))
        if len(enabled) != 1 or arch.nodes[-1] is not enabled[0]:
            raise ConfigError(
                f"{self.path}: arch.nodes: expected one !Compute of three tensors, as the last "
                f"node, got {len(enabled)}."
            )
        return enabled[0]

    def actions(self, node: _Node, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
        """Energy in J and throughput per second of an action of one bit, by its name."""
        found = {}
        for action in node.actions:
            place = f"{self.place(node)}.actions[{action.name}]"
            if action.name not in names or action.name in found:
                raise ConfigError(f"{place}: expected {' and '.join(names)} once each.")
            if action.energy is None or action.throughput is None:
                continue
            bits = self.number(action.bits_per_action, f"{place}.bits_per_action")
            if not 0 < bits < math.inf:
                raise ConfigError(f"{place}.bits_per_action: expected more than 0.")
            energy = self.number(action.energy, f"{place}.energy")
            throughput = self.number(action.throughput, f"{place}.throughput")
            found[action.name] = (energy / bits, throughput * bits)
        if not node.actions and node.component_class == "Dummy":
            return dict.fromkeys(names, (0.0, math.inf))
        for name in names:
            if name not in found:
                whose = f" (component_class {node.component_class})" if node.component_class else ""
                raise ConfigError(
                    f"{self.place(node)}.actions[{name}]: energy and throughput are missing: "
                    f"AccelForge's component models{whose} are not read; write their numbers in."
                )
        return found

    def leakage(self, node: _Node) -> None:
        if node.leak_power is None and node.component_class != "Dummy":
            raise ConfigError(f"{self.place(node)}.leak_power is missing.")
        watts = self.number(node.leak_power or 0, f"{self.place(node)}.leak_power")
        self.watts += watts * self.instances

    def fan_out(self, levels: list[dict[str, Any]], fanouts: list[_Fanout], node: _Node) -> None:
        """Adds the last fan-out to the level above it: the first along X, the second along Y."""
        fanout = fanouts[-1]
        place = f"{self.place(node)}.spatial[{fanout.name}]"
        if not levels:
            raise ConfigError(f"{place}: expected a !Memory above it.")
        if len(fanouts) > _MOST_FANOUTS:
            raise ConfigError(f"{place}: expected at most two below one !Memory (width, height).")
        count = self.number(fanout.fanout, f"{place}.fanout")
        if not 1 <= count <= 2**31 or count != int(count):
            raise ConfigError(
                f"{place}.fanout: expected a whole number from 1, got {shown(fanout.fanout)}."
            )
        if fanout.min_usage is not None:
            self.unused.append(f"{place}.min_usage")
        above = levels[-1]
        if fanout.name in self.fanouts:
            raise ConfigError(f"{place}: the name is given to two fan-outs.")
        self.fanouts[fanout.name] = (above["name"], "XY"[len(fanouts) - 1])
        self.instances *= int(count)
        above["fanout"] = above.get("fanout", 1) * int(count)
        if len(fanouts) == _MOST_FANOUTS:
            above["mesh"] = [above["fanout"] // int(count), int(count)]
        rules = above.setdefault("spatial", {})
        shared = roles(fanout.may_reuse, f"{place}.may_reuse", self.held)
        forced = roles(fanout.reuse or "Nothing", f"{place}.reuse", self.held)
        if forced:
            rules["xy"[len(fanouts) - 1] + "_reuse"] = sorted(forced)
        if shared not in (ROLES, frozenset()) or (not shared and len(fanouts) > 1):
            raise ConfigError(
                f"{place}.may_reuse: expected All, or Nothing of a single fan-out, "
                f"got {shown(fanout.may_reuse)}."
            )
        if not shared:
            rules |= {"multicast": False, "reduction": False}
        if len(fanouts) > 1 and rules.get("multicast") is False:
            raise ConfigError(f"{place}: a second fan-out beside one without reuse.")
        if not rules:
            del above["spatial"]

    def level(self, node: _Node, *, outermost: bool) -> dict[str, Any]:
        place = self.place(node)
        level: dict[str, Any] = {"name": node.name}
        size = self.number("inf" if node.size is None else node.size, f"{place}.size")
        kept = self.kept(node, outermost)
        bits = self.bits(node, kept)
        if size < math.inf:
            level["capacity_words"] = int(size) // bits
        elif node.size is None and not outermost:
            raise ConfigError(f"{place}.size: expected a number, or inf.")
        if size == math.inf:
            level["technology"] = "DRAM" if outermost else "SRAM"
        actions = self.actions(node, ("read", "write"))
        read, write = (_tidy(actions[name][0] * bits * 1e12) for name in actions)
        if list(actions) != ["read", "write"]:
            read, write = write, read
        level["energy_pj"] = (
            read if read == write else {"read": read, "fill": write, "update": write}
        )
        if bits != self.word_bits:
            level["word_bits"] = bits
        return level | self.bandwidth(node, actions, bits) | kept

    def bits(self, node: _Node, kept: dict[str, list[str]]) -> int:
        """Bits of a value in a memory, which are those of all that it may hold."""
        held = ROLES - frozenset(kept.get("bypass", ()))
        said = dict.fromkeys(sorted(held), self.word_bits)
        for whose, value in (node.bits_per_value or {}).items():
            place = f"{self.place(node)}.bits_per_value[{whose}]"
            width = self.number(value, place)
            if width != int(width) or not 1 <= width <= _MOST_BITS:
                raise ConfigError(f"{place}: expected a whole number of bits, got {shown(value)}.")
            said |= dict.fromkeys(roles(whose, place, self.held) & held, int(width))
        if len(set(said.values())) > 1:
            widths = ", ".join(f"{role} {width}" for role, width in said.items())
            raise ConfigError(
                f"{self.place(node)}.bits_per_value: expected one width of all that it may hold, "
                f"got {widths}."
            )
        return next(iter(said.values()), self.word_bits)

    def bandwidth(
        self, node: _Node, actions: dict[str, tuple[float, float]], word_bits: int
    ) -> dict[str, float]:
        place = f"{self.place(node)}.total_latency"
        per_cycle = {name: bits / word_bits / self.clock for name, (_, bits) in actions.items()}
        rule = re.sub(r"\s+", "", str(node.total_latency or _SUM))
        if rule == _MAX:
            separate = {f"{name}_bandwidth": _tidy(words) for name, words in per_cycle.items()}
            return {key: words for key, words in separate.items() if words < math.inf}
        if rule != _SUM:
            raise ConfigError(
                f"{place}: expected the sum or max of a.n_calls / a.throughput for a in actions, "
                f"got {shown(node.total_latency)}."
            )
        if per_cycle["read"] != per_cycle["write"]:
            raise ConfigError(
                f"{self.place(node)}.actions: expected equal throughputs of read and write, which "
                "share one bandwidth (total_latency is their sum)."
            )
        shared = _tidy(per_cycle["read"])
        return {"bandwidth": shared} if shared < math.inf else {}

    def kept(self, node: _Node, outermost: bool) -> dict[str, list[str]]:
        place = f"{self.place(node)}.tensors"
        keep = roles(node.tensors.keep, f"{place}.keep", self.held)
        may = keep | roles(node.tensors.may_keep, f"{place}.may_keep", self.held)
        self.held[node.name] = keep
        if outermost:
            if keep != ROLES:
                raise ConfigError(
                    f"{place}.keep: expected every tensor at the outermost level, "
                    f"got {shown(node.tensors.keep)}."
                )
            return {}
        self.open = self.open or may != keep
        listed = {"bypass": ROLES - may, "keep": keep}
        order = ("input", "weight", "output")
        return {key: [r for r in order if r in found] for key, found in listed.items() if found}
