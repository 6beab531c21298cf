"""Mappings with remainders on networks whose hops cost energy, by Timeloop's counting."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from paths import GOLDEN

import mapspace as ms

CASE = GOLDEN / "wrong-answers" / "fail-09" / "record.jsonl"


def networks_of(level: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said of every tensor on the network below a level."""
    return list(level.get("network", {}).values())


def random_record(rng: np.random.Generator) -> dict[str, Any]:
    """The first case with other sizes: every dimension in passes, across children and in these."""
    record: dict[str, Any] = json.loads(CASE.read_text())
    outer, across, inner = [], [], []
    room = int(rng.choice([4, 6, 8]))
    for name in rng.permutation(list("MNK")).tolist():
        size = int(rng.integers(2, 10))
        record["problem"]["dims"][name] = size
        children = int(rng.integers(1, min(room, size) + 1))
        block = int(rng.integers(1, -(-size // children) + 1))
        passes = -(-size // (children * block))
        left = size - (passes - 1) * children * block
        last = -(-left // block)
        outer.append([name, passes, passes])
        across.append([name, children, "X", last])
        inner.append([name, block, left - (last - 1) * block])
        room //= children
    levels = record["arch"]["levels"]
    levels[1]["instances"] = levels[1]["meshX"] = 8
    record["arch"]["mac"] |= {"instances": 8, "meshX": 8}
    record["mapping"][0] |= {"temporal": outer, "spatial": across}
    record["mapping"][1]["temporal"] = inner
    return record


def test_hops_of_classes_without_accesses_cost_nothing() -> None:
    """Of outputs twice the accesses less what is new: in a last pass that may be none, or fewer."""
    without = 0
    records = [random_record(np.random.default_rng(seed)) for seed in range(120)]
    for scored in ms.evaluate(records):
        for network in networks_of(scored["result"].get("levels", [{}])[0]):
            classes = network["multicast_scatter_accesses_hops"]
            paid = sum(hops for *_, accesses, hops in classes if accesses > 0)
            assert network["energy_pj"] == pytest.approx(paid, rel=1e-12), scored
            without += any(hops > 0 >= accesses for *_, accesses, hops in classes)
    assert without > 3


def test_a_row_of_many_elements_takes_time_by_their_number() -> None:
    """Not by its square: compiled code hears no Ctrl-C."""
    for count in (4, 1 << 17):
        record: dict[str, Any] = json.loads(CASE.read_text())
        record["problem"]["dims"] = {"M": count, "N": 1, "K": 1}
        record["arch"]["levels"][1] |= {"instances": count, "meshX": count}
        record["arch"]["mac"] |= {"instances": count, "meshX": count}
        record["mapping"][0] |= {"temporal": [], "spatial": [["M", count, "X"]]}
        record["mapping"][1]["temporal"] = []
        began = time.process_time()
        (found,) = ms.evaluate([record])
        network = found["result"]["levels"][0]["network"]
        # A word of A and of Z to every element by itself, the word of B along the row.
        hops = {name: network[name]["energy_pj"] for name in "ABZ"}
        assert hops == dict.fromkeys("AZ", count * (count - 1) / 2) | {"B": count - 1}
    # The second: all is compiled.
    assert time.process_time() - began < 5


def test_the_first_case() -> None:
    (found,) = ms.evaluate([json.loads(CASE.read_text())])
    # Two children of the last pass, all of whose words are new: 2 x 4 - 12 accesses, two hops.
    assert found["result"]["levels"][0]["network"]["Z"]["energy_pj"] == 12.0
    assert found["result"]["energy_pj"] == 2044.0


def test_perfect_mappings_pay_no_hops_of_classes_without_accesses() -> None:
    """An output with a sum for an axis: some children hold words that others hold, too."""
    record: dict[str, Any] = json.loads(CASE.read_text())
    axes = {"A": [[["P", 1]]], "B": [[["R", 1]]], "Z": [[["P", 1], ["R", 1]]]}
    record["problem"] = {
        "name": "transposed",
        "dims": {"P": 3, "R": 3},
        "tensors": [{"name": name, "axes": terms} for name, terms in axes.items()],
    }
    record["problem"]["tensors"][-1]["output"] = True
    levels = record["arch"]["levels"]
    levels[1] |= {"instances": 9, "meshX": 9}
    record["arch"]["mac"] |= {"instances": 9, "meshX": 9}
    record["mapping"][0] |= {"temporal": [], "spatial": [["P", 3, "X"], ["R", 3, "X"]]}
    record["mapping"][1]["temporal"] = []
    (found,) = ms.evaluate([record])
    network = found["result"]["levels"][0]["network"]["Z"]
    classes = network["multicast_scatter_accesses_hops"]
    # Five words, all of them new: of two children, of two, of one.
    assert [accesses for *_, accesses, _ in classes] == [-1, -1, -3]
    assert all(hops > 0 for *_, hops in classes)
    assert network["energy_pj"] == 0
