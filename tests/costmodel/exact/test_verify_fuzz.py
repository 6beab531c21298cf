"""Damaged certificates: every one holds, is wrong or is refused in one line, and soon."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import GOLDEN

from costmodel.loop_nest.records import arch_record, problem_record
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from orchestrator.proofs.certificates import verify_file

OLD = GOLDEN / "certificates"
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 17, 2**31, 2**53, 2**62 - 1, 2**62, 2**70, 10**40, -(2**63),
    0.5, -0.5, 1e-300, 1e-17, 1e300, "", "0", "x", "1/0", "1e999999999", "9" * 39, "\u0000", "..",
    "L1", "A", "DRAM", [], [[]], [1, 2], ["A", "A"], {}, {"a": {}}, {"": 1}, {"A": [1]},
]  # fmt: skip
# Of machines of any hierarchy, whose records say all of a nest; of buffers side by side.
LATER = ("mapspace-certificate-3", "mapspace-certificate-4")
Place = tuple[str | int, ...]


def leaves(content: Any, place: Place = ()) -> Iterator[Place]:
    """Every place of a certificate, those of lists and mappings included."""
    if place:
        yield place
    items = content.items() if isinstance(content, dict) else ()
    if isinstance(content, list):
        items = enumerate(content)
    for key, value in items:
        yield from leaves(value, (*place, key))


def damage(content: dict[str, Any], rng: random.Random) -> str:
    """A copy with one to three places replaced, removed or doubled."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = list(leaves(content))
        *path, key = rng.choice(places)
        holder: Any = content
        for part in path:
            holder = holder[part]
        how = rng.random()
        if how < 0.1:
            del holder[key]
        elif how < 0.2 and isinstance(holder, dict):
            holder[rng.choice(["x", "", "L9", "keep"])] = copy.deepcopy(holder[key])
        else:
            holder[key] = rng.choice(VALUES)
    if rng.random() < 0.5 and content.get("format") not in LATER:
        _repair(content)
    return json.dumps(content)


def _repair(content: dict[str, Any]) -> None:
    """Makes hashes and record those of the damaged problem, so that it is looked at."""
    try:
        workload = Workload.model_validate(content["workload"])
        accelerator = Accelerator.model_validate(content["accelerator"])
        content["record"] |= {
            "problem": problem_record(workload),
            "arch": arch_record(accelerator),
        }
    except (ValueError, KeyError, TypeError, IndexError):
        return
    content["workload_hash"], content["accelerator_hash"] = workload.hash, accelerator.hash
    content["format"] = "mapspace-certificate-1"


def check(seed: int, path: Path, *, first: bool = True) -> bool | None:
    """What verifying one damaged certificate came to; None: refused."""
    rng = random.Random(seed)
    later = [OLD / "third-eyeriss.json", OLD / "fourth-beside.json"]
    source = rng.choice(sorted(OLD.glob("first-*.json")) if first else later)
    path.write_text(damage(json.loads(source.read_text()), rng))
    try:
        result = verify_file(path)
    except ConfigError as refusal:
        lines = str(refusal).splitlines()
    else:
        assert result.holds or "WRONG" in "".join(result.findings)
        return result.holds
    assert len(lines) == 1
    return None


@pytest.mark.parametrize("block", range(6))
def test_a_damaged_certificate_is_no_traceback(block: int, tmp_path: Path) -> None:
    outcomes = [check(seed, tmp_path / "c.json") for seed in range(60 * block, 60 * block + 60)]
    # All three ends are met, or the damage is of no use.
    assert {None, False} <= set(outcomes)


def test_a_damaged_certificate_of_any_hierarchy_is_no_traceback(tmp_path: Path) -> None:
    outcomes = [check(seed, tmp_path / "c.json", first=False) for seed in range(200)]
    assert {None, False} <= set(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_damaged_certificates_are_no_traceback(block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + 300 * block, 10_300 + 300 * block):
        check(seed, tmp_path / "c.json", first=block < 15)
