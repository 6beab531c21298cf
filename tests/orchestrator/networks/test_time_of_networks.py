"""A network's seconds are all that it takes, however many layers it has."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from commands import call

import mapspace as ms
from costmodel.costs import Objective
from costmodel.networks import network
from costmodel.networks.chains import load_chain
from mapspace.errors import DataError
from mapspace.strict_yaml import load_yaml
from orchestrator.answers.request import Request
from orchestrator.networks import search, search_resident, time_left
from orchestrator.networks.layer_lines import begin_all
from orchestrator.networks.resident import Resident, Ways
from orchestrator.networks.time_left import LEAST_SHARE, TimeLeft


def many(layers: int) -> dict[str, Any]:
    """A network whose layers all differ, each a proof of some milliseconds at least."""
    found = [
        {"name": f"l{one}", "gemm": {"M": 480 + one, "N": 360, "K": 240}} for one in range(layers)
    ]
    return {"name": "many", "layers": found}


def chain(layers: int, kinds: int) -> dict[str, Any]:
    """A network whose layers each read the one before, of so many sizes."""
    found = many(layers)
    for place, layer in enumerate(found["layers"]):
        columns = [240 + one % kinds for one in (place, place - 1 if place else 0)]
        layer["gemm"] = {"M": 480, "N": columns[0], "K": columns[1]}
        if place:
            layer["input"] = f"l{place - 1}"
    return found


def test_seconds_end_a_network_of_many_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ms.search("gemm:M=8,N=8,K=8", "mm256", store=False)  # compiles
    source = tmp_path / "many.yaml"
    source.write_text(json.dumps(many(3000)))
    began = time.monotonic()
    assert call("search", "--network", str(source), "--seconds", "1", "--json", "--no-store") == 1
    # Each a second would be most of an hour.
    assert time.monotonic() - began < 40
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert 0 < len(found["layers"]) < 3000
    assert len(found["layers"]) + len(found["unfinished"]) == 3000
    assert not found["interrupted"]
    assert not found["totals"]["complete"]
    assert found["totals"]["distinct_layers"] == len(found["layers"])
    missing = f"{len(found['unfinished'])} of 3000 layers are missing from the totals."
    assert f"the time is over: {missing}" in said.err.splitlines()[-1]


def test_what_is_there_in_time_is_what_it_would_be_alone() -> None:
    found = ms.search_network(many(2000), "mm256", seconds=1.0, store=False)
    assert found.unfinished
    first = found.layers[0]
    assert first.result is not None
    alone = ms.search(first.workload, "mm256", seconds=60.0, store=False)
    assert first.result.lower_bound <= alone.costs.edp * (1 + 1e-9)
    assert not first.result.proven or first.result.costs.edp == alone.costs.edp
    assert "the time is over" in found.picture()


def test_a_network_that_has_time_is_whole() -> None:
    found = ms.search_network(many(3), "mm256", seconds=60.0, store=False)
    assert found.failure is None
    assert found.totals is not None
    assert (found.totals.complete, found.totals.overall.proven_layers) == (True, 3)


def test_layers_on_ray_share_the_networks_time(
    monkeypatch: pytest.MonkeyPatch, ray_runtime: None
) -> None:
    monkeypatch.setattr(search, "WORTH_RAY_SECONDS", 0.0)
    slow = [f"cnn:N=64,K=720,C=720,P={width},Q=60,R=4,S=4" for width in range(60, 84)]
    request = Request({"name": "slow", "layers": slow}, "mm256", seconds=6.0)
    began = time.monotonic()
    found = search.search_network(request, io.StringIO(), here_seconds=0.0)
    # Each six seconds would be more than a minute on two processors.
    assert time.monotonic() - began < 45
    for layer in found.layers:
        assert layer.result is not None
        assert layer.result.seconds < 6.0
    assert len(found.layers) + len(found.unfinished) == 24


@pytest.mark.parametrize("resident", [False, True])
def test_a_choice_for_all_layers_is_refused_when_its_time_is_over(
    resident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of the layers is an answer for the network."""
    monkeypatch.setattr(time_left, "PATIENCE_SECONDS", 0.0)
    content = chain(2000, 2000) if resident else many(2000)
    what = "layers" if resident else "distinct layers"
    began = time.monotonic()
    with pytest.raises(DataError, match=rf"In 0\.2 s [\d,]+ of 2,000 {what} were begun"):
        ms.search_network(
            content, "mm256", jointly=True, resident=resident, seconds=0.2, store=False
        )
    assert time.monotonic() - began < 40


@pytest.mark.parametrize(("fused", "layers"), [(False, 60), (True, 6)])
def test_where_there_is_no_time_to_list_what_could_stay_nothing_does(
    fused: bool, layers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is an answer all the same, and its bound holds of all that was not looked at."""
    content, store = chain(layers, layers), tmp_path / "store"
    asked: dict[str, Any] = {"jointly": True, "resident": True, "seconds": 2.0}
    whole = ms.search_network(content, "mm256", **asked, store=False)
    with monkeypatch.context() as patch:
        patch.setattr(search_resident, "LISTING", 0.0)
        found = ms.search_network(content, "mm256", **asked, fused=fused, store=store)
        again = ms.search_network(content, "mm256", **asked, fused=fused, store=store)
    assert again.stored is None, "another time there may be more of it"
    assert len(found.ran) == layers
    assert not any(ran.output_stays or ran.input_stays or ran.fused for ran in found.ran)
    sizes = [(layer["gemm"]["N"], layer["gemm"]["K"]) for layer in content["layers"]]
    macs = sum(480 * columns * depth for columns, depth in sizes)
    machine = ms.accelerator("mm256")
    work = macs * machine.mac_energy_pj * sum(480 * n * k // 256 for n, k in sizes)
    assert found.lower_bound == pytest.approx(work, rel=1e-9)
    assert found.lower_bound <= whole.value
    assert found.worth is None
    assert f"0 of {layers - 1} tensors" in found.picture()
    assert "there was no time to look at what could stay" in found.picture()
    assert ms.verify(found).holds


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_ways_that_were_not_begun_are_bounded_and_not_taken(objective: Objective) -> None:
    """Where nothing stays every layer needs a mapping; the others only where there is time."""
    _, steps = load_chain(chain(3, 3))
    device = ms.accelerator("mm256")
    alone = Ways([replace(step, until=place) for place, step in enumerate(steps)], device)
    ways = Ways(steps, device, known=alone)
    begin_all(alone.layers, TimeLeft(60.0))
    begin_all(ways.layers, TimeLeft(-1.0), needed=False)
    assert any(not lines.points for lines in ways.layers)
    proof, bare = (Resident(one, objective) for one in (ways, alone))
    for weight in (None, Fraction(0), Fraction(100)):
        assert proof.sums(proof.choose(weight)) == bare.sums(bare.choose(weight))
    assert not any(way.stays for way in proof.path)
    least = ways.least_of(Fraction(0))
    every = Ways(steps, device)
    begin_all(every.layers, TimeLeft(60.0))
    best = Resident(every, objective).run()
    found = proof.run()  # which begins with them where they may be better
    assert (found.gap, found.value) == (best.gap, best.value)
    assert least <= best.energy


def test_many_layers_of_few_kinds_are_bounded_in_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, their choice and a bound are an answer; the file is read once."""
    read = list[object]()
    monkeypatch.setattr(network, "load_yaml", lambda path: read.append(path) or load_yaml(path))
    source = tmp_path / "many.yaml"
    source.write_text(json.dumps(chain(3000, 3)))
    began = time.monotonic()
    found = ms.search_network(
        source, "mm256", jointly=True, resident=True, seconds=0.5, store=False
    )
    assert time.monotonic() - began < 40
    assert read == [source]
    assert len(found.ran) == 3000
    assert 0 < found.lower_bound <= found.value
    assert found.certificate.seconds < 10


def test_the_layers_that_are_left_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time_left.time, "monotonic", lambda: now)
    clock = TimeLeft(8.0)
    assert clock.share(4) == 2.0
    # Several at a time have more each.
    assert clock.share(4, at_once=2) == 4.0
    # What is worth beginning has a little, but never more than there is.
    assert clock.share(1000) == LEAST_SHARE
    now += 7.75
    assert clock.share(1000) == pytest.approx(0.25)
    with clock.paused():
        now += 60.0
    assert clock.left == pytest.approx(0.25)
    assert not clock.over
    now += 0.25
    assert clock.over
    assert TimeLeft(None).share(7) is None
    assert not TimeLeft(None).over
