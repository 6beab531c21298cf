"""Arguments of other types than a signature says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import pytest

from mapspace.arguments import checked
from mapspace.errors import ArgumentError, CallError, ConfigError


class Told(TypedDict, total=False):
    seed: int
    keep: Mapping[str, str | Sequence[str]] | None


def search(
    source: str | Path,
    *,
    objective: Literal["edp", "energy"] = "edp",
    seconds: float | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    **told: Any,
) -> str:
    return f"{source} {seconds}"


asked = checked(search, Told)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": 5}, "source: expected text or a path, got 5."),
        ({"source": None}, "source: expected text or a path, got None."),
        ({"objective": "time"}, "objective: expected 'edp' or 'energy', got 'time'."),
        ({"objective": 1}, "objective: expected 'edp' or 'energy', got 1."),
        ({"seconds": "5"}, "seconds: expected a number or None, got '5'."),
        ({"seconds": True}, "seconds: expected a number or None, got True."),
        ({"rows": {"a": 1}}, "rows: expected a list of mappings, got {'a': 1}."),
        ({"rows": [3]}, "rows: expected a list of mappings, got [3]."),
        ({"rows": "abc"}, "rows: expected a list of mappings, got 'abc'."),
        ({"seed": 1.5}, "seed: expected a whole number, got 1.5."),
        ({"keep": "L1"}, "keep: expected a mapping or None, got 'L1'."),
        ({"keep": {"L1": 3}}, "keep: expected a mapping or None, got {'L1': 3}."),
    ],
)
def test_another_type_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        asked(**{"source": "x", **given})
    assert str(refused.value) == said


def test_what_fits_is_passed_on() -> None:
    assert asked(Path("x"), seconds=np.float64(2), seed=np.int64(3), keep={"L1": ("A",)}) == "x 2.0"
    assert asked("x", rows=iter([3]), seconds=1) == "x 1"  # to look at it would use it up


def test_a_call_that_no_signature_has_is_pythons_own_error() -> None:
    with pytest.raises(CallError, match=r"search\(\): missing a required argument: 'source'; exp"):
        asked()


def test_a_missing_library_says_which_extra_brings_it() -> None:
    @checked
    def learn(rows: int) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    with pytest.raises(ConfigError, match=r"needs torch.*mapspace\[surrogate\]"):
        learn(1)

    @checked
    def other(rows: int) -> None:
        raise ModuleNotFoundError("No module named 'antigravity2'", name="antigravity2")

    with pytest.raises(ModuleNotFoundError):
        other(1)
