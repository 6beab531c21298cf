"""Broken rules of networks' bounds: the comparisons with every choice must catch each of them.

Every break is one place of a file, changed in a module of its own, which the comparison then uses.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import pytest
import test_jointly
import test_layer_lines
import test_limited
from mutations import broken
from paths import ROOT

from orchestrator.networks import cascade_lines


class Break(NamedTuple):
    """What a broken rule would claim, who then uses it, and the comparison that is to fail.

    file, function, was, becomes: as `mutations.broken` takes them; used: a module and the name in
    it that stands for the broken file's.
    """

    file: str
    function: str
    was: str
    becomes: str
    used: tuple[ModuleType | str, str]
    check: Callable[[], object]


LINES = "orchestrator/networks/layer_lines.py"


def between_weights() -> None:
    for seed in range(4):
        test_layer_lines.test_lines_bound_the_weights_between_them(seed)


def networks() -> None:
    for seed in range(4):
        test_jointly.check(seed, 600, deep=bool(seed % 2))


def limits() -> None:
    test_limited.check(15, 600)


def fused_plans() -> None:
    for seed in range(8):
        test_layer_lines.test_no_plan_is_below_its_bound(seed)


BREAKS = {
    "a weight needs as much as the greater one beside it": Break(
        LINES, "bound_at", "bound + (other - bound) * share", "other",
        (test_layer_lines, "LayerLines"), between_weights,
    ),
    "every cycle counts from no weight on": Break(
        LINES, "bound_at", "bound + (weight - low) * fewest", "bound + weight * fewest",
        (test_layer_lines, "LayerLines"), between_weights,
    ),
    "the best for one weight is so for all beyond": Break(
        LINES, "_between",
        "any((w < weight for w in weights)) and any((w > weight for w in weights))",
        "any((w < weight for w in weights))",
        (test_layer_lines, "LayerLines"), between_weights,
    ),
    "a mapping that has one end of the front has both": Break(
        LINES, "is_one_point", "one.cycles <= cycles and one.energy <= energy",
        "one.cycles <= cycles or one.energy <= energy",
        (test_limited, "LayerLines"), limits,
    ),
    "the region ends where the flattest line is lowest": Break(
        "orchestrator/networks/lines.py", "corners",
        "_meet(kept[-2], (weight, bound)) >= _meet(kept[-2], kept[-1])",
        "_meet(kept[-2], (weight, bound)) <= _meet(kept[-2], kept[-1])",
        ("orchestrator.networks.jointly", "lower_bound"), networks,
    ),
    "what is better than the best known has a quarter of the excess": Break(
        "orchestrator/networks/limited.py", "_slack",
        "value + weight * self.limit.most - bound",
        "(value + weight * self.limit.most - bound) / 4",
        (test_limited, "Limited"), limits,
    ),
    "a part takes the outermost bandwidth as often as the plan runs": Break(
        "orchestrator/networks/cascade_lines.py", "_bound",
        "plan.times * fewest / times", "plan.times * fewest",
        (test_layer_lines, "CascadeLines"), fused_plans,
    ),
    "a window reads its rows once for each of its taps": Break(
        "orchestrator/networks/plan_floors.py", "words_of",
        "max((work.dimensions[name] for name, _ in axis.terms))",
        "math.prod((work.dimensions[name] for name, _ in axis.terms))",
        (test_layer_lines, "PlanFloors"),
        test_layer_lines.test_words_are_read_once_at_least,
    ),
    "what lies outside is counted twice": Break(
        "orchestrator/networks/cascade_lines.py", "_relaxed",
        "plan.times * Fraction(self._floors.once(side, plan.factors, roles) * DOWN)",
        "2 * plan.times * Fraction(self._floors.once(side, plan.factors, roles) * DOWN)",
        (test_layer_lines, "CascadeLines"), fused_plans,
    ),
    "a plan's passes are one more": Break(
        "orchestrator/networks/plan_floors.py", "_sums",
        "plan.times * energy + float(plan.moves.energy)",
        "(plan.times + 1) * energy + float(plan.moves.energy)",
        (cascade_lines, "PlanFloors"), fused_plans,
    ),
}  # fmt: skip


def loaded(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A source as a module."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)  # data classes look there
    exec(compile(source, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = BREAKS[name]
    source = broken((ROOT / one.file).read_text(), *one[1:4])
    module = loaded("broken_rule", source, monkeypatch)
    where, used = one.used
    where = importlib.import_module(where) if isinstance(where, str) else where
    monkeypatch.setattr(where, used, getattr(module, used))
    with pytest.raises(AssertionError):
        one.check()
