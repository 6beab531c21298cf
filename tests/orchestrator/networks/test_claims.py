"""Claims that the certificates of networks have in common: each one changed is found out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call

# Holds one layer's output: of resident tensors there is a choice.
MACHINE = {
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 40, "fanout": 3},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 5},
    ],
}
NETWORK = {
    "name": "pair",
    "layers": [
        {"name": "up", "gemm": {"M": 4, "N": 4, "K": 2}, "count": 3},
        {"name": "down", "gemm": {"M": 4, "N": 2, "K": 4}, "count": 3, "input": "up"},
    ],
}


def wrong_claims(true: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A proven certificate with one claim changed, and what is said of it."""
    yield "proven is wrong", {**true, "proven": False}
    yield "proven is wrong", {**true, "gap": 1e-6}
    yield "made for another", {**true, "model": "another"}
    yield "made for loopnest 0", {**true, "model_version": "0"}
    yield "hash 0 is that of other content", {**true, "accelerator_hash": "0"}
    yield "in all they take", {**true, "latency_cycles": true["latency_cycles"] + 1}
    yield "the lines say", {**true, "lower_bound": "9" + true["lower_bound"].split("/")[0]}
    yield "expected every weight once", {**true, "cuts": [*true["cuts"], true["cuts"][0]]}
    yield "expected false where there is no limit", {**true, "fronts": True}
    other = "most_energy_pj" if true["objective"] != "latency" else "most_cycles"
    yield "alone", {**true, other: "1" if other == "most_energy_pj" else 1}


@pytest.mark.parametrize("how", [(), ("--resident",), ("--resident", "--fused")])
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_each_claim_is_looked_at(
    how: tuple[str, ...], objective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, machine = tmp_path / "pair.yaml", tmp_path / "machine.yaml"
    network.write_text(json.dumps(NETWORK))
    machine.write_text(json.dumps(MACHINE))
    asked = ("search", "--network", network, "--jointly", *how, "--accelerator", machine)
    assert call(*asked, "--objective", objective, "--output", tmp_path / "found.jsonl") == 0
    file = tmp_path / "found.certificate.json"
    true = json.loads(file.read_text())
    assert true["proven"]
    assert call("verify", file) == 0
    capsys.readouterr()
    for said, changed in wrong_claims(true):
        file.write_text(json.dumps(changed))
        assert call("verify", file) in (1, 2), said
        captured = capsys.readouterr()
        assert said in captured.out + captured.err, said
