"""The colours of methods: one palette, given out by one function, for pages, figures and charts.

The colours are as far apart as ten can be, also for people who see no red, green or blue
(tests/orchestrator/report/test_palette.py measures it). Beyond ten methods dashes tell them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

# Blue, orange, green, plum, rust, sky, mauve, black, grey, violet.
PALETTE = (
    "#0067b1", "#dd8a00", "#00936b", "#813060", "#b44c11",
    "#4abdff", "#94839d", "#222222", "#b2b3af", "#6c00d8",
)  # fmt: skip
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
# What a method has wherever nobody else has taken it: a place of the palette.
_OWN = {
    "gradient": 0, "annealing": 1, "genetic": 2, "structured": 3, "marvel": 4, "cma-es": 5,
    "gbfs": 6, "ppo": 7, "random": 8, "exact": 9, "xgboost": 2, "na2c": 0, "ddpg": 4,
    "primitive-annealing": 5, "model-guided": 6, "surrogate-guided": 9, "rnn": 7,
}  # fmt: skip


class Style(NamedTuple):
    """How a method is drawn, everywhere in a run the same."""

    colour: str
    dash: Any

    @property
    def dashed(self) -> tuple[float, ...]:
        """Lengths of dashes and gaps, in widths of the line; none: a whole line."""
        return () if self.dash == "-" else self.dash[1]


def method_styles(methods: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """A style per label: colours differ up to ten labels, and beyond them or in a family dashes.

    Args:
        methods: labels and names of searchers, of one run all, in its order.
    """
    names = dict(methods)
    colours: dict[str, str] = {}
    for label, name in names.items():
        own = PALETTE[_OWN[name]] if name in _OWN else ""
        if own and own not in colours.values():
            colours[label] = own
    for label in names:
        if label not in colours:
            # The first of those that the fewest have.
            colours[label] = min(PALETTE, key=Counter(colours.values()).__getitem__)
    family = Counter[str]()
    chosen: dict[str, Style] = {}
    for label, name in names.items():
        # Of a family one after the other, but none that is taken in this colour.
        turned = [*DASHES[family[name] % len(DASHES) :], *DASHES[: family[name] % len(DASHES)]]
        looks = [Style(colours[label], dash) for dash in turned]
        chosen[label] = next((one for one in looks if one not in chosen.values()), looks[0])
        family[name] += 1
    return chosen


def method_colour(name: str) -> str:
    """The colour of a method by itself."""
    return method_styles([(name, name)])[name].colour
