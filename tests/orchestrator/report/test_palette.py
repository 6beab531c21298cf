"""Colours of methods: told apart by everybody, the same in every place, and given to all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from orchestrator.report.palette import DASHES, PALETTE, method_colour, method_styles
from searchers import SEARCHERS

Array = npt.NDArray[np.float64]
# What people see who lack the cones for green, red and blue: Machado, Oliveira & Fernandes 2009.
SIGHTS = (
    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
)
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9503))


def lab(colours: tuple[str, ...], sight: tuple[tuple[float, ...], ...]) -> Array:
    """`[N, 3]` lightness and two hues, as an eye sees them."""
    parts = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in colours])
    light = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(light @ np.array(sight).T, 0, 1)
    x, y, z = np.cbrt(seen @ np.array(TO_XYZ).T / (0.9505, 1.0, 1.0888)).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def test_all_eyes_tell_the_colours_apart() -> None:
    for sight in SIGHTS:
        places = lab(PALETTE, sight)
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        apart[np.diag_indices(len(PALETTE))] = np.inf
        # What is just told from another is 2.3 away.
        assert apart.min() > 15, (sight, apart.min())


def test_ten_methods_have_ten_colours_and_forty_are_told_apart() -> None:
    names = ["structured", "my-plug-in", "my-plug-in", "marvel", "nobody", "gradient", "gradient"]
    labels = [f"{place} {name}" for place, name in enumerate([*names, *names[:3]])]
    found = method_styles(zip(labels, [*names, *names[:3]], strict=True))
    assert list(found) == labels
    assert len({style.colour for style in found.values()}) == 10
    # Variants of one method have dashes of their own.
    assert [found[label].dash for label in labels if "plug-in" in label][:3] == [*DASHES[:3]]
    many = method_styles((str(place), "other") for place in range(40))
    assert len({(style.colour, str(style.dash)) for style in many.values()}) == 40


def test_a_method_keeps_its_colour_where_nobody_else_has_it() -> None:
    for name in ("annealing", "genetic", "structured", "xgboost", "random", "exact"):
        assert name in SEARCHERS
        alone = method_colour(name)
        assert method_styles([("other", "nobody"), ("mine", name)])["mine"].colour == alone
    ours = [(name, name) for name in ("annealing", "genetic", "gradient", "structured", "random")]
    assert {name: style.colour for name, style in method_styles(ours).items()} == {
        name: method_colour(name) for name, _ in ours
    }
