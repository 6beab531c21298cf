"""Loops that ask for words again: held against Timeloop's counts, and counted by hand."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from typing import Any

from paths import GOLDEN

from costmodel.loop_nest.nest_loops import Nest, nest_of
from costmodel.loop_nest.record_forms import as_nest
from costmodel.loop_nest.refetching import Refetching, refetching


def _reads(nest: Nest, found: Refetching) -> int | None:
    """Words that all instances read, from the loops alone; None where tiles overlap."""
    tensor = next(one for one in nest.problem.tensors if one.name == found.tensor)
    names = [name for axis in tensor.axes for name, _ in axis]
    own = set(names)
    if tensor.output or any(len(axis) > 1 for axis in tensor.axes) or len(own) < len(names):
        return None
    names = [level.name for level in nest.levels]
    twice = [
        loop.factor
        for level in nest.levels[: names.index(found.level)]
        for loop in level.spatial
        if loop.dimension not in own
    ]
    return found.words * found.times * math.prod(twice)


def _perfect_records() -> Iterator[dict[str, Any]]:
    """Records without remainders, and without words that neighbours hand to each other."""
    for file in sorted((GOLDEN / "timeloop-general").glob("*.jsonl.gz")):
        with gzip.open(file, "rt") as lines:
            records = [json.loads(line) for line in lines]
        for record in records:
            loops = [len(loop) for level in record["mapping"] for loop in level.get("temporal", ())]
            scored = isinstance(record.get("result", {}).get("levels"), list)
            if scored and max(loops, default=2) == 2 and not file.name.startswith("links"):
                yield record


def test_the_loops_explain_the_reads_of_timeloop() -> None:
    """Of an input without windows the reads are its words times what the loops say."""
    seen = 0
    for record in _perfect_records():
        counts = {level["name"]: level["tensors"] for level in record["result"]["levels"]}
        nest = nest_of(record)
        for found in refetching(nest):
            wanted = _reads(nest, found)
            if wanted is not None:
                got = counts[found.level][found.tensor]
                assert got["reads"] * got["instances"] == wanted, found
                seen += 1
    assert seen > 4000


def test_counted_by_hand() -> None:
    nest = nest_of(
        as_nest(
            {
                "workload": "gemm:M=64,N=64,K=64",
                "accelerator": "mm256",
                "mapping": [
                    {"level": "DRAM", "temporal": [["N", 2], ["M", 2]]},
                    {"level": "L2", "temporal": [["M", 2]], "spatial": [["N", 16], ["M", 16]]},
                    {"level": "L1", "temporal": [["N", 2], ["K", 64]]},
                ],
            }
        )
    )
    found = {(one.level, one.tensor): one for one in refetching(nest)}

    def again(level: str, tensor: str) -> list[str]:
        return [
            f"{cause.level} {cause.loop.dimension}{cause.loop.factor}"
            for cause in found[level, tensor].again
        ]

    # A[M, K]: N stands outside of M, which moves its tile.
    assert again("DRAM", "A") == ["DRAM N2"]
    assert found["DRAM", "A"].into == "L2"
    assert [cause.loop.dimension for cause in found["L2", "A"].copies] == ["N"]
    # B[K, N]: only loops that it does not depend on stand inside of N.
    assert again("DRAM", "B") == []
    assert again("L2", "B") == []
    # A unit holds nothing: every loop that a tensor does not depend on asks again.
    assert again("L1", "B") == ["DRAM M2", "L2 M2"]
    assert again("L1", "Z") == ["L1 K64"]
    assert found["L1", "Z"].into == "MAC"
    assert found["L1", "A"].times == 4
