"""Proofs that go on from a certificate: the same optimum, and nothing settled is done again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call
from small_hierarchies import random_hierarchy
from tilings_by_value import least_by_tiling

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import Certificate, certify, read_certificate
from costmodel.exact_any import prover as any_prover
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.tilings import Tilings, Trail
from mapspace.errors import ConfigError

SMALL = "gemm:M=32,N=32,K=32"
MOST_STOPS = 30


INNER = Trail().notes


def again(prover: Any, make: Any, path: Path) -> Any:
    """Another proof that goes on from the certificate of one, by its file."""
    path.write_text(certify(prover, 1.0).text())
    held = read_certificate(path)
    assert held.earlier is not None
    best = held.earlier.progress.best
    top = 1 if best is None else best.top
    following = make(prover.space, objective=prover.objective, build=False, top=top)
    following.offer(prover.codes(1))
    following.resume(held.earlier)
    return following


def check(seed: int, most: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Stops a proof again and again, and holds it against all mappings.

    Returns:
        How often, and how often amid the tilings of an assignment of which some were through.
    """
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    tried: list[tuple[Any, ...]] = []
    honest = Tilings._try

    def noted(self: Any, one: Any, assignment: Any, tiles: Any, cycles: int) -> None:
        keeps = bytes(assignment.keeps)
        extents = tuple(map(tuple, tiles.tolist()))
        tried.append((one.number, keeps, assignment.spatial.tobytes(), extents))
        honest(self, one, assignment, tiles, cycles)

    monkeypatch.setattr(Tilings, "_try", noted)
    # A tiling that is tried early is tried again when its assignment is searched.
    monkeypatch.setattr(any_prover, "DIVE", 0)
    prover, stops, amid = AnyProver(space, objective=objective, build=False), 0, 0
    prover.offer(codes[rng.integers(len(codes), size=1)])
    certain = prover.lower_outcome
    while not prover.finished:
        if next(prover._work, prover) is prover:
            prover.finished = True
            break
        # Now and then, and often amid the tilings of an assignment.
        through = any(tiles for _, tiles in prover._tilings.trail.way)
        often = 0.0 if stops == MOST_STOPS else 0.3 if through else 0.06
        if not prover.built or rng.random() >= often:
            continue
        prover = again(prover, AnyProver, path)
        searches = prover._resumed.searches
        amid += any(through for search in searches for _, through in search.trail)
        while not prover.built:
            next(prover._work)
        assert prover.rank_of(certain) <= prover.rank_of(prover.lower_outcome), "the bound fell"
        certain, stops = prover.lower_outcome, stops + 1
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    reached = float(LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0])
    where = f"{objective} on {space.accelerator.model_dump()} of {space.workload}"
    assert reached <= float(values.min()) * (1 + 2e-12), where
    # Of each stop it is noted how far the two innermost levels are; those outside begin anew.
    again_in = {
        (*of, tiles[-INNER:]) for (*of, tiles), times in Counter(tried).items() if times > 1
    }
    assert len(again_in) <= stops, f"tilings were tried twice: {where}"
    return stops, amid


@pytest.mark.parametrize("block", range(3))
def test_equals_enumeration(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(50_000 + 16 * block, 50_016 + 16 * block)
    stops = [check(seed, 1500, tmp_path / "c.json", monkeypatch) for seed in seeds]
    assert sum(often for often, _ in stops) > 10
    assert sum(amid for _, amid in stops) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_more_equal_enumeration(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(51_000 + 20 * block, 51_020 + 20 * block):
        check(seed, 20_000, tmp_path / "c.json", monkeypatch)


def check_best(seed: int, most: int, path: Path) -> int:
    """Stops a proof of the best tilings again and again, and holds it against all tilings."""
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    top, stops = int(rng.choice([2, 3, 7, 40])), 0
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    true = least_by_tiling(space, codes, values)[:top]
    prover = AnyProver(space, objective=objective, build=False, top=top)
    prover.offer(codes[rng.integers(len(codes), size=1)])
    while not prover.finished:
        if next(prover._work, prover) is prover:
            prover.finished = True
        elif prover.built and rng.random() < (0.1 if stops < MOST_STOPS else 0.0):
            prover, stops = again(prover, AnyProver, path), stops + 1
    found = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
    where = f"{objective}, {top}, on {space.accelerator.model_dump()} of {space.workload}"
    np.testing.assert_allclose(found, true, rtol=5e-12, err_msg=where)
    return stops


def test_the_best_tilings_go_on(tmp_path: Path) -> None:
    stops = [check_best(seed, 1500, tmp_path / "c.json") for seed in range(53_000, 53_008)]
    assert sum(stops) > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_best_tilings_go_on(block: int, tmp_path: Path) -> None:
    for seed in range(53_100 + 20 * block, 53_120 + 20 * block):
        check_best(seed, 20_000, tmp_path / "c.json")


def test_a_trail_goes_on_where_it_was() -> None:
    trail = Trail()
    trail.open()
    for tile in (3, 5):
        trail.enter(tile)
        trail.leave()
    trail.enter(8)
    trail.open()
    trail.enter(1)
    trail.leave()
    assert trail.way == ((8, (3, 5)), (-1, (1,)))
    other = Trail(trail.way)
    assert other.open() == {3, 5}
    other.enter(7)
    assert other.open() == set()  # inside another tile nothing is through
    other.close()
    other.leave()
    assert other.way == ((8, (3, 5, 7)), (-1, (1,)))
    other.enter(8)
    assert other.way == ((8, (3, 5, 7)), (-1, (1,)))
    assert other.open() == {1}
    assert Trail(trail.way).way == trail.way


def unfinished(path: Path, machine: str = "eyeriss", steps: int = 12, top: int = 1) -> Certificate:
    """The certificate of a proof that was stopped early, in a file."""
    space = MapSpace(workload("resnet-conv4"), accelerator(machine))
    prover = make_prover(space, build=False, top=top)
    prover.offer(space.sample(np.random.default_rng(0), 50, feasible=True))
    while not prover.built:
        prover.step(parts=1)  # so much whatever time it takes
    prover.step(parts=steps)
    assert not prover.finished
    path.write_text(certify(prover, 1.5).text())
    return read_certificate(path)


@pytest.mark.parametrize("machine", ["eyeriss", "mm256-bw-bypass"])
def test_the_command_goes_on(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.certificate.json"
    held = unfinished(path, machine)
    assert not held.proven
    direct = answer(capsys, "search", "resnet-conv4", "--accelerator", machine)
    found = answer(capsys, "search", "--continue", str(path), "--output", str(tmp_path / "c.jsonl"))
    assert found["proven"]
    assert found["edp"] == pytest.approx(direct["edp"], rel=1e-12)
    finished = read_certificate(path)
    assert finished.proven
    assert finished.progress is None
    assert finished.seconds > 1.5
    assert "progress" not in json.loads(path.read_text())
    assert call("verify", str(path)) == 0
    assert call("search", "--continue", str(path)) == 2
    assert "is finished; `mapspace verify` proves it again" in capsys.readouterr().err
    assert ms.continue_proof(held).proven


@pytest.mark.parametrize("machine", ["eyeriss", "mm256-bw-bypass"])
def test_the_command_goes_on_with_the_best(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.certificate.json"
    unfinished(path, machine, top=3)
    direct = answer(capsys, "search", "resnet-conv4", "--accelerator", machine, "--top", "3")
    damaged = json.loads(path.read_text())
    damaged["progress"]["best"]["found"][:1] = [[0]]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(damaged))
    for file, top, words in ((path, "2", "began with top 3, got top 2"), (wrong, "3", "best")):
        assert call("search", "--continue", str(file), "--top", top) == 2
        lines = capsys.readouterr().err.splitlines()
        assert words in lines[-1], lines
        assert not any("Traceback" in line for line in lines)
    found = answer(capsys, "search", "--continue", str(path), "--top", "3")
    assert found["proven"]
    values = [[one["edp"] for one in each["top"]] for each in (direct, found)]
    assert values[1] == pytest.approx(values[0], rel=1e-12)
    assert len(values[0]) == 3
    assert len(ms.continue_proof(path).top) == 3


def test_what_does_not_go_on_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.certificate.json"
    held = json.loads(unfinished(path).text())
    group = held["progress"]["groups"][0]
    damaged = tmp_path / "damaged.json"
    go_on = ("--continue", str(path))
    cases: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        (("gemm-512", *go_on), {}, "expected a certificate of edp of gemm-512"),
        (("resnet-conv4", "--accelerator", "simba", *go_on), {}, "got one of edp of resnet-conv4"),
        (("--accelerator", "eyeriss", *go_on), {}, "--accelerator: the certificate says it"),
        (("--network", "alexnet", *go_on), {}, "Expected --continue alone"),
        ((*go_on, "--top", "2"), {}, "began with top 1, got top 2"),
        (("--continue", str(tmp_path / "none.json")), {}, "none.json"),
        ((), {"energy_units": "7"}, "damaged or of another version: the mapping takes"),
        ((), {"workload_hash": "0"}, "workload hash 0"),
        ((), {"model_version": "0"}, "made for loopnest 0"),
        ((), {"progress": {"prover": "any-levels-0", "groups": []}}, "progress"),
        ((), {"progress": {"prover": "any-levels-1", "groups": [[]] * 3}}, "progress.groups[0]"),
        (
            (),
            {"progress": {"prover": "any-levels-1", "groups": [{**group, "assignments": 1}]}},
            "that of other assignments",
        ),
    ]
    for arguments, change, words in cases:
        damaged.write_text(json.dumps({**held, **change}))
        capsys.readouterr()
        assert call("search", *(arguments or ("--continue", str(damaged)))) == 2, words
        lines = capsys.readouterr().err.splitlines()
        assert words in lines[-1], lines
        assert not any("Traceback" in line for line in lines)


def test_verifying_believes_nothing_that_is_settled(tmp_path: Path) -> None:
    """A file that calls everything settled makes a wrong proof, which does not verify."""
    path = tmp_path / "c.json"
    held = unfinished(path)
    assert held.progress is not None
    content = json.loads(held.text())
    for group in content["progress"]["groups"]:
        group |= {"settled": [[0, group["assignments"]]], "bounded": [], "begun": []}
    content["progress"]["searches"] = []
    path.write_text(json.dumps(content))
    wrong = ms.continue_proof(path)
    assert wrong.proven
    assert not ms.verify(wrong).holds


def test_old_certificates_give_their_mapping_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    content = json.loads(unfinished(path).text())
    del content["progress"]
    path.write_text(json.dumps(content))
    assert ms.continue_proof(path).proven
    with pytest.raises(ConfigError, match="finished"):
        ms.continue_proof(ms.search(SMALL))
