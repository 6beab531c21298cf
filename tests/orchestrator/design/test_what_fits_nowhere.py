"""Layers that fit on no machine, limits that none keeps: one line each, with what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call
from test_design import GRID, LAYERS, content, designed, swept

from mapspace.errors import ConfigError
from orchestrator.design import plan as design_plan
from orchestrator.sweep.report import text_summary

SMALL = {"L1.capacity_words": [1, 2], "L2.fanout": [2, 4]}
# Every mapping must fill the L2; tiles of the second layer have 104 words, or 144.
FULL = {"extends": "mm256-bw", "levels": [{"name": "L2", "min_utilisation": 1.0}]}
BETWEEN = {"L2.capacity_words": [130, 140], "L2.fanout": [2, 4]}


def test_a_layer_that_fits_nowhere_is_named_with_the_smallest_change(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        designed(tmp_path, grid=SMALL)
    assert str(caught.value) == (
        "test.yaml: grid: gemm:M=8,N=12,K=6 has no mapping on any machine; the smallest change "
        "that admits one: L1 capacity of at least 3 words (2 now)."
    )
    assert not any(tmp_path.iterdir()), "nothing is written"
    # And with it there is one.
    assert designed(tmp_path, grid={**SMALL, "L1.capacity_words": [1, 2, 3]})[1].proven


def test_the_proofs_say_so_where_no_glance_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(design_plan, "_holds_nothing", lambda work, machine: False)
    with pytest.raises(
        ConfigError, match=r"^test: grid: gemm:M=4.*L1 capacity of at least 3 words"
    ):
        designed(tmp_path, grid=SMALL)


def test_a_layer_that_rules_leave_nothing_of(tmp_path: Path) -> None:
    """Where no capacity is too small: of the changes of all machines the smallest."""
    given: dict[str, Any] = {"base": FULL, "workloads": LAYERS[1:]}
    with pytest.raises(ConfigError) as caught:
        designed(tmp_path / "a", **given, grid=BETWEEN)
    said = str(caught.value)
    assert said.startswith("test: grid: gemm:M=4,N=4,K=16 has no mapping on any machine; the ")
    assert said.endswith("smallest change that admits one: L2 capacity of 144 words (140 now).")
    assert designed(tmp_path / "b", **given, grid={"L2.capacity_words": [130, 144]})[1].proven


def test_a_sweep_says_which_layers_fit_where(tmp_path: Path) -> None:
    nowhere = " ".join(text_summary(swept(tmp_path / "a", grid=SMALL)).split())  # lines wrap
    assert (
        "gemm:M=8,N=12,K=6 has no mapping on any machine; the smallest change that admits one: "
        "L1 capacity of at least 3 words (2 now)."
    ) in nowhere
    some = text_summary(swept(tmp_path / "b", grid={**SMALL, "L1.capacity_words": [2, 8]}))
    assert "gemm:M=4,N=4,K=16 has no mapping on 2 of 4 accelerators." in some.splitlines()
    assert "has no mapping" not in text_summary(swept(tmp_path / "c", grid={"L2.fanout": [2]}))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        # Floors tell before anything is proven.
        ({"latency_ms": 1e-9}, "latency_ms: expected at least 7.2e-05 ms, which every mapping"),
        ({"energy_mj": 1e-9}, "energy_mj: expected at least 4.658e-05 mJ, which every mapping"),
        ({"power_w": 1e-4, "latency_ms": 1e-3},
         "power_w x latency_ms: expected at least 4.658e-05 mJ, .* got 1e-07 mJ"),
        ({"area_bits": 1.0}, "area_bits: expected at least 5,376, the smallest machine's area"),
        # Proofs do.
        ({"power_w": 1e-9}, r"within the limits \(power at most 1e-09 W\); there is none"),
    ],
)  # fmt: skip
def test_limits_that_no_machine_keeps(
    limits: dict[str, float], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        designed(tmp_path, workloads=LAYERS[:1], limits=limits)
    assert "\n" not in str(caught.value)


def test_limits_at_what_a_machine_takes_are_kept(tmp_path: Path) -> None:
    """The contradiction is one of floors: what is just above them is looked at."""
    some: dict[str, Any] = {"workloads": LAYERS[:1], "grid": GRID}
    _, free = designed(tmp_path / "a", **some, find="best", objective="latency")
    best = free.machines.best
    assert best is not None
    limits = {"latency_ms": 1e3 * best["latency_s"], "power_w": best["power_w"]}
    _, kept = designed(tmp_path / "b", **some, find="best", objective="latency", limits=limits)
    assert kept.machines.best is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, "grid: expected a key with values at least, got none: no machine."),
        ({"grid": {"L1.capacity_words": []}}, "grid.L1.capacity_words"),
        ({"workloads": []}, "workloads"),
    ],
)
def test_an_empty_space_is_one_line(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("design", "sweep"):
        file = tmp_path / f"{kind}.yaml"
        file.write_text(yaml.safe_dump(content(kind=kind, **changes)))
        assert call(kind, file, "--output", tmp_path / "run") == 2
        said = capsys.readouterr().err.strip()
        assert message in said
        assert "\n" not in said
