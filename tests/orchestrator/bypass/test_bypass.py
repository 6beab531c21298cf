"""`mapspace bypass`: what it is worth per layer, and where free multicast makes it degenerate."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.records import record_code
from mapspace.errors import ConfigError
from orchestrator.bypass.compare import compare_bypass, deliveries


def layer(source: str, machine: str) -> dict[str, Any]:
    found = compare_bypass(source, machine, network=False, seconds=60, stream=io.StringIO())
    row: dict[str, Any] = found.to_dict()["layers"][0]
    assert row["kept"]["proven"]
    assert row["searched"]["proven"]
    return row


@pytest.mark.parametrize(
    ("name", "kept", "free", "limited"),
    [
        ("resnet-conv4", 7.925e16, 3.264e16, 4.706e16),
        ("gemm-1024", 3.088e16, 1.405e16, 1.731e16),
        ("mttkrp-0", 3.226e22, 1.097e22, 1.500e22),
    ],
)
def test_known_optima(name: str, kept: float, free: float, limited: float) -> None:
    """Proven before by an independent program, to four digits."""
    row = layer(name, "mm256")
    assert row["kept"]["edp"] == pytest.approx(kept, rel=2e-4)
    assert row["searched"]["edp"] == pytest.approx(free, rel=4e-4)
    assert row["degenerate"]
    row = layer(name, "mm256-bw-bypass")
    assert row["searched"]["edp"] == pytest.approx(limited, rel=4e-4)
    assert row["edp_ratio"] > 1
    assert not row["degenerate"]


def test_the_preset_says_nothing_about_which_bypass_is_compared() -> None:
    plain, searched = (layer("gemm-512", name) for name in ("mm256", "mm256-bypass"))
    assert plain["kept"]["edp"] == searched["kept"]["edp"]
    assert plain["searched"]["edp"] == searched["searched"]["edp"]


def test_keeping_what_is_delivered_free_never_pays() -> None:
    """What the rule claims: no tile of the element buffers makes keeping such a tensor cheaper."""
    space = MapSpace(workload("resnet-conv4"), accelerator("mm256-bypass"))
    best = record_code(space, layer("resnet-conv4", "mm256")["searched"]["record"])
    column = space.attribute_names.index("keep.L1")
    rng = np.random.default_rng(0)
    codes = space.mutate(rng, np.repeat(best[None], 400, axis=0), steps=4)
    codes[:, column] = 0
    codes = np.concatenate([best[None], codes[space.feasible(codes)][:60]])
    model = LoopNestModel()
    checked = 0
    for code in codes:
        alone = model.evaluate(space, code[None], detail=True)
        assert alone.detail is not None
        for t, entry in enumerate(deliveries(space, alone.detail, float(alone.latency_cycles[0]))):
            kept = code.copy()
            kept[column] |= 1 << t
            having = model.evaluate(space, kept[None])
            if entry.free and having.ok[0]:
                assert having.energy_pj[0] > alone.energy_pj[0]
                checked += 1
    assert checked > 50


def test_deliveries_by_hand() -> None:
    """Z[M, N] += A[M, K] x B[K, N], 4 x 2 x 2, M over four elements that keep nothing.

    16 MACs. Each word of A goes to one element: 16 reads, 2.2 pJ per MAC. A word of B goes to all
    four: 4 reads, 0.55 pJ per MAC, below the 1.12 pJ of an element's own access. Nothing is added
    up across elements: 16 updates of Z, and 16 - 8 reads of what is accumulated further, 3.3 pJ.
    """
    record = {
        "DRAM": {"temporal": {}, "perm": "MNK"},
        "L2": {"temporal": {"N": 2, "K": 2}, "perm": "MNK", "spatial": {"M": 4}},
        "L1": {"temporal": {}, "perm": "MNK"},
        "keep": {"DRAM": ["A", "B", "Z"], "L2": ["A", "B", "Z"], "L1": []},
    }
    for machine, free in (("mm256-bypass", True), ("mm256-bw-bypass", False)):
        space = MapSpace(workload("gemm:M=4,N=2,K=2"), accelerator(machine))
        code = record_code(space, {"mapping": record})
        costs = LoopNestModel().evaluate(space, code[None], detail=True)
        assert costs.detail is not None
        a, b, z = deliveries(space, costs.detail, float(costs.latency_cycles[0]))
        assert (a.level, b.level, z.level) == ("L2", "L2", "L2")
        assert (a.macs_per_access, b.macs_per_access, z.macs_per_access) == (1, 4, 1)
        assert a.pj_per_mac == pytest.approx(2.2)
        assert b.pj_per_mac == pytest.approx(0.55)
        assert z.pj_per_mac == pytest.approx(2.2 * 24 / 16)
        assert (a.free, b.free, z.free) == (False, free, False)
        assert a.words_per_cycle == pytest.approx(16 / float(costs.latency_cycles[0]))


def test_hop_energy_is_a_price() -> None:
    device = {
        "extends": "mm256",
        "name": "hops",
        "levels": [{"name": "L2", "mesh": [16, 16], "hop_energy_pj": 0.5}],
    }
    space = MapSpace(workload("gemm:M=4,N=2,K=2"), accelerator({**device, "bypass": "searched"}))
    code = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    code[space.attribute_names.index("keep.L1")] = 0
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    assert costs.detail is not None
    assert not any(entry.free for entry in deliveries(space, costs.detail, 1.0))


def test_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        "layers:\n"
        "  - {gemm: {M: 64, N: 64, K: 64}, count: 3, name: first}\n"
        "  - {gemm: {M: 32, N: 128, K: 64}, name: second}\n"
    )
    assert call("bypass", "--network", str(path), "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    first, second = summary["layers"]
    for key in ("kept", "searched"):
        for part in ("energy_pj", "latency_cycles"):
            expected = 3 * first[key][part] + second[key][part]
            assert summary["totals"][key][part] == pytest.approx(expected)
    assert first["edp_ratio"] >= 1
    assert call("bypass", "--network", str(path)) == 0
    text = capsys.readouterr().out
    assert "first" in text
    assert ("Warning: degenerate (*) in" in text) == (summary["totals"]["degenerate"] > 0)


def test_the_text_warns_with_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bypass", "resnet-conv4") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Warning: degenerate. Weights, Inputs, Outputs (free, above)" in text
    assert "the 110 words per cycle" in text
    assert call("bypass", "resnet-conv4", "--accelerator", "mm256-bw") == 0
    assert "degenerate" not in capsys.readouterr().out


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bypass") == 2
    assert "Expected either WORKLOAD or --network" in capsys.readouterr().err
    assert call("bypass", "gemm-512", "--seconds", "0") == 2
    assert "--seconds: expected more than 0" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="bypasses what overflows"):
        layer("gemm-512", "mindmappings-released")
