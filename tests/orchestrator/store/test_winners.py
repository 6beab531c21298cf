"""Winners of similar problems: which they are, and searches that begin from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, printed
from hypothesis import given, settings
from hypothesis import strategies as st

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import mapping_record
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from orchestrator.store.compaction import compact
from orchestrator.store.folder import CERTIFICATES, ROWS, Store
from orchestrator.store.winners import _taken_over, winners
from searchers import SEARCHERS, searcher_class

GENETIC: dict[str, Any] = {"searcher": "genetic", "iterations": 60, "warm_start": True}


def space_of(source: str, machine: str = "mm256") -> MapSpace:
    return MapSpace(workload(source), accelerator(machine))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Proofs of three products and a convolution, one of them also for energy and elsewhere."""
    place = tmp_path_factory.mktemp("winners") / "store"
    for source in ("gemm:M=16,N=8,K=8", "gemm:M=64,N=16,K=8", "gemm:M=32,N=8,K=8"):
        ms.search(source, store=place)
    ms.search("mttkrp:I=8,J=8,K=8,L=8", store=place)
    ms.search("gemm:M=32,N=8,K=16", objective="energy", store=place)
    ms.search("gemm:M=32,N=16,K=16", "tiny3", store=place)
    return place


def test_the_nearest_come_first_by_hand(filled: Path) -> None:
    found = winners(space_of("gemm:M=32,N=8,K=8"), "edp", Store(filled))
    # Of 16 to 32 one doubling, of 64, 16 to 32, 8 two; the problem itself is none of them.
    assert [one.distance for one in found] == pytest.approx([1.0, 2**0.5])
    assert [dict(workload(one.workload).dimensions)["M"] for one in found] == [16, 64]
    for one in winners(space_of("gemm:M=32,N=8,K=8"), "edp", Store(filled), 1):
        assert one.distance == 1.0
    assert winners(space_of("conv1d:C=8,K=8,P=8,R=3"), "edp", Store(filled)) == ()
    assert winners(space_of("gemm:M=32,N=8,K=8"), "ed2p", Store(filled)) == ()
    (energy,) = winners(space_of("gemm:M=32,N=8,K=8"), "energy", Store(filled))
    assert energy.distance == 1.0


def test_the_outermost_loops_make_up_for_other_sizes(filled: Path) -> None:
    proven = ms.search("gemm:M=16,N=8,K=8", store=filled)
    space = space_of("gemm:M=32,N=8,K=8")
    code = _taken_over(space, proven.workload, proven.record)[0]
    was, now = proven.mapping.levels, space.describe(code).levels
    assert now[0].temporal == {**was[0].temporal, "M": 2 * was[0].temporal["M"]}
    assert now[0].spatial == was[0].spatial
    assert [level.order for level in now] == [level.order for level in was]
    for level, other in zip(now[1:], was[1:], strict=True):
        assert (level.temporal, level.spatial) == (other.temporal, other.spatial)


SIZES = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 16, 30, 64])


@settings(max_examples=15)
@given(sizes=st.tuples(*[SIZES] * 6), seed=st.integers(0, 99))
def test_whatever_is_taken_over_is_feasible(sizes: tuple[int, ...], seed: int) -> None:
    one, other = (
        space_of(f"gemm:M={m},N={n},K={k}", "tiny3") for m, n, k in (sizes[:3], sizes[3:])
    )
    code = one.sample(np.random.default_rng(seed), 1, feasible=True)[0]
    codes = _taken_over(other, one.workload, mapping_record(one, code))
    other.check(codes)
    assert other.feasible(codes).all()
    assert 1 <= len(codes) <= 2
    if sizes[:3] == sizes[3:]:
        assert LoopNestModel().evaluate(other, codes).objective("edp")[0] == pytest.approx(
            LoopNestModel().evaluate(one, code[None]).objective("edp")[0]
        )


def test_rows_in_parquet_and_damage(filled: Path, tmp_path: Path) -> None:
    import shutil

    lines: list[str] = []
    store = Store(Path(shutil.copytree(filled, tmp_path / "copy")), lines.append)
    space = space_of("gemm:M=32,N=8,K=8")
    single = winners(space, "edp", store)
    compact(store)
    assert len(list((store.place / ROWS).iterdir())) == 1
    together = winners(space, "edp", store)
    assert [one.workload for one in together] == [one.workload for one in single]
    for one, other in zip(single, together, strict=True):
        assert np.array_equal(one.codes, other.codes)
    assert lines == []
    for file in (store.place / CERTIFICATES).iterdir():
        if b'"gemm:M=16,' in file.read_bytes():
            file.write_bytes(b"damaged")
    assert [one.distance for one in winners(space, "edp", store)] == pytest.approx([2**0.5])
    assert any("no search begins from it" in line for line in lines)


def test_a_warm_start_counts_and_is_another_question(filled: Path) -> None:
    source = "gemm:M=32,N=32,K=8"
    warm = ms.search(source, store=filled, **GENETIC)
    assert warm.begins is not None
    codes = np.concatenate([one.codes for one in warm.begins])
    losses = LoopNestModel().evaluate(space_of(source), codes).objective("edp")
    trial = warm.trial
    assert trial.iterations == 60
    assert trial.curve_iteration[0] == 1
    assert trial.curve_loss[0] == losses[0]
    assert trial.best_loss <= losses.min()
    cold = ms.search(source, store=filled, **{**GENETIC, "warm_start": False})
    assert (warm.from_store, cold.from_store) == (False, False)
    assert cold.begins is None
    again = ms.search(source, store=filled, **GENETIC)
    assert again.from_store
    assert again.to_dict()["warm_start"] == warm.to_dict()["warm_start"]


def test_json_and_text_say_what_a_search_began_from(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("search", "gemm:M=16,N=16,K=16", "--searcher", "annealing", "--iterations", "40")
    warm = (*arguments, "--warm-start", "--store", str(filled))
    said = json.loads(printed(capsys, *warm, "--json"))
    assert [entry["distance"] for entry in said["warm_start"]] == sorted(
        entry["distance"] for entry in said["warm_start"]
    )
    assert all(1 <= entry["mappings"] <= 2 for entry in said["warm_start"])
    assert "began from" in printed(capsys, *warm)
    assert "warm_start" not in json.loads(
        printed(capsys, *arguments, "--store", str(filled), "--json")
    )
    empty = str(filled.parent / "empty")
    assert "no similar problem" in printed(capsys, *arguments, "--warm-start", "--store", empty)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gemm-512", "--searcher", "random"], "random cannot"),
        (["gemm-512"], "exact cannot"),
        (["gemm-512", "--searcher", "genetic", "--islands", "2"], "islands cannot"),
        (["gemm-512", "--searcher", "genetic", "--no-store"], "there is none"),
        (["--network", "resnet50"], "for a single WORKLOAD"),
        (["gemm-512", "--simulator", "x.yaml"], "--warm-start is for the model"),
    ],
)
def test_who_cannot_begin_there_is_told(
    arguments: list[str], words: str, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = [] if "--no-store" in arguments else ["--store", str(filled)]
    assert call("search", *arguments, "--iterations", "9", "--warm-start", *store) == 2
    assert words in capsys.readouterr().err


def test_the_message_names_all_who_can(filled: Path) -> None:
    with pytest.raises(ConfigError) as error:
        ms.search("gemm-512", searcher="random", iterations=9, warm_start=True, store=filled)
    named = {name for name in SEARCHERS if name in str(error.value)} - {"random"}
    light = [name for name in SEARCHERS if name not in ("ddpg", "ppo", "gradient")]
    assert named == {name for name in light if searcher_class(name).TAKES_MIGRANTS}
